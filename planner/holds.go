package planner

import (
	"slices"

	"memopt/planner/recompute"
)

// holds is what is held outside the graph (graph.Hold), while steps are gone through. A nil one is that nothing is
// held.
type holds struct {
	behind []int32         // by owner: how many nodes of the plain order run up to the one that it is held until, 0 for none
	node   []int32         // by owner: which that is
	ends   recompute.Lists // by node: owners that are held until it
	over   []bool          // by owner: the node has run
}

func newHolds(m *model) *holds {
	if len(m.g.Holds) == 0 {
		return nil
	}
	nodes, values := len(m.g.Nodes), len(m.g.Values)
	ran, number := make([]int32, nodes), int32(0)
	for i, is := range m.like.traits {
		if is&isView == 0 {
			number++
		}
		ran[i] = number
	}
	h := &holds{behind: make([]int32, values), node: make([]int32, values), over: make([]bool, values)}
	for _, x := range m.g.Holds {
		if o := m.owner[x.Value.ID]; !m.fixed[o] && h.behind[o] < ran[x.Until.ID] {
			h.behind[o], h.node[o] = ran[x.Until.ID], x.Until.ID
		}
	}
	ends := make([][]int32, nodes)
	for o, behind := range h.behind {
		if behind > 0 {
			ends[h.node[o]] = append(ends[h.node[o]], int32(o))
		}
	}
	for _, owners := range ends {
		h.ends.Add(owners...)
	}
	return h
}

// another is the same for steps that are gone through at once.
func (h *holds) another() *holds {
	if h == nil {
		return nil
	}
	return &holds{h.behind, h.node, h.ends, make([]bool, len(h.over))}
}

// until is how many nodes of the plain order run first before an owner is held no more.
func (h *holds) until(owner int32) int32 {
	if h == nil {
		return 0
	}
	return h.behind[owner]
}

// begin goes back to the first step.
func (h *holds) begin() {
	if h != nil {
		clear(h.over)
	}
}

// held reports whether an owner is held at the step at hand, if it was made.
func (h *holds) held(owner int32) bool { return h != nil && h.behind[owner] > 0 && !h.over[owner] }

// end notes that a node has run for the first time, and gives the owners that are held no more.
func (h *holds) end(node int32) []int32 {
	if h == nil {
		return nil
	}
	owners := h.ends.Of(node)
	for _, o := range owners {
		h.over[o] = true
	}
	return owners
}

// heldAt is the node until which what lives there is held outside the graph, at a step up to that: so it is there
// whatever a plan does. "" is that it is not held.
func (m *model) heldAt(t *timeline, l *life, at int) string {
	if l.scratch || m.sim.holds.until(l.owner) == 0 || t.steps[l.first].Again {
		return ""
	}
	until := m.sim.holds.node[l.owner]
	if slices.Contains(t.steps[:at], Step{Node: until}) {
		return ""
	}
	return m.g.Nodes[until].Name
}
