package memopt

import (
	"context"

	"memopt/configs"
	"memopt/kernels/vulkan"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/leak"
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

// FindLeaks repeatedly opens a model, runs two steps of its plan on generated data and closes it, and records what
// remains after each cycle. A Vulkan device and its pipelines stay open throughout: memory that a driver retains
// for closed devices is not a leak of the model. done is called after each cycle.
func FindLeaks(ctx context.Context, path string, c configs.Config, cycles int, done func(cycle int)) (*Leaks, error) {
	on, err := openKept(c)
	if err != nil {
		return nil, err
	}
	var kept leak.Device
	if on != nil {
		defer on.Close()
		kept = on
	}
	l, w := &Leaks{Cycles: cycles}, leak.NewWatch(kept)
	for i := range cycles {
		if l.Device, err = cycle(ctx, path, c, on); err != nil {
			return nil, err
		}
		w.Note()
		done(i + 1)
	}
	l.Owners = leak.Find(w.Series())
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
