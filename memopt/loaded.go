package memopt

import (
	"runtime/debug"

	"memopt/memopt/tensorfile"
	"memopt/planner"
)

// loaded is a plan's step on a device, with its weights there.
type loaded struct {
	Device
	plan     *planner.Plan
	schedule *planner.Schedule
	chains   *planner.Chains // nil where launches are the plan's
	watch    *memoryWatch
}

// load schedules a plan and opens a device for it. Close what it returns.
func (m *Model) load(p *planner.Plan, open func(*planner.Schedule) (Device, error)) (l *loaded, err error) {
	l = &loaded{plan: p}
	if l.schedule, l.chains, err = m.schedule(p); err != nil {
		return nil, err
	}
	m.steps.Forget(m.ask().Settings)
	debug.FreeOSMemory() // what planning left behind is not to lie beside the step
	l.watch = watchMemory()
	if l.Device, err = open(l.schedule); err != nil {
		l.watch.end()
		return nil, m.wouldFit(p, l.schedule, err)
	}
	// The weights are on the device now: what becomes of their files later is no matter.
	if m.unchanged(&err); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// openDevice opens the device that settings name.
func (m *Model) openDevice(s *planner.Schedule) (Device, error) {
	return openDevice(m.Config.Device, m.Config.FastPaths, s)
}

// feed is what the step is given: rows of data, or numbers that are made up.
func (l *loaded) feed(data *tensorfile.Set, seed uint64) (*feeder, error) {
	return newFeeder(l.plan.Graph, l.schedule.Binding, data, seed)
}

// once runs the step on the first rows.
func (l *loaded) once(data *tensorfile.Set, seed uint64) (planner.Trace, *feeder, error) {
	feed, err := l.feed(data, seed)
	if err != nil {
		return planner.Trace{}, nil, err
	}
	trace, err := l.Run(planner.Run{Inputs: feed.inputs(0), Seed: seed})
	if err != nil {
		return trace, nil, err
	}
	if err := data.Unchanged(); err != nil {
		return trace, nil, input(err)
	}
	return trace, feed, nil
}

// measured puts into a result what was measured of the step, and closes its device.
func (l *loaded) measured(r *Result, t Training) (err error) {
	r.Anonymous = l.watch.against(l.plan, r.Trace, r.data)
	r.Memory, r.Chains = deviceMemory(l.Device), l.chains
	d := l.Device
	l.Device = nil
	r.Phases, err = t.Phases.close(d, r.beside())
	return err
}

func (l *loaded) close() {
	l.watch.end()
	if l.Device != nil {
		l.Device.Close()
	}
}
