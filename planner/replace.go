package planner

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// replacements follows what operators write over parameters and states. It refuses a graph whose order reads one after
// it was replaced, since the old bytes are gone then, and marks the operators that may run again.
func (m *model) replacements() error {
	g := m.g
	holds, by, shows := make([]int32, len(g.Values)), make([]int32, len(g.Values)), make([]int32, len(g.Values))
	for i := range holds {
		holds[i] = int32(i) // by owner: the value in its place now
		by[i] = -1          // by owner: the node that replaced it first
		shows[i] = int32(i) // by value: itself, or for a view what that is of
	}
	stale := func(v *graph.Value) error {
		if o := m.owner[v.ID]; m.fixed[o] && by[o] >= 0 && holds[o] != shows[v.ID] {
			return fmt.Errorf("reads %q after node %q has replaced it", v.Name, g.Nodes[by[o]].Name)
		}
		return nil
	}
	for i, n := range g.Nodes {
		where := func(err error) error { return fmt.Errorf("node %q (%s) %w", n.Name, n.Op.FullName(), err) }
		for _, v := range n.Inputs {
			if v == nil {
				continue
			}
			if err := stale(v); err != nil {
				return where(err)
			}
		}
		if n.Op.View {
			shows[n.Outputs[0].ID] = shows[n.Inputs[0].ID]
		}
		for k, in := range n.Op.Overwrites {
			if n.Outputs[k] == nil {
				continue
			}
			o := m.owner[n.Inputs[in].ID]
			if kind := g.Values[o].Kind; kind == graph.Computed || kind == graph.Input {
				return where(fmt.Errorf("replaces %q, which is no parameter or state", g.Values[o].Name))
			}
			for j, v := range n.Inputs {
				if j != in && v != nil && m.owner[v.ID] == o {
					return where(fmt.Errorf("reads %q twice, and replaces it", v.Name))
				}
			}
			if by[o] < 0 {
				by[o] = int32(i)
			}
			holds[o] = n.Outputs[k].ID
		}
	}
	m.markRepeatable(by)
	return m.after(by, stale)
}

// after checks what is read after the last node: outputs, and the new states.
func (m *model) after(by []int32, stale func(v *graph.Value) error) error {
	moved := make([]bool, len(m.g.Values)) // by owner: a copy replaces it after the last node
	updated := make([]bool, len(m.g.Values))
	for _, u := range m.g.Updates {
		o := m.owner[u.State.ID]
		updated[o], moved[o] = true, m.owner[u.New.ID] != o
	}
	for _, u := range m.g.Updates {
		if err := stale(u.New); err != nil {
			return fmt.Errorf("the update of %q %w", u.State.Name, err)
		}
		if moved[m.owner[u.New.ID]] {
			return fmt.Errorf("the update of %q reads %q, which has an update itself", u.State.Name, u.New.Name)
		}
	}
	for _, v := range m.g.Outputs {
		if err := stale(v); err != nil {
			return fmt.Errorf("output %q %w", v.Name, err)
		}
		if moved[m.owner[v.ID]] {
			return fmt.Errorf("output %q is replaced at the end of the step", v.Name)
		}
	}
	for o, n := range by {
		if n >= 0 && !updated[o] {
			n := m.g.Nodes[n]
			return fmt.Errorf("node %q (%s) replaces %q, which has no update", n.Name, n.Op.FullName(), m.g.Values[o].Name)
		}
	}
	return nil
}

// markRepeatable marks the operators that a plan may run again: those whose result is needed behind the forward pass,
// and that do not read a state which may have been replaced by then; by is, by owner, the node that replaced it first.
func (m *model) markRepeatable(by []int32) {
	p := &m.p
	p.Again = make([]bool, len(m.nodes))
	read := make([]int32, len(p.Bytes)) // by value of p: the first node behind the forward pass
	need := make([]int32, len(p.Bytes)) // by value of p: the latest moment for what is made of it
	for op, id := range slices.Backward(m.nodes) {
		n := m.g.Nodes[id]
		if n.Phase != graph.Forward {
			for _, v := range p.Inputs.Of(int32(op)) {
				read[v] = id
			}
		}
		p.Again[op] = repeatable(n)
	}
	for op, may := range slices.Backward(p.Again) {
		if !may {
			continue
		}
		moment := int32(0)
		for _, v := range p.Outputs.Of(int32(op)) {
			moment = max(moment, need[v], read[v])
		}
		gone := func(v *graph.Value) bool {
			return v != nil && by[m.owner[v.ID]] >= 0 && by[m.owner[v.ID]] < moment
		}
		if p.Again[op] = moment > 0 && !slices.ContainsFunc(m.g.Nodes[m.nodes[op]].Inputs, gone); p.Again[op] {
			for _, v := range p.Inputs.Of(int32(op)) {
				need[v] = max(need[v], moment)
			}
		}
	}
}
