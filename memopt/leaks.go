package memopt

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/weights"
	"memopt/kernels/vulkan"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/leak"
	"memopt/memopt/machine"
	"memopt/memopt/training"
)

// Leaks reports the growth over cycles of load, step and unload.
type Leaks struct {
	Device string
	Cycles int
	Owners []leak.Growth
}

// Grow reports whether anything grows.
func (l *Leaks) Grow() bool {
	for _, o := range l.Owners {
		if o.Grows {
			return true
		}
	}
	return false
}

// owners are the figures recorded after each cycle; own marks those that only Vulkan devices have.
var owners = []struct {
	name  string
	bytes bool
	size  func(w weights.Stats, heap *runtime.MemStats, on *vulkan.Context) int64
	own   bool
}{
	{"memory of the process without files", true, func(weights.Stats, *runtime.MemStats, *vulkan.Context) int64 { return machine.AnonymousMemory() }, false},
	{"Go heap", true, func(_ weights.Stats, heap *runtime.MemStats, _ *vulkan.Context) int64 { return int64(heap.HeapAlloc) }, false},
	{"memory outside the Go heap", true, func(weights.Stats, *runtime.MemStats, *vulkan.Context) int64 { return arena.Mapped() }, false},
	{"weights, mapped", true, func(w weights.Stats, _ *runtime.MemStats, _ *vulkan.Context) int64 { return w.Mapped }, false},
	{"weights, in memory", true, func(w weights.Stats, _ *runtime.MemStats, _ *vulkan.Context) int64 { return w.Heap }, false},
	{"memory of the device", true, func(_ weights.Stats, _ *runtime.MemStats, on *vulkan.Context) int64 { return on.Held() }, true},
	{"objects of the device", false, func(_ weights.Stats, _ *runtime.MemStats, on *vulkan.Context) int64 { return int64(on.Live()) }, true},
	{"goroutines", false, func(weights.Stats, *runtime.MemStats, *vulkan.Context) int64 { return int64(runtime.NumGoroutine()) }, false},
	{"open files", false, func(weights.Stats, *runtime.MemStats, *vulkan.Context) int64 { return openFiles() }, false},
}

// openFiles is the number of open file descriptors; 0 if the system does not report it.
func openFiles() int64 {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(all))
}

// FindLeaks repeatedly opens a model, runs two steps of its plan on generated data and closes it, and records what
// remains after each cycle. A Vulkan device and its pipelines stay open throughout: memory that a driver retains
// for closed devices is not a leak of the model. done is called after each cycle.
func FindLeaks(ctx context.Context, path string, c configs.Config, cycles int, done func(cycle int)) (*Leaks, error) {
	on, err := openKept(c)
	if err != nil {
		return nil, err
	}
	if on != nil {
		defer on.Close()
	}
	l := &Leaks{Cycles: cycles}
	sizes := make([][]int64, len(owners))
	for i := range cycles {
		if l.Device, err = cycle(ctx, path, c, on); err != nil {
			return nil, err
		}
		debug.FreeOSMemory() // free everything unreferenced
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		w := weights.Snapshot()
		for k, o := range owners {
			if on != nil || !o.own {
				sizes[k] = append(sizes[k], o.size(w, &heap, on))
			}
		}
		done(i + 1)
	}
	var series []leak.Series
	for k, o := range owners {
		if sizes[k] != nil {
			series = append(series, leak.Series{Name: o.name, Bytes: o.bytes, Sizes: sizes[k]})
		}
	}
	l.Owners = leak.Find(series)
	return l, nil
}

// openKept opens the device that the settings name; nil if it is the processor.
func openKept(c configs.Config) (*vulkan.Context, error) {
	kind, which, err := devices.Find(c.Device)
	if err != nil || kind.Name != "vulkan" {
		return nil, err
	}
	p, err := vulkan.Choose(which)
	if err != nil {
		return nil, exit.Cannot(err)
	}
	on, err := vulkan.Share(p)
	if err != nil {
		return nil, exit.Cannot(err)
	}
	return on, nil
}

func cycle(ctx context.Context, path string, c configs.Config, on *vulkan.Context) (device string, err error) {
	m, err := OpenContext(ctx, path, c)
	if err != nil {
		return "", err
	}
	defer m.Close()
	p, err := m.Plan()
	if err != nil {
		return "", err
	}
	r, err := Run(m, p, training.Options{Steps: 2, LR: c.LR, Seed: c.Seed, On: on})
	if err != nil {
		return "", err
	}
	return r.Device, nil
}
