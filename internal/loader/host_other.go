//go:build !linux

package loader

type resident struct{ anon, file, shmem int64 }

// The process's memory is measured on Linux only.

func hostNow() resident { return resident{} }
func highWater() int64  { return 0 }
func resetHighWater()   {}
func goHeap() int64     { return 0 }
