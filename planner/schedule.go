package planner

import (
	"fmt"

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
}

// Life is a stretch of the arena in half-open launches [First, Last).
type Life struct {
	First, Last   int32
	Offset, Bytes int64
}

// refs counts the inputs and outputs of all launches.
func (p *Plan) refs() (n int) {
	for _, st := range p.Steps {
		n += len(p.Graph.Nodes[st.Node].Inputs) + len(p.Graph.Nodes[st.Node].Outputs)
	}
	return n
}

// Schedule flattens the plan.
func (p *Plan) Schedule() (*Schedule, error) {
	m := p.m
	s := &Schedule{Arena: p.Arena, Binding: m.binding}
	fixed := make([]Ref, len(p.Graph.Values))
	for i, v := range p.Graph.Values {
		if v.Kind == graph.Computed {
			continue
		}
		height, space := &s.State, State
		if v.Kind == graph.Input {
			height, space = &s.Staging, Staging
		}
		ref := m.ref(v, space, align(*height))
		fixed[i] = ref
		s.Fixed = append(s.Fixed, ref)
		*height = ref.Offset + ref.Bytes
	}
	s.Lives = make([]Life, 0, len(p.t.lives))
	for i, l := range p.t.lives {
		s.Lives = append(s.Lives, Life{l.first, l.last, p.Offsets[i], l.bytes})
	}

	current := make([]int32, len(p.Graph.Values)) // by owner: the instance that is read
	before := make([]int32, len(p.Graph.Values))  // by owner: what was read before the last launch
	for i := range current {
		current[i] = -1
	}
	instances := int32(0)
	slab := make([]Ref, p.refs()) // of all launches
	refs := func(vs []*graph.Value) ([]Ref, error) {
		if len(vs) > len(slab) {
			slab = make([]Ref, len(vs))
		}
		out := slab[:len(vs):len(vs)]
		slab = slab[len(vs):]
		for i, v := range vs {
			if v == nil {
				continue
			}
			o := m.owner[v.ID]
			space, offset := fixed[o].Space, fixed[o].Offset
			if !m.fixed[o] {
				if current[o] < 0 {
					return nil, fmt.Errorf("planner: value %q is read before it is made", v.Name)
				}
				space, offset = Arena, p.Offsets[p.t.buffer[current[o]]]
			}
			out[i] = m.ref(v, space, offset)
		}
		return out, nil
	}
	// Work space lives follow their step's in the order of simulate.
	scratch := make([]int64, len(p.Steps)) // by step
	for i, l := range p.t.lives {
		if l.scratch {
			scratch[l.first] = p.Offsets[i]
		}
	}
	s.Launches = make([]Launch, 0, len(p.Steps)+len(p.Graph.Updates))
	for i, st := range p.Steps {
		n := p.Graph.Nodes[st.Node]
		l := Launch{Node: n, Again: st.Again}
		var err error
		if l.In, err = refs(n.Inputs); err != nil {
			return nil, err
		}
		for _, o := range m.outputs[st.Node] {
			if int(instances) == len(p.t.buffer) {
				return nil, fmt.Errorf("planner: value %q is made once more than it has lives", p.Graph.Values[o].Name)
			}
			before[o], current[o] = current[o], instances
			instances++
		}
		if l.Out, err = refs(n.Outputs); err != nil {
			return nil, err
		}
		if st.Again {
			for _, o := range m.outputs[st.Node] {
				if m.lasting[o] {
					current[o] = before[o]
				}
			}
		}
		if m.scratch[st.Node] > 0 {
			l.Scratch = Ref{Space: Arena, Offset: scratch[i], Bytes: m.scratch[st.Node]}
		}
		s.Launches = append(s.Launches, l)
	}
	for _, u := range p.Graph.Updates {
		if m.owner[u.New.ID] == m.owner[u.State.ID] {
			continue
		}
		from, err := refs([]*graph.Value{u.New})
		if err != nil {
			return nil, err
		}
		s.Launches = append(s.Launches, Launch{In: from, Out: []Ref{fixed[u.State.ID]}})
	}
	var err error
	s.Outputs, err = refs(p.Graph.Outputs)
	return s, err
}

func (m *model) ref(v *graph.Value, space Space, offset int64) Ref {
	return Ref{v, space, offset, m.bytes[m.owner[v.ID]], m.shapes[v.ID]} // a view may show a part: it is read where the whole is
}

func align(n int64) int64 { return (n + alignment - 1) / alignment * alignment }
