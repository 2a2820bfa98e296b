//go:build !linux

package loader

type resident struct{ anon, file, shmem int64 }

// What the process takes is only asked of Linux.

func hostNow() resident { return resident{} }
func highWater() int64  { return 0 }
func resetHighWater()   {}
func goHeap() int64     { return 0 }
