package planner

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
)

// replacements follows what operators write over parameters and states. It refuses a graph whose order reads one after
// it was replaced, since the old bytes are gone then, and marks the nodes that may run again.
func (m *model) replacements() error {
	g := m.g
	holds := m.table() // by owner: the value in its place now
	by := m.table()    // by owner: the node that replaced it first, −1
	shows := m.table() // by value: itself, or for a view what that is of
	defer m.done(holds, by, shows)
	for i := range holds {
		holds[i], by[i], shows[i] = int32(i), -1, int32(i)
	}
	stale := func(v int32) error {
		if o := m.owner[v]; m.fixed[o] && by[o] >= 0 && holds[o] != shows[v] {
			return fmt.Errorf("reads %q after node %q has replaced it", g.Values[v].Name, g.Nodes[by[o]].Name)
		}
		return nil
	}
	for i, is := range m.like.traits {
		where := func(err error) error {
			n := g.Nodes[i]
			return fmt.Errorf("node %q (%s) %w", n.Name, n.Op.FullName(), err)
		}
		reads := m.like.reads.Of(int32(i))
		for _, v := range reads {
			if v < 0 {
				continue
			}
			if err := stale(v); err != nil {
				return where(err)
			}
		}
		if is&isView != 0 {
			shows[m.like.makes.Of(int32(i))[0]] = shows[reads[0]]
		}
		if is&overwrites == 0 {
			continue
		}
		makes := m.like.makes.Of(int32(i))
		for k, in := range m.ops[m.kind[i]].Overwrites {
			if makes[k] < 0 {
				continue
			}
			o := m.owner[reads[in]]
			if !m.fixed[o] || m.like.looks[m.like.look[o]].Kind == graph.Input {
				return where(fmt.Errorf("replaces %q, which is no parameter or state", g.Values[o].Name))
			}
			for j, v := range reads {
				if j != in && v >= 0 && m.owner[v] == o {
					return where(fmt.Errorf("reads %q twice, and replaces it", g.Values[v].Name))
				}
			}
			if by[o] < 0 {
				by[o] = int32(i)
			}
			holds[o] = makes[k]
		}
	}
	if err := m.after(by, stale); err != nil {
		return err
	}
	m.markRepeatable(by, holds, shows)
	return nil
}

// after checks what is read after the last node: outputs, and the new states.
func (m *model) after(by []int32, stale func(v int32) error) error {
	moved := make([]bool, len(m.g.Values)) // by owner: a copy replaces it after the last node
	updated := make([]bool, len(m.g.Values))
	for _, u := range m.like.updates {
		o := m.owner[u.state]
		updated[o], moved[o] = true, m.owner[u.made] != o
	}
	for _, u := range m.like.updates {
		name := func(v int32) string { return m.g.Values[v].Name }
		if err := stale(u.made); err != nil {
			return fmt.Errorf("the update of %q %w", name(u.state), err)
		}
		if o := m.owner[u.made]; moved[o] {
			return fmt.Errorf("the update of %q reads %q, which has an update itself", name(u.state), name(u.made))
		}
	}
	for _, v := range m.g.Outputs {
		o := m.owner[v.ID]
		if err := stale(v.ID); err != nil {
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

// markRepeatable sets the nodes that a plan may run again: those whose result is needed behind the forward pass, and
// that do not read a state which may have been replaced by then. It writes over tables by value.
func (m *model) markRepeatable(by, read, need []int32) {
	clear(read) // by owner: the first node behind the forward pass
	clear(need) // by owner: the latest moment for what is made of it
	m.may = make([]bool, len(m.g.Nodes))
	for i, is := range slices.Backward(m.like.traits) {
		if is&isForward == 0 {
			for _, o := range m.inputs.Of(int32(i)) {
				read[o] = int32(i)
			}
		}
		m.may[i] = is&repeats != 0
	}
	for i, may := range slices.Backward(m.may) {
		if !may {
			continue
		}
		n := int32(i)
		moment := int32(0)
		for _, o := range m.outputs.Of(n) {
			moment = max(moment, need[o], read[o])
		}
		gone := func(v int32) bool {
			return v >= 0 && by[m.owner[v]] >= 0 && by[m.owner[v]] < moment
		}
		if m.may[i] = moment > 0 && !slices.ContainsFunc(m.like.reads.Of(n), gone); !m.may[i] {
			continue
		}
		for _, o := range m.inputs.Of(n) {
			need[o] = max(need[o], moment)
		}
	}
}
