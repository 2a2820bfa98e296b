package launch

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/planner/operators"
)

// facts is what a graph comes to under a binding of its dims, worked out from its nodes, shapes and operators alone.
type facts struct {
	p       Plan
	g       *graph.Graph
	binding *graph.Binding
	bytes   []int64        // by value
	shapes  [][]int        // by value
	shows   []*graph.Value // by value: itself, or for a view what that is of
	place   []*graph.Value // by value: whose bytes it lies in
	given   []bool         // by place: the caller gives its memory (Plan.OutputsGiven)
	reads   [][]*graph.Value
	writes  [][]*graph.Value // by node: places in the arena, each once
	lasting []bool           // by place: read after the last step
	until   []int32          // by place: the last node until which it is held outside the graph; −1
	scratch []int64          // by node: work space
}

// arena reports whether a place is in the arena.
func (f *facts) arena(place *graph.Value) bool {
	return place.Kind == graph.Computed && !f.given[place.ID]
}

func newFacts(p Plan) (f *facts, err error) {
	g := p.Graph
	f = &facts{p: p, g: g, shows: make([]*graph.Value, len(g.Values)), place: make([]*graph.Value, len(g.Values)), given: make([]bool, len(g.Values)),
		reads: make([][]*graph.Value, len(g.Nodes)), writes: make([][]*graph.Value, len(g.Nodes)),
		lasting: make([]bool, len(g.Values)), until: slices.Repeat([]int32{-1}, len(g.Values)), scratch: make([]int64, len(g.Nodes))}
	if f.binding, err = graph.Bind(p.Dims); err != nil {
		return nil, err
	}
	if f.shapes, f.bytes, err = operators.Sizes(g, f.binding); err != nil {
		return nil, err
	}
	for i, v := range g.Values {
		f.shows[i], f.place[i] = v, v
	}
	for _, n := range g.Nodes {
		if n.Op.View {
			out, in := n.Outputs[0].ID, n.Inputs[0].ID
			f.shows[out], f.place[out] = f.shows[in], f.place[in]
			continue
		}
		for k, in := range n.Op.Overwrites {
			if n.Outputs[k] != nil {
				f.place[n.Outputs[k].ID] = f.place[n.Inputs[in].ID]
			}
		}
	}
	for _, v := range g.Outputs {
		if x := f.place[v.ID]; p.OutputsGiven && x.Kind == graph.Computed && f.bytes[x.ID] == f.bytes[v.ID] {
			f.given[x.ID] = true
		}
	}
	for i, n := range g.Nodes {
		stop.Poll(p.Context)
		if n.Op.View {
			continue
		}
		f.reads[i], f.writes[i] = f.touched(n.Inputs), f.touched(n.Outputs)
		if f.scratch[i], err = operators.WorkSpace(n, f.binding, p.Lowered); err != nil {
			return nil, fmt.Errorf("node %q (%s): %w", n.Name, n.Op.FullName(), err)
		}
	}
	for _, v := range g.Outputs {
		f.lasting[f.place[v.ID].ID] = true
	}
	for _, u := range g.Updates {
		f.lasting[f.place[u.New.ID].ID] = true
	}
	for _, h := range g.Holds {
		x := f.place[h.Value.ID].ID
		f.until[x] = max(f.until[x], h.Until.ID)
	}
	return f, nil
}

// touched lists the places in the arena of values, each once.
func (f *facts) touched(values []*graph.Value) (places []*graph.Value) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if p := f.place[v.ID]; f.arena(p) && !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places
}

// over lists the places that a node may write its first output over if they die there: as large, and not held outside
// the graph up to the node.
func (f *facts) over(n *graph.Node) (places []*graph.Value) {
	out := n.Outputs[0]
	if out == nil || f.place[out.ID] != out || !f.arena(out) || f.bytes[out.ID] == 0 {
		return nil
	}
	for _, v := range graph.Overwritable(n, func(v *graph.Value) *graph.Value { return f.place[v.ID] }) {
		p := f.place[v.ID]
		if f.arena(p) && f.bytes[v.ID] == f.bytes[out.ID] && f.bytes[p.ID] == f.bytes[out.ID] && f.until[p.ID] < n.ID {
			places = append(places, p)
		}
	}
	return places
}

// held is, by place, the step before which it stays as it was made first, whatever runs again: the end for what lasts.
func (f *facts) held(steps []Step) []int32 {
	first := slices.Repeat([]int32{-1}, len(f.g.Nodes))
	for i, s := range steps {
		if !s.Again {
			first[s.Node] = int32(i)
		}
	}
	held := make([]int32, len(f.g.Values))
	for p, until := range f.until {
		if until >= 0 && f.arena(f.g.Values[p]) {
			held[p] = first[until]
		}
		if f.lasting[p] {
			held[p] = int32(len(steps))
		}
	}
	return held
}

// dies is, by step, the first place that it may write its result over: one that is not read later. Nil is none. It goes
// back from the last step, by what is needed behind the one at hand.
func (f *facts) dies(steps []Step, held []int32) []*graph.Value {
	needed, dying := make([]bool, len(f.g.Values)), make([]*graph.Value, len(steps))
	copy(needed, f.lasting)
	ends := map[int32][]int32{} // by step: places that are held until it has run
	for p, until := range f.until {
		if until >= 0 {
			ends[held[p]] = append(ends[held[p]], int32(p))
		}
	}
	for i, s := range slices.Backward(steps) {
		for _, p := range ends[int32(i)] {
			needed[p] = true
		}
		for _, p := range f.writes[s.Node] {
			needed[p.ID] = needed[p.ID] && s.Again && int32(i) < held[p.ID]
		}
		for _, p := range f.over(f.g.Nodes[s.Node]) {
			if !needed[p.ID] {
				dying[i] = p
				break
			}
		}
		for _, p := range f.reads[s.Node] {
			needed[p.ID] = true
		}
	}
	return dying
}
