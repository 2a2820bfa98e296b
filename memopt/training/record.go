package training

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"memopt/internal/schedule"
	"memopt/internal/visible"
	"memopt/internal/whole"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/planfile"
)

// Record trains by run, and writes the time of every node to a file that plans are priced by.
func Record(m *step.Model, p *planner.Plan, t Options, path string, run func(*step.Model, *planner.Plan, Options) (*Result, error)) (*Result, error) {
	r := &recorder{}
	alone := *m
	alone.Config.FuseChains = "off" // times of chains do not divide among nodes
	t.times = r
	result, err := run(&alone, p, t)
	if err != nil {
		return result, err
	}
	if len(r.times) == 0 {
		return result, exit.Input(fmt.Errorf("device %s does not tell what its launches take, so there is nothing to record", result.Device))
	}
	s, err := p.Schedule()
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(r.profile(p, s), "", " ")
	if err != nil {
		return nil, err
	}
	if err := whole.Bytes(path, visible.Bytes(append(data, '\n'))); err != nil {
		return nil, exit.Input(fmt.Errorf("%s: %w", path, err))
	}
	return result, nil
}

// recorder is a device that records the times of its launches.
type recorder struct {
	devices.Device
	times [][]time.Duration // by launch, for each run with an update
}

// Run runs the step and records its times.
func (r *recorder) Run(run schedule.Run) (schedule.Trace, error) {
	run.Times = true
	trace, err := r.Device.Run(run)
	if err != nil || run.Accumulate {
		return trace, err // such runs omit launches
	}
	if r.times == nil {
		r.times = make([][]time.Duration, len(trace.Launches))
	}
	for i, t := range trace.Launches {
		r.times[i] = append(r.times[i], t)
	}
	return trace, nil
}

// profile takes the median of each node over all launches and runs. The first run warms up caches, and is ignored
// if there are others.
func (r *recorder) profile(p *planner.Plan, s *schedule.Schedule) step.NodeTimes {
	f := step.NodeTimes{Format: step.ProfileFormat, Device: r.Name(), Fingerprint: p.Graph.Fingerprint(), Dims: p.Request.Dims, Program: planfile.Program(p.Graph)}
	if f.Dims == nil {
		f.Dims = map[string]int64{}
	}
	all := make([][]time.Duration, len(p.Graph.Nodes))
	for i, l := range s.Launches {
		if l.Node == nil || i >= len(r.times) {
			continue
		}
		f.Runs = len(r.times[i])
		all[l.Node.ID] = append(all[l.Node.ID], r.times[i][min(1, len(r.times[i])-1):]...)
	}
	units := p.PlainCosts()
	for i, n := range p.Graph.Nodes {
		if times := all[i]; len(times) > 0 {
			slices.Sort(times)
			f.Nodes = append(f.Nodes, step.NodeTime{Name: n.Name, Seconds: times[len(times)/2].Seconds(), Units: units[n.Name]})
		}
	}
	return f
}
