package session

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/cpu"
	"memopt/planner"
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
	host     *cpu.Device     // the processor, which runs in memory of the session; nil: another device
	// Of a device with its own memory:
	places Places          // where inputs and outputs are bound
	device Device          // nil: it is not open yet
	block  *block          // memory of its values
	fed    map[string]bool // inputs whose values are on the device
}

// plan plans the program for sizes of dims and some results. On the processor, results lie outside
// the arena.
func (s *Session) plan(ctx context.Context, p *program, dims map[string]int64, fetches []Fetch) (*pattern, error) {
	own := s.options.Device == nil
	g := p.g
	if own {
		g = p.making(fetches)
	}
	plan, err := planner.Make(g, planner.Request{Dims: dims, Strategy: "keep-all", Lowered: s.options.Lowered, OutputsGiven: own, Context: ctx})
	if err != nil {
		return nil, err
	}
	t := &pattern{p: p, bound: plan.Result.Peak}
	if own {
		t.schedule, err = plan.Schedule()
	} else {
		t.schedule, _, err = plan.Chained()
	}
	if err != nil {
		return nil, err
	}
	t.height, t.inputs, t.state = t.schedule.Arena, t.schedule.Staging, t.schedule.State
	for _, f := range fetches {
		name := p.outputs[f.Name].Name
		t.results = append(t.results, t.schedule.Outputs[slices.IndexFunc(t.schedule.Outputs, func(r schedule.Ref) bool { return r.Value.Name == name })])
	}
	if !own {
		return t, nil
	}
	if t.read = inputsRead(t.schedule); !s.options.Pattern {
		t.height = 0 // values are allocated one by one
	}
	if s.pool == nil && !s.options.dry {
		s.pool = cpu.NewPoolOf(cmp.Or(s.options.Threads, runtime.GOMAXPROCS(0)))
	}
	t.host, err = cpu.Open(t.schedule, cpu.Options{Given: true, Lent: p.fixed, Pool: s.pool, Workers: 1})
	return t, err
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
