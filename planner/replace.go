package planner

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
)

// replacements follows what operators write over parameters and states. It
// refuses a graph whose order reads one after it was replaced, since the old
// bytes are gone then, and marks the nodes that may run again.
func (m *model) replacements() error {
	g := m.g
	holds := make([]int32, len(g.Values)) // by owner: the value in its place now
	by := make([]int32, len(g.Values))    // by owner: the node that replaced it first, −1
	for i := range holds {
		holds[i], by[i] = int32(i), -1
	}
	stale := func(v *graph.Value) error {
		if o := m.owner[v.ID]; m.fixed[o] && by[o] >= 0 && holds[o] != content(v).ID {
			return fmt.Errorf("reads %q after node %q has replaced it", v.Name, g.Nodes[by[o]].Name)
		}
		return nil
	}
	for _, n := range g.Nodes {
		where := func(err error) error { return fmt.Errorf("node %q (%s) %w", n.Name, n.Op.FullName(), err) }
		for _, v := range n.Inputs {
			if v == nil {
				continue
			}
			if err := stale(v); err != nil {
				return where(err)
			}
		}
		for i, in := range n.Op.Overwrites {
			if n.Outputs[i] == nil {
				continue
			}
			o := m.owner[n.Inputs[in].ID]
			if state := g.Values[o]; !m.fixed[o] || state.Kind == graph.Input {
				return where(fmt.Errorf("replaces %q, which is no parameter or state", state.Name))
			}
			for k, v := range n.Inputs {
				if k != in && v != nil && m.owner[v.ID] == o {
					return where(fmt.Errorf("reads %q twice, and replaces it", v.Name))
				}
			}
			if by[o] < 0 {
				by[o] = n.ID
			}
			holds[o] = n.Outputs[i].ID
		}
	}
	if err := m.after(by, stale); err != nil {
		return err
	}
	m.markRepeatable(by)
	return nil
}

// after checks what is read after the last node: outputs, and the new states.
func (m *model) after(by []int32, stale func(*graph.Value) error) error {
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
		if o := m.owner[u.New.ID]; moved[o] {
			return fmt.Errorf("the update of %q reads %q, which has an update itself", u.State.Name, u.New.Name)
		}
	}
	for _, v := range m.g.Outputs {
		o := m.owner[v.ID]
		if err := stale(v); err != nil {
			return fmt.Errorf("output %q %w", v.Name, err)
		}
		if moved[o] {
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

// markRepeatable sets the nodes that a plan may run again: those whose result
// somebody needs behind the forward pass, and that do not read a state which
// may have been replaced by then.
func (m *model) markRepeatable(by []int32) {
	read := make([]int32, len(m.g.Values)) // by owner: the first node behind the forward pass
	for i, n := range slices.Backward(m.g.Nodes) {
		if n.Phase != graph.Forward {
			for _, o := range m.inputs.Of(n.ID) {
				read[o] = int32(i)
			}
		}
	}
	m.may = make([]bool, len(m.g.Nodes))
	need := make([]int32, len(m.g.Values)) // by owner: the latest moment for what is made of it
	for i, n := range slices.Backward(m.g.Nodes) {
		if !repeatable(n) {
			continue
		}
		moment := int32(0)
		for _, o := range m.outputs.Of(n.ID) {
			moment = max(moment, need[o], read[o])
		}
		gone := func(v *graph.Value) bool {
			return v != nil && by[m.owner[v.ID]] >= 0 && by[m.owner[v.ID]] < moment
		}
		if moment == 0 || slices.ContainsFunc(n.Inputs, gone) {
			continue
		}
		m.may[i] = true
		for _, o := range m.inputs.Of(n.ID) {
			need[o] = max(need[o], moment)
		}
	}
}
