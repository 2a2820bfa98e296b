package planner

import (
	"fmt"
	"math"
	"slices"

	"memopt/memopt/graph"
)

// Space is where a range of bytes lies.
type Space uint8

// The spaces. State holds parameters, constants and optimizer states, which
// outlive the step; Staging holds the inputs fed to it; Arena everything else.
const (
	Arena Space = iota
	State
	Staging
)

// String is the space's name in reports.
func (s Space) String() string { return [...]string{"arena", "state", "staging"}[s] }

// Ref is a range of bytes, and what is to be seen in them.
type Ref struct {
	Value  *graph.Value // nil: work space, or an omitted input or output
	Space  Space
	Offset int64
	Bytes  int64
	Shape  []int
}

// Launch is one dispatch as data. Copy launches have no Node: they bring a
// new state that was made elsewhere (In[0]) to the state's place (Out[0]).
type Launch struct {
	Node    *graph.Node
	Again   bool
	In, Out []Ref
	Scratch Ref
	// Parts is the launches that Node, a chain, stands for; nil for others. One
	// after another they do the same: what is between them has its place, too.
	Parts []Launch
}

// Schedule is the flat list that a device obeys.
type Schedule struct {
	Launches []Launch
	// Heights of the spaces.
	Arena, State, Staging int64
	// Fixed lists every value outside the arena with its place.
	Fixed []Ref
	// Outputs says where the graph's outputs are after the last launch.
	Outputs []Ref
	// Binding gives the numbers of dims.
	Binding *graph.Binding
	// Lives are the stretches of the arena, for devices that guard them.
	Lives []Life

	classes map[*graph.Value]class // of states that begin as zeros
}

// SameStates reports whether two schedules have the same parameters, constants and states at the same places.
func (s *Schedule) SameStates(o *Schedule) bool {
	states := func(s *Schedule) []Ref {
		return slices.DeleteFunc(slices.Clone(s.Fixed), func(r Ref) bool { return r.Space != State })
	}
	return s.State == o.State && slices.EqualFunc(states(s), states(o), func(a, b Ref) bool {
		return a.Value.Name == b.Value.Name && a.Value.Type == b.Value.Type && a.Offset == b.Offset && a.Bytes == b.Bytes
	})
}

// Life is a stretch of the arena in half-open launches [First, Last).
type Life struct {
	First, Last   int32
	Offset, Bytes int64
}

// Schedule flattens the plan.
func (p *Plan) Schedule() (*Schedule, error) {
	s, f := p.flatten()
	n := 0
	for _, st := range p.Steps {
		n += len(p.Graph.Nodes[st.Node].Inputs) + len(p.Graph.Nodes[st.Node].Outputs)
	}
	f.slab = make([]Ref, n)
	s.Lives = make([]Life, 0, len(p.t.lives))
	for i, l := range p.t.lives {
		s.Lives = append(s.Lives, Life{l.first, l.last, f.offsets[i], l.bytes})
	}
	s.Launches = make([]Launch, 0, len(p.Steps)+len(p.Graph.Updates))
	err := f.launches(func(_ int, l *Launch) error {
		s.Launches = append(s.Launches, *l)
		return nil
	})
	return s, err
}

// flattener makes launches of steps.
type flattener struct {
	p       *Plan
	s       *Schedule
	current []int32 // by owner: the instance that is read; of what is outside the arena the place in the schedule's
	before  []int32 // by output of the last launch: what was read before it
	space   int     // no life before it is work space that is asked for
	slab    []Ref   // of all launches
	holds   *holds
	offsets []int64 // by life
	again   bool    // the slab is one for all launches, each of which is gone when the next is made
}

// flatten is a schedule without launches, and what makes those. Its outputs are
// known when they are made.
func (p *Plan) flatten() (*Schedule, *flattener) {
	m := p.m
	s := &Schedule{Arena: p.Arena, Binding: m.binding}
	f := &flattener{p: p, s: s, current: make([]int32, len(p.Graph.Values)), holds: m.sim.holds.another(), offsets: p.offsets()}
	n := 0
	for o, fixed := range m.fixed {
		if f.current[o] = -1; fixed {
			n++
		}
	}
	s.Fixed = make([]Ref, 0, n)
	s.classes = stateClasses(p.Graph)
	for _, v := range s.byStage(p.Graph, m.fixed) {
		height, space := &s.State, State
		if v.Kind == graph.Input {
			height, space = &s.Staging, Staging
		}
		i := v.ID
		ref := m.ref(v, i, space, align(*height))
		f.current[i] = int32(len(s.Fixed))
		s.Fixed = append(s.Fixed, ref)
		*height = ref.Offset + ref.Bytes
	}
	return s, f
}

