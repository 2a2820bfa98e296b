package memopt

import (
	"runtime/debug"

	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/machine"
	"memopt/planner"
	"memopt/planner/chains"
)

// loaded is a plan's step on a device that holds the weights.
type loaded struct {
	devices.Device
	plan     *planner.Plan
	schedule *schedule.Schedule
	chains   *chains.Chains // nil if launches are not fused
	watch    *machine.Watch
}

// load schedules a plan and opens a device for it. The caller must close the result.
func loadPlanned(m *Model, p *planner.Plan, open func(*schedule.Schedule) (devices.Device, error)) (l *loaded, err error) {
	l = &loaded{plan: p}
	if l.schedule, l.chains, err = m.schedule(p); err != nil {
		return nil, err
	}
	m.steps.Forget(m.ask().Settings)
	debug.FreeOSMemory() // return the memory of planning to the system before the step allocates
	l.watch = machine.NewWatch()
	if l.Device, err = open(l.schedule); err != nil {
		l.watch.End()
		return nil, m.wouldFit(p, l.schedule, err)
	}
	// The device has its own copy of the weights now: later changes of the files do not matter.
	if m.unchanged(&err); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// openDevice opens the device that the settings name.
func openDevice(m *Model, s *schedule.Schedule) (devices.Device, error) {
	o, err := devices.By(m.Config)
	if err != nil {
		return nil, err
	}
	return devices.Open(m.Config.Device, s, o)
}

// feed provides the step's inputs: rows of data, or generated ones.
func (l *loaded) feed(data *tensorfile.Set, seed uint64) (*feed.Feeder, error) {
	return feed.New(l.plan.Graph, l.schedule.Binding, data, seed)
}

// once runs the step on the first batch.
func (l *loaded) once(data *tensorfile.Set, seed uint64) (schedule.Trace, *feed.Feeder, error) {
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

// measured fills in a result's measurements, and closes the device.
func (l *loaded) measured(r *Result, t Training) (err error) {
	r.Anonymous = anonymousOf(l.watch, l.plan, r.Trace, r.data, t.loaded)
	r.Memory, r.Counts, r.Chains, r.Load = devices.MemoryOf(l.Device), devices.CountsOf(l.Device), l.chains, t.loaded
	d := l.Device
	l.Device = nil
	r.Phases, err = t.Phases.CloseDevice(d, r.beside())
	return err
}

func (l *loaded) close() {
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
