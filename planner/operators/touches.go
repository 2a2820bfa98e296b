package operators

import (
	"math"

	"memopt/internal/graph"
	"memopt/planner/profile"
)

// Touches is the memory that each node of a graph reads and writes, for profiles that price how long ago that was touched before.
type Touches struct{ of [][]profile.Touch }

// Of is a node's memory.
func (t Touches) Of(node int32) []profile.Touch {
	if t.of == nil {
		return nil
	}
	return t.of[node]
}

// TouchesFor follows the plain step through memory, if the profile prices that: values of these bytes take the place of the last one of their
// size that is gone, as allocators have it, and what the step touches first was touched long before.
func TouchesFor(p *profile.Profile, g *graph.Graph, bytes []int64) (t Touches) {
	if p.Far == nil {
		return t
	}
	t.of = make([][]profile.Touch, len(g.Nodes))
	owner, last, touched := lifetimes(g)
	m := &memory{place: make([]int32, len(g.Values)), sums: make([]int64, touched+1), free: map[int64][]int32{}}
	seen := make([]int32, len(g.Values)) // by owner: the node that touched it last, above 0
	for i, n := range g.Nodes {
		if n.Op.View {
			continue
		}
		for _, vs := range [...][]*graph.Value{n.Inputs, n.Outputs} {
			for _, v := range vs {
				if v == nil || bytes[v.ID] == 0 {
					continue
				}
				if o := owner[v.ID]; seen[o] != int32(i+1) {
					seen[o] = int32(i + 1)
					t.of[i] = append(t.of[i], m.touch(o, bytes[o]))
				}
			}
		}
		for _, vs := range [...][]*graph.Value{n.Inputs, n.Outputs} {
			for _, v := range vs {
				if v != nil && last[owner[v.ID]] == int32(i) {
					last[owner[v.ID]] = math.MaxInt32 // once
					m.give(owner[v.ID], bytes[owner[v.ID]])
				}
			}
		}
	}
	return t
}

// lifetimes is the value that each lies in, the last node that needs it (MaxInt32: it lasts), and at most how often values are touched.
func lifetimes(g *graph.Graph) (owner, last []int32, touched int) {
	owner, last = make([]int32, len(g.Values)), make([]int32, len(g.Values))
	for i, v := range g.Values {
		if owner[i] = int32(i); v.Kind != graph.Computed {
			last[i] = math.MaxInt32
		}
	}
	need := func(v *graph.Value, node int32) {
		if v != nil {
			o := owner[v.ID]
			last[o] = max(last[o], node)
		}
	}
	for i, n := range g.Nodes {
		if n.Op.View {
			owner[n.Outputs[0].ID] = owner[n.Inputs[0].ID]
		} else {
			for o, in := range n.Op.Overwrites {
				if n.Outputs[o] != nil {
					owner[n.Outputs[o].ID] = owner[n.Inputs[in].ID]
				}
			}
			for _, vs := range [...][]*graph.Value{n.Inputs, n.Outputs} {
				touched += len(vs)
				for _, v := range vs {
					need(v, int32(i))
				}
			}
		}
	}
	for _, h := range g.Holds {
		need(h.Value, h.Until.ID)
	}
	for _, v := range g.Outputs {
		need(v, math.MaxInt32)
	}
	for _, u := range g.Updates {
		need(u.New, math.MaxInt32)
	}
	return owner, last, touched
}

// memory is places of values, by when they were last touched.
type memory struct {
	place []int32           // by owner: its place, above 0
	at    []int32           // by place: the number of its last touch, above 0
	free  map[int64][]int32 // by size: places without a value
	now   int32
	sums  []int64 // a Fenwick tree: by touch, the bytes of the place that it was the last touch of
}

// touch touches a value, in a place of its own or one that is free.
func (m *memory) touch(owner int32, bytes int64) profile.Touch {
	p := m.place[owner]
	if p == 0 {
		if free := m.free[bytes]; len(free) > 0 {
			p, m.free[bytes] = free[len(free)-1], free[:len(free)-1]
		} else {
			m.at = append(m.at, 0)
			p = int32(len(m.at))
		}
		m.place[owner] = p
	}
	t := profile.Touch{Bytes: bytes, Since: math.MaxInt64}
	if at := m.at[p-1]; at > 0 {
		t.Since = m.sum(m.now) - m.sum(at) + bytes
		m.add(at, -bytes)
	}
	m.now++
	m.at[p-1] = m.now
	m.add(m.now, bytes)
	return t
}

// give frees a value's place.
func (m *memory) give(owner int32, bytes int64) {
	if p := m.place[owner]; p > 0 {
		m.free[bytes] = append(m.free[bytes], p)
		m.place[owner] = 0
	}
}

func (m *memory) add(at int32, bytes int64) {
	for i := int(at); i < len(m.sums); i += i & -i {
		m.sums[i] += bytes
	}
}

func (m *memory) sum(to int32) (bytes int64) {
	for i := to; i > 0; i -= i & -i {
		bytes += m.sums[i]
	}
	return bytes
}
