package session

import (
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/cpu"
)

// pattern is a program planned for some shapes and results, and the device that runs it.
type pattern struct {
	p        *program
	results  []schedule.Ref // by fetch
	key      string
	schedule *schedule.Schedule
	height   int64           // of the block for values; 0: none
	bound    int64           // most bytes alive at once
	inputs   int64           // bytes of inputs on a device
	state    int64           // bytes of weights on a device
	read     map[string]bool // inputs that the program reads
	host     *cpu.Device     // the processor, which runs in memory of the session
	// Of a device with its own memory:
	places Places          // where inputs and outputs are bound
	device Device          // nil: it is not open yet
	block  *block          // memory of its values
	fed    map[string]bool // inputs whose values are on the device
}

// sized notes what the schedule takes, and where it has the results of fetches.
func (t *pattern) sized(fetches []Fetch) {
	t.height, t.inputs, t.state = t.schedule.Arena, t.schedule.Staging, t.schedule.State
	for _, f := range fetches {
		name := t.p.outputs[f.Name].Name
		t.results = append(t.results, t.schedule.Outputs[slices.IndexFunc(t.schedule.Outputs, func(r schedule.Ref) bool { return r.Value.Name == name })])
	}
}

// making is the program's graph without what these results do not need.
func (p *program) making(fetches []Fetch) *graph.Graph {
	var names []string
	for _, f := range fetches {
		if name := p.outputs[f.Name].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if !slices.ContainsFunc(p.g.Outputs, func(v *graph.Value) bool { return !slices.Contains(names, v.Name) }) {
		return p.g
	}
	g := p.g.Clone()
	g.Outputs = nil
	for _, name := range names {
		g.Outputs = append(g.Outputs, g.ByName(name))
	}
	g.Prune()
	return g
}

// inputsRead is the inputs that a schedule reads, by name.
func inputsRead(s *schedule.Schedule) map[string]bool {
	at, read := map[int64]bool{}, map[string]bool{}
	note := func(refs []schedule.Ref) {
		for _, r := range refs {
			if r.Space == schedule.Staging {
				at[r.Offset] = true
			}
		}
	}
	for _, l := range s.Launches {
		note(l.In)
	}
	note(s.Outputs)
	for _, r := range s.Fixed {
		if r.Space == schedule.Staging && at[r.Offset] {
			read[r.Value.Name] = true
		}
	}
	return read
}

// tensor is the type and shape of a result.
func (t *pattern) tensor(k int) *graph.Tensor {
	r := t.results[k]
	return &graph.Tensor{Type: r.Value.Type, Shape: slices.Clone(r.Shape)}
}

// bytes is the bytes of a result.
func (t *pattern) bytes(k int) int64 { return bytesOf(t.tensor(k)) }
