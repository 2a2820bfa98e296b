package memopt

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"memopt/configs"
	"memopt/memopt/leak"
	"memopt/memopt/weights"
)

// Leaks is what cycles of load, step and unload made grow.
type Leaks struct {
	Device string
	Cycles int
	Owners []leak.Growth
}

// Grow reports whether anything does.
func (l *Leaks) Grow() bool {
	for _, o := range l.Owners {
		if o.Grows {
			return true
		}
	}
	return false
}

// owners are what is looked at after each cycle.
var owners = []struct {
	name  string
	bytes bool
	size  func(w weights.Stats, heap *runtime.MemStats) int64
}{
	{"memory of the process without files", true, func(weights.Stats, *runtime.MemStats) int64 { return AnonymousMemory() }},
	{"Go heap", true, func(_ weights.Stats, heap *runtime.MemStats) int64 { return int64(heap.HeapAlloc) }},
	{"weights, mapped", true, func(w weights.Stats, _ *runtime.MemStats) int64 { return w.Mapped }},
	{"weights, in memory", true, func(w weights.Stats, _ *runtime.MemStats) int64 { return w.Heap }},
	{"weights, on devices", true, func(w weights.Stats, _ *runtime.MemStats) int64 { return w.Device }},
	{"goroutines", false, func(weights.Stats, *runtime.MemStats) int64 { return int64(runtime.NumGoroutine()) }},
	{"open files", false, func(weights.Stats, *runtime.MemStats) int64 { return openFiles() }},
}

// openFiles is how many descriptors the process has; 0 where the system does not tell.
func openFiles() int64 {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int64(len(all))
}

// FindLeaks opens a model, runs two steps of its plan on made-up numbers and closes it,
// cycle after cycle, and tells what is left each time. Done is called after each.
func FindLeaks(ctx context.Context, path string, c configs.Config, cycles int, done func(cycle int)) (*Leaks, error) {
	l := &Leaks{Cycles: cycles}
	series := make([]leak.Series, len(owners))
	for i, o := range owners {
		series[i] = leak.Series{Name: o.name, Bytes: o.bytes}
	}
	for i := range cycles {
		var err error
		if l.Device, err = cycle(ctx, path, c); err != nil {
			return nil, err
		}
		debug.FreeOSMemory() // so that what nothing refers to is gone
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		w := weights.Snapshot()
		for k, o := range owners {
			series[k].Sizes = append(series[k].Sizes, o.size(w, &heap))
		}
		done(i + 1)
	}
	l.Owners = leak.Find(series)
	return l, nil
}

func cycle(ctx context.Context, path string, c configs.Config) (device string, err error) {
	m, err := OpenContext(ctx, path, c)
	if err != nil {
		return "", err
	}
	defer m.Close()
	p, err := m.Plan()
	if err != nil {
		return "", err
	}
	r, err := m.Run(p, Training{Steps: 2, LR: c.LR, Seed: c.Seed})
	if err != nil {
		return "", err
	}
	return r.Device, nil
}
