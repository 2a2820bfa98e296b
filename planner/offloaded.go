package planner

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/planner/moving"
	"memopt/planner/profile"
)

// Offload is a trainer's own: what autograd saves is elsewhere between its last use in the forward pass and its first in the
// backward pass, whether that helps or not.
type Offload struct {
	Place  string   // of profile.Places; "" is the host
	Values []string // nil: all that the backward pass reads of the forward pass
	Least  int64    // values of fewer bytes stay
	Waits  bool     // operators wait for each copy; otherwise copies run beside them
	Beside int64    // bytes that are copied, too, and free nothing: parameters
}

// Offloaded is what a step takes under an offload, as a point beside the plans of a frontier.
type Offloaded struct {
	Point
	CopyNS, WaitNS int64
	Idle           int64 // bytes that are copied and stay all the same, as the program holds them, or never leaves them alone
}

// UnderOffload is a step under an offload.
func UnderOffload(g *graph.Graph, r Request, o Offload) (f Offloaded, err error) {
	r.Elsewhere = &Elsewhere{Place: o.Place}
	if o.Place == "" {
		r.Elsewhere.Place = profile.Host
	}
	s, err := Look(g, r)
	if err == nil {
		err = r.Elsewhere.Check(r.Prices())
	}
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		return f, err
	}
	m := s.m
	c := &candidate{t: m.simulate(m.order(nil)), by: byMoves}
	l := m.line(c.t, m.far(r.Elsewhere))
	border := int32(slices.IndexFunc(c.t.steps, func(s Step) bool { return g.Nodes[s.Node].Phase != graph.Forward }))
	spans, err := m.offloaded(c.t, o, border)
	if err != nil {
		return f, err
	}
	var moved []moving.Crossing
	var idle []int64 // bytes of copies that free nothing
	for _, k := range spans {
		at := slices.IndexFunc(l.Spans[k].Idle, func(d moving.Idle) bool { return d.From <= border && border <= d.To })
		if at >= 0 {
			d := l.Spans[k].Idle[at]
			moved = append(moved, moving.Crossing{Span: k, Idle: d, At: min(border, d.To-1)})
			continue
		}
		idle = append(idle, m.align(c.t.lives[k].bytes))
		f.Idle += c.t.lives[k].bytes
	}
	if o.Beside > 0 {
		idle, f.Idle = append(idle, o.Beside), f.Idle+o.Beside
	}
	moves := l.Moves(moved, o.Waits)
	c.wait = l.Wait(moves)
	for _, bytes := range idle {
		took := l.Far.Out.Time(bytes) + l.Far.In.Time(bytes)
		if f.CopyNS += took; o.Waits {
			c.wait += took
		}
	}
	var names []int32
	c.t, names = m.cut(c.t, moves)
	placed, _ := m.place(c, 0, 0)
	if !m.elsewhere(placed, l, moves, names) {
		return f, fmt.Errorf("there is no room at the %s for what the offload moves", r.Elsewhere.Place)
	}
	for _, x := range placed.away {
		f.CopyNS += l.Far.Out.Time(m.align(x.Bytes)) + l.Far.In.Time(m.align(x.Bytes))
	}
	f.Point, f.WaitNS = s.point("", placed), c.wait
	return f, nil
}

// offloaded are the lives of a plain step that an offload moves.
func (m *model) offloaded(t *timeline, o Offload, border int32) (spans []int32, err error) {
	var wanted []bool // by value of the graph
	if o.Values != nil {
		wanted = make([]bool, len(m.g.Values))
		for _, name := range o.Values {
			v := m.g.ByName(name)
			if v == nil {
				return nil, fmt.Errorf("it moves %q, which is no value of the step", name)
			}
			for ; ; v = v.Def.Inputs[0] { // views lie in what they are of
				if wanted[v.ID] = true; v.Def == nil || !v.Def.Op.View {
					break
				}
			}
		}
	}
	read := make([]bool, len(m.owners)) // by value of p, in the backward pass
	for i, s := range t.steps {
		for _, v := range m.p.Inputs.Of(m.op[s.Node]) {
			read[v] = read[v] || int32(i) >= border
		}
	}
	made := 0
	for i, s := range t.steps {
		for _, v := range m.p.Outputs.Of(m.op[s.Node]) {
			owner, life := m.owners[v], t.buffer[made]
			if made++; int32(i) < border && read[v] && m.bytes[owner] > 0 && m.bytes[owner] >= o.Least && (wanted == nil || wanted[owner]) && !slices.Contains(spans, life) {
				spans = append(spans, life)
			}
		}
	}
	return spans, nil
}
