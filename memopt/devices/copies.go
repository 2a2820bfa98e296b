package devices

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"memopt/configs"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/spill"
	"memopt/internal/stop"
	"memopt/planner/profile"
)

// Sizes of the copies that are timed: large ones tell rates, and small ones what a copy takes beside.
const (
	copiedBytes  = 64 << 20
	smallBytes   = 4 << 10
	smallCopies  = 256
	copyRuns     = 5
	stepBytes    = 1 << 20  // of a copy between a step and a file
	besideBytes  = 16 << 20 // that operators beside it go over
	fastestBytes = 1000     // bytes a nanosecond, above any link: clocks have a grain
)

// measureCopies times copies from a device's memory to where its values can be moved, and back: the host's memory, or a file.
// It returns nil where there is no such place.
func measureCopies(ctx context.Context, c configs.Config) (map[string]profile.Copies, error) {
	kind, which, err := Find(c.Device)
	if err != nil {
		return nil, err
	}
	if !kind.Lowered {
		return toFile(ctx, c.SpillFolder)
	}
	d, err := Stores[kind.Name](which)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return toHost(ctx, d)
}

// median times a job.
func median(ctx context.Context, job func() error) (float64, error) {
	var all []time.Duration
	for range copyRuns + 1 {
		stop.Poll(ctx)
		begin := time.Now()
		if err := job(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin))
	}
	all = all[1:] // pages are new to the first
	slices.Sort(all)
	return float64(all[len(all)/2]), nil
}

// rate is the bytes a nanosecond of a copy that took so long, of which some are not for bytes.
func rate(ns, beside float64) float64 {
	return copiedBytes / max(ns-beside, ns/2, copiedBytes/fastestBytes)
}

// toHost times copies between a device's memory and the host's.
func toHost(ctx context.Context, d loader.Device) (map[string]profile.Copies, error) {
	near, err := d.Take(copiedBytes)
	if err != nil {
		return nil, err
	}
	defer near.Free()
	far, err := d.Stage(copiedBytes)
	if err != nil {
		return nil, err
	}
	defer far.Free()
	timed := func(from, to loader.Memory, bytes int64, n int) (float64, error) {
		var all []loader.Move
		for i := range int64(n) {
			all = append(all, loader.Move{From: from, FromAt: i * bytes, To: to, ToAt: i * bytes, Bytes: bytes})
		}
		return median(ctx, func() error { return d.Copy(all) })
	}
	var ns [4]float64 // one small copy, many, a large one out, and one back
	for i, x := range []struct {
		from, to loader.Memory
		bytes    int64
		n        int
	}{{near, far, smallBytes, 1}, {near, far, smallBytes, smallCopies}, {near, far, copiedBytes, 1}, {far, near, copiedBytes, 1}} {
		if ns[i], err = timed(x.from, x.to, x.bytes, x.n); err != nil {
			return nil, err
		}
	}
	delay := max(ns[1]-ns[0], 0) / (smallCopies - 1) // steps have their copies in lists, as the many are
	return map[string]profile.Copies{profile.Host: {Delay: delay, Out: rate(ns[2], ns[0]), In: rate(ns[3], ns[0])}}, nil
}

// toFile times copies to a file and back as steps make them: one after the other, from memory as an arena has it, while operators keep all
// processors busy. A folder that is in memory or has no room tells nothing.
func toFile(ctx context.Context, folder string) (map[string]profile.Copies, error) {
	f, err := spill.Open(folder, copiedBytes)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	if f.InMemory() {
		return nil, nil
	}
	memory := make([]byte, copiedBytes+schedule.Aligned)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	b := memory[schedule.Aligned:] // where no block of a disk begins
	defer operators()()
	var ns [4]float64 // a small copy out and back, and many large ones
	for i, x := range []struct {
		all, each int64
		copy      func([]byte, int64) (int, error)
	}{{smallBytes, smallBytes, f.WriteAt}, {smallBytes, smallBytes, f.ReadAt}, {copiedBytes, stepBytes, f.WriteAt}, {copiedBytes, stepBytes, f.ReadAt}} {
		ns[i], err = median(ctx, func() error {
			for at := int64(0); at < x.all; at += x.each {
				if _, err := x.copy(b[at:at+x.each], at); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	const copies = copiedBytes / stepBytes
	return map[string]profile.Copies{profile.Disk: {Delay: max(ns[0], ns[1]), Out: rate(ns[2], copies*ns[0]), In: rate(ns[3], copies*ns[1])}}, nil
}

// operators keeps all processors as busy as a step does, until it is called back.
func operators() (end func()) {
	var over atomic.Bool
	var waits []func()
	for range runtime.GOMAXPROCS(0) {
		waits = append(waits, stop.Go(func() {
			x := make([]float32, besideBytes/4)
			for !over.Load() {
				for i := range x {
					x[i] = x[i]/2 + 1
				}
			}
		}))
	}
	return func() {
		over.Store(true)
		for _, wait := range waits {
			wait()
		}
	}
}
