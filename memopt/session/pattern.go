package session

import (
	"context"
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner"
)

// pattern is a program planned for some shapes and results; with a device, it runs with inputs and outputs in places.
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

	device Device // nil: a plan only
	// On a device with its own memory:
	places Places // where inputs and outputs are bound
	block  *block // memory of its values
	fed    bool   // it has the inputs of a run
}

// mostPlans is how many plans without places are kept for a device with its own memory.
const mostPlans = 128

// mostPatterns is how many patterns are kept by default: few that take memory of a device, fewer for larger graphs.
func (s *Session) mostPatterns() int {
	const values = 1 << 18
	switch {
	case !s.direct:
		return 8
	case s.first == nil:
		return 16
	}
	return min(max(values/max(len(s.first.g.Values), 1), 4), 128)
}

// plan plans a program for sizes of dims and some results. Where memory is given to a run, results lie outside of the block.
func (s *Session) plan(ctx context.Context, p *program, dims map[string]int64, fetches []Fetch) (*pattern, error) {
	plan, err := planner.Make(p.making(fetches), planner.Request{Dims: dims, Strategy: "keep-all", Lowered: s.options.Lowered, OutputsGiven: s.direct, Context: ctx})
	if err != nil {
		return nil, err
	}
	t := &pattern{p: p, bound: plan.Result.Peak}
	if s.direct {
		t.schedule, err = plan.Schedule()
	} else {
		t.schedule, _, err = plan.Chained()
	}
	if err != nil {
		return nil, err
	}
	t.height, t.inputs, t.state, t.read = t.schedule.Arena, t.schedule.Staging, t.schedule.State, inputsRead(t.schedule)
	if s.direct && !s.options.Pattern {
		t.height = 0 // values are allocated one by one
	}
	for _, f := range fetches {
		name := p.outputs[f.Name].Name
		t.results = append(t.results, t.schedule.Outputs[slices.IndexFunc(t.schedule.Outputs, func(r schedule.Ref) bool { return r.Value.Name == name })])
	}
	return t, nil
}

// making is the program's graph without the nodes that these results do not need. It has all weights: patterns that share
// them have them at the same places.
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
	g.PruneNodes()
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

// placesOf collects the places that a device with its own memory is opened for. Inputs that the graph does not have, and
// those that it copies from the host as usual, are left out.
func (t *pattern) placesOf(s *Session, inputs map[string]Place, fetches []Fetch) (places Places, err error) {
	places = Places{Inputs: map[string]Place{}, Outputs: map[string]Place{}}
	for _, v := range t.p.g.Inputs {
		if p, is := inputs[v.Name]; is && !onHost(p.Buffer) {
			places.Inputs[v.Name] = p
		}
	}
	for k, f := range fetches {
		if !f.buffered() {
			continue
		}
		v := t.results[k].Value
		p, err := f.place(s, t.tensor(k))
		if err != nil {
			return places, err
		}
		if _, twice := places.Outputs[v.Name]; twice {
			return places, fmt.Errorf("output %q is the same value as another output, and both are bound to buffers; bind one of them", f.Name)
		}
		places.Outputs[v.Name] = p
	}
	return places, nil
}
