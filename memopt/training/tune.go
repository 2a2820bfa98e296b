package training

import (
	"fmt"

	"memopt/configs"
	"memopt/internal/stop"
	"memopt/kernels/vulkan"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/step"
)

// TunedKernels is what Tune measured.
type TunedKernels struct {
	Device string
	vulkan.Tuning
	Warnings []string
}

// Tune plans the model that open opens and measures the variants of the kernels that its step would run with, on the settings'
// device, for the next run with --tune on.
func Tune(c configs.Config, open func(configs.Config) (*step.Model, error)) (*TunedKernels, error) {
	kind, which, err := devices.Find(c.Device)
	if err != nil {
		return nil, err
	}
	if kind.Name != "vulkan" {
		return nil, exit.Cannot(fmt.Errorf("device %s has one kernel for each size: there is nothing to measure; --device vulkan names a Vulkan device", kind.Name))
	}
	c.Tune = true
	folder, err := devices.TuneFolder(c)
	if err != nil {
		return nil, err
	}
	m, err := open(c)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p, err := m.Plan()
	if err != nil {
		return nil, err
	}
	s, err := p.Schedule()
	if err != nil {
		return nil, err
	}
	on, err := vulkan.Choose(which)
	if err != nil {
		return nil, exit.Cannot(err)
	}
	return stop.When(m.Ctx, func() (*TunedKernels, error) {
		d, err := vulkan.Open(s, on, vulkan.Options{FastPaths: c.FastPaths, Tune: folder})
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return &TunedKernels{Device: d.Name(), Tuning: *d.Tuned(), Warnings: d.Warnings()}, nil
	})
}