// offsets are the places of lives; of those that have none, places behind each other, so that
// each is told from all others.
func (p *Plan) offsets() []int64 {
	if !p.m.unplaced() {
		return p.Offsets
	}
	all, end := make([]int64, len(p.t.lives)), int64(0)
	for i, l := range p.t.lives {
		if end > math.MaxInt64-align(l.bytes) {
			end = 0 // so that whoever looks finds one written over another
		}
		all[i] = end
		end += align(l.bytes)
	}
	return all
}

// workSpace is where a step's is. Steps are asked for in their order, in which
// the lives stand, too.
func (f *flattener) workSpace(step int) (Ref, error) {
	lives := f.p.t.lives
	for ; f.space < len(lives) && int(lives[f.space].first) <= step; f.space++ {
		if l := lives[f.space]; l.scratch && int(l.first) == step {
			return Ref{Space: Arena, Offset: f.offsets[f.space], Bytes: l.bytes}, nil
		}
	}
	return Ref{}, fmt.Errorf("step %d has no work space", step)
}

// refs is where values are, whose numbers are ids.
func (f *flattener) refs(vs []*graph.Value, ids []int32) ([]Ref, error) {
	if len(vs) > len(f.slab) {
		f.slab = make([]Ref, len(vs))
	}
	out := f.slab[:len(vs):len(vs)]
	f.slab = f.slab[len(vs):]
	m := f.p.m
	for i, id := range ids {
		if id < 0 {
			out[i] = Ref{}
			continue
		}
		at := f.current[m.owner[id]]
		switch {
		case at < 0:
			return nil, fmt.Errorf("value %q is read before it is made", vs[i].Name)
		case m.fixed[m.owner[id]]:
			x := &f.s.Fixed[at]
			out[i] = m.ref(vs[i], id, x.Space, x.Offset)
		default:
			out[i] = m.ref(vs[i], id, Arena, f.offsets[f.p.t.buffer[at]])
		}
	}
	return out, nil
}

// launches makes them one after another.
func (f *flattener) launches(yield func(i int, l *Launch) error) error {
	p, m := f.p, f.p.m
	instances := int32(0)
	f.holds.begin()
	slab := f.slab
	var l Launch
	for i, st := range p.Steps {
		if f.again {
			f.slab = slab
		}
		n := p.Graph.Nodes[st.Node]
		l = Launch{Node: n, Again: st.Again}
		var err error
		if l.In, err = f.refs(n.Inputs, m.like.reads.Of(st.Node)); err != nil {
			return err
		}
		f.before = f.before[:0]
		for _, o := range m.outputs.Of(st.Node) {
			if int(instances) == len(p.t.buffer) {
				return fmt.Errorf("value %q is made once more than it has lives", p.Graph.Values[o].Name)
			}
			f.before = append(f.before, f.current[o])
			f.current[o] = instances
			instances++
		}
		if l.Out, err = f.refs(n.Outputs, m.like.makes.Of(st.Node)); err != nil {
			return err
		}
		if st.Again {
			for k, o := range m.outputs.Of(st.Node) {
				if m.lasting[o] || f.holds.held(o) {
					f.current[o] = f.before[k]
				}
			}
		} else {
			f.holds.end(st.Node)
		}
		if m.scratch[st.Node] > 0 {
			if l.Scratch, err = f.workSpace(i); err != nil {
				return err
			}
		}
		if err := yield(i, &l); err != nil {
			return err
		}
	}
	at := len(p.Steps)
	for i, u := range m.like.updates {
		if m.owner[u.made] == m.owner[u.state] {
			continue
		}
		from, err := f.refs([]*graph.Value{p.Graph.Updates[i].New}, []int32{u.made})
		if err != nil {
			return err
		}
		l = Launch{In: from, Out: []Ref{f.s.Fixed[f.current[u.state]]}}
		if err := yield(at, &l); err != nil {
			return err
		}
		at++
	}
	outputs := make([]int32, len(p.Graph.Outputs))
	for i, v := range p.Graph.Outputs {
		outputs[i] = v.ID
	}
	var err error
	f.s.Outputs, err = f.refs(p.Graph.Outputs, outputs)
	return err
}

// ref is a range of bytes that holds a value: a view may show a part, but is read
// where the whole is.
func (m *model) ref(v *graph.Value, id int32, space Space, offset int64) Ref {
	return Ref{v, space, offset, m.bytes[m.owner[id]], m.shapes[m.like.look[id]]}
}

func align(n int64) int64 { return (n + alignment - 1) / alignment * alignment }
