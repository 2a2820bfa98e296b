package leak

import (
	"os"
	"runtime"
	"runtime/debug"

	"memopt/internal/arena"
	"memopt/internal/weights"
	"memopt/memopt/machine"
)

// Device is a device that stays open over all cycles.
type Device interface {
	Held() int64 // bytes
	Live() int   // objects
}

// owners are the figures that are noted; own marks those that only devices with memory of their own have.
var owners = []struct {
	name  string
	bytes bool
	size  func(w weights.Stats, heap *runtime.MemStats, on Device) int64
	own   bool
}{
	{"memory of the process without files", true, func(weights.Stats, *runtime.MemStats, Device) int64 { return machine.AnonymousMemory() }, false},
	{"Go heap", true, func(_ weights.Stats, heap *runtime.MemStats, _ Device) int64 { return int64(heap.HeapAlloc) }, false},
	{"memory outside the Go heap", true, func(weights.Stats, *runtime.MemStats, Device) int64 { return arena.Mapped() }, false},
	{"weights, mapped", true, func(w weights.Stats, _ *runtime.MemStats, _ Device) int64 { return w.Mapped }, false},
	{"weights, in memory", true, func(w weights.Stats, _ *runtime.MemStats, _ Device) int64 { return w.Heap }, false},
	{"memory of the device", true, func(_ weights.Stats, _ *runtime.MemStats, on Device) int64 { return on.Held() }, true},
	{"objects of the device", false, func(_ weights.Stats, _ *runtime.MemStats, on Device) int64 { return int64(on.Live()) }, true},
	{"goroutines", false, func(weights.Stats, *runtime.MemStats, Device) int64 { return int64(runtime.NumGoroutine()) }, false},
	{"open files", false, func(weights.Stats, *runtime.MemStats, Device) int64 { return openFiles() }, false},
}

// openFiles is the number of open file descriptors; 0 if the system does not report it.
func openFiles() int64 {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(all))
}

// Watch notes what the process and a device hold.
type Watch struct {
	on    Device
	sizes [][]int64 // by owner
}

// NewWatch watches the process, and a device unless it is nil.
func NewWatch(on Device) *Watch { return &Watch{on, make([][]int64, len(owners))} }

// Note notes the sizes after a cycle, when everything that nothing refers to is freed.
func (w *Watch) Note() {
	debug.FreeOSMemory()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	of := weights.Snapshot()
	for k, o := range owners {
		if w.on != nil || !o.own {
			w.sizes[k] = append(w.sizes[k], o.size(of, &heap, w.on))
		}
	}
}

// Series is what was noted.
func (w *Watch) Series() (all []Series) {
	for k, o := range owners {
		if w.sizes[k] != nil {
			all = append(all, Series{Name: o.name, Bytes: o.bytes, Sizes: w.sizes[k]})
		}
	}
	return all
}
