package training

import (
	"runtime/debug"

	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/machine"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/chains"
)

// Loaded is a plan's step on a device that holds the weights.
type Loaded struct {
	devices.Device
	plan     *planner.Plan
	Schedule *schedule.Schedule
	chains   *chains.Chains // nil if launches are not fused
	watch    *machine.Watch
}

// Load schedules a plan and opens a device for it. The caller must close the result.
func Load(m *step.Model, p *planner.Plan, open func(*schedule.Schedule) (devices.Device, error)) (l *Loaded, err error) {
	l = &Loaded{plan: p}
	if l.Schedule, l.chains, err = m.Schedule(p); err != nil {
		return nil, err
	}
	m.Steps.Forget(m.Ask().Settings)
	debug.FreeOSMemory() // return the memory of planning to the system before the step allocates
	l.watch = machine.NewWatch()
	if l.Device, err = open(l.Schedule); err != nil {
		l.watch.End()
		return nil, m.WouldFit(p, l.Schedule, err)
	}
	// The device has its own copy of the weights now: later changes of the files do not matter.
	if m.Unchanged(&err); err != nil {
		l.End()
		return nil, err
	}
	return l, nil
}

// openDevice opens the device that the settings name.
func openDevice(m *step.Model, s *schedule.Schedule) (devices.Device, error) {
	o, err := devices.By(m.Config)
	if err != nil {
		return nil, err
	}
	return devices.Open(m.Config.Device, s, o)
}

// feed provides the step's inputs: rows of data, or generated ones.
func (l *Loaded) feed(data *tensorfile.Set, seed uint64) (*feed.Feeder, error) {
	return feed.New(l.plan.Graph, l.Schedule.Binding, data, seed)
}

// once runs the step on the first batch.
func (l *Loaded) once(data *tensorfile.Set, seed uint64) (schedule.Trace, *feed.Feeder, error) {
	feed, err := l.feed(data, seed)
	if err != nil {
		return schedule.Trace{}, nil, err
	}
	trace, err := l.Run(schedule.Run{Inputs: feed.Inputs(0), Seed: seed})
	if err != nil {
		return trace, nil, err
	}
	if err := data.Unchanged(); err != nil {
		return trace, nil, exit.Input(err)
	}
	return trace, feed, nil
}

// Measured fills in a result's measurements, and closes the device.
func (l *Loaded) Measured(r *Result, t Options) (err error) {
	r.Anonymous = anonymousOf(l.watch, l.plan, r.Trace, r.data, t.Loaded)
	r.Memory, r.Counts, r.Chains, r.Load = devices.MemoryOf(l.Device), devices.CountsOf(l.Device), l.chains, t.Loaded
	d := l.Device
	l.Device = nil
	r.Phases, err = t.Phases.CloseDevice(d, r.beside())
	return err
}

// End closes the device, and ends measuring.
func (l *Loaded) End() {
	l.watch.End()
	if l.Device != nil {
		l.Device.Close()
	}
}

// anonymousOf compares the measured peak with what a plan and the loading of weights promise. It returns nil if the system does not report
// anonymous memory.
func anonymousOf(w *machine.Watch, p *planner.Plan, t schedule.Trace, data *tensorfile.Set, load *loader.Report) *machine.Anonymous {
	a := &machine.Anonymous{Measured: w.Peak()}
	if a.Measured == 0 {
		return nil
	}
	if data != nil {
		a.Data = data.Copied
	}
	if !p.Request.Lowered {
		step := p.Memory.Total + t.Workspace + a.Data
		if load != nil {
			step = max(step, load.Promised)
		}
		a.Promised = step + step/20 + machine.ProgramMemory
	}
	return a
}
