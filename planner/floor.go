package planner

import (
	"memopt/memopt/graph"
)

// Floor is the peak that no plan in this order can go below, and why.
type Floor struct {
	Peak int64
	Node string
}

// floor is the largest need of a single step: what it reads and writes, and
// what is alive across it in every plan.
func (m *model) floor() Floor {
	steps := m.order(make([]bool, len(m.g.Nodes)))
	held := m.held(steps)
	across := make([]int64, len(steps)+1)
	for o, h := range held {
		if h.from < h.to {
			across[h.from] += m.bytes[o]
			across[h.to] -= m.bytes[o]
		}
	}
	var f Floor
	run := int64(0)
	for i, s := range steps {
		run += across[i]
		need := run + m.scratch[s.Node]
		n := m.g.Nodes[s.Node]
		for _, o := range m.inputs[s.Node] {
			if !held[o].has(i) {
				need += m.bytes[o]
			}
		}
		for _, o := range m.outputs[s.Node] {
			if n.Outputs[0] == nil || o != n.Outputs[0].ID || !m.mayOverwrite(n, held, i) {
				need += m.bytes[o]
			}
		}
		if need > f.Peak {
			f = Floor{need, n.Name}
		}
	}
	return f
}

// stretch is half-open steps of the plain order.
type stretch struct{ from, to int32 }

func (s stretch) has(step int) bool { return int(s.from) <= step && step < int(s.to) }

// held is, by owner, the steps across which every plan holds a value without
// touching it: between its maker and its last reader, if it is made once.
func (m *model) held(steps []Step) []stretch {
	held := make([]stretch, len(m.g.Values))
	for i, s := range steps {
		for _, o := range m.inputs[s.Node] {
			held[o].to = int32(i)
		}
		for _, o := range m.outputs[s.Node] {
			held[o] = stretch{int32(i) + 1, int32(i) + 1}
		}
	}
	for o := range held {
		switch n := m.g.Values[o].Def; {
		case m.fixed[o]:
			held[o] = stretch{}
		case m.lasting[o]:
			held[o].to = int32(len(steps))
		case n != nil && m.mayRunAgain(n):
			held[o] = stretch{}
		}
	}
	return held
}

// mayOverwrite reports whether a node might write output 0 over an input.
func (m *model) mayOverwrite(n *graph.Node, held []stretch, step int) bool {
	for k, v := range n.Inputs {
		if v == nil || !overInput(n, k) {
			continue
		}
		o := m.owner[v.ID]
		if !m.fixed[o] && m.bytes[o] == m.bytes[n.Outputs[0].ID] && !held[o].has(step) {
			return true
		}
	}
	return false
}
