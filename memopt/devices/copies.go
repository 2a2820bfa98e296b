package devices

import (
	"context"
	"slices"
	"time"

	"memopt/configs"
	"memopt/internal/loader"
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
	fastestBytes = 1000 // bytes a nanosecond, above any link: clocks have a grain
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

// toFile times copies to a file and back. A folder that is in memory or has no room tells nothing.
func toFile(ctx context.Context, folder string) (map[string]profile.Copies, error) {
	f, err := spill.Open(folder, copiedBytes)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	if f.InMemory() {
		return nil, nil
	}
	b := make([]byte, copiedBytes)
	for i := range b {
		b[i] = byte(i * 7)
	}
	var ns [4]float64 // a small copy out and back, and a large one
	for i, x := range []struct {
		bytes int64
		copy  func([]byte, int64) (int, error)
	}{{smallBytes, f.WriteAt}, {smallBytes, f.ReadAt}, {copiedBytes, f.WriteAt}, {copiedBytes, f.ReadAt}} {
		ns[i], err = median(ctx, func() error {
			_, err := x.copy(b[:x.bytes], 0)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return map[string]profile.Copies{profile.Disk: {Delay: max(ns[0], ns[1]), Out: rate(ns[2], ns[0]), In: rate(ns[3], ns[1])}}, nil
}
