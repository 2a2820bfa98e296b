package graph

import "slices"

// FoldInts replaces every node whose outputs are all known as formulas by
// Consts: chains of Shape, Gather, Mul and Concat that only compute shapes
// disappear.
func (g *Graph) FoldInts() {
	foldable := func(v *Value) bool {
		return v == nil || v.Ints != nil && !v.Type.IsFloat() && !slices.Contains(g.Outputs, v)
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *Node) bool {
		for _, v := range n.Outputs {
			if !foldable(v) {
				return false
			}
		}
		for _, v := range n.Outputs {
			if v != nil {
				v.Kind, v.Def, v.Out = Const, nil, 0
			}
		}
		return true
	})
	g.Prune()
}

// Prune removes nodes that no result depends on, and values and optional outputs that nobody
// reads, and makes IDs dense again. Inputs stay: they are the graph's signature. Holds that
// refer to something removed go with it.
func (g *Graph) Prune() { g.prune(false) }

// PruneNodes is Prune, but values with numbers of their own stay, also where nobody reads them: graphs that were pruned for
// different results have the same.
func (g *Graph) PruneNodes() { g.prune(true) }

func (g *Graph) prune(keepStored bool) {
	live := make([]bool, len(g.Values)) // by old ID
	mark := func(v *Value) {
		if v != nil {
			live[v.ID] = true
		}
	}
	for _, v := range g.Inputs {
		mark(v)
	}
	for _, v := range g.Outputs {
		mark(v)
	}
	if keepStored {
		for _, v := range g.Values {
			if v.Kind != Computed {
				mark(v)
			}
		}
	}
	mark(g.Loss)
	for _, u := range g.Updates {
		mark(u.State)
		mark(u.New)
	}
	for _, d := range g.Grads {
		mark(d.Param)
		mark(d.Grad)
	}
	keep := make([]bool, len(g.Nodes))
	for i, n := range slices.Backward(g.Nodes) {
		if !slices.ContainsFunc(n.Outputs, func(v *Value) bool { return v != nil && live[v.ID] }) {
			continue
		}
		keep[i] = true
		for _, v := range n.Inputs {
			mark(v)
		}
	}
	nodes := g.Nodes[:0]
	for i, n := range g.Nodes {
		if !keep[i] {
			continue
		}
		n.ID = int32(len(nodes))
		nodes = append(nodes, n)
		for j, v := range n.Outputs {
			if v == nil || live[v.ID] {
				continue
			}
			if n.Op.outPort(j).Optional {
				n.Outputs[j] = nil
			} else {
				live[v.ID] = true
			}
		}
	}
	clear(g.Nodes[len(nodes):])
	g.Nodes = nodes
	g.Holds = slices.DeleteFunc(g.Holds, func(h Hold) bool {
		return !live[h.Value.ID] || int(h.Until.ID) >= len(nodes) || nodes[h.Until.ID] != h.Until
	})
	g.keepValues(0, live)
}

// keepValues removes the values from index first on that are not live, and makes IDs dense again.
func (g *Graph) keepValues(first int, live []bool) {
	kept := g.Values[:first]
	for i, v := range g.Values[first:] {
		if live[i] {
			v.ID = int32(len(kept))
			kept = append(kept, v)
		} else {
			delete(g.byName, v.Name)
		}
	}
	clear(g.Values[len(kept):])
	g.Values = kept
}

// Clone copies the graph; initializers' bytes are shared.
func (g *Graph) Clone() *Graph { return g.CloneFor(0, 0) }

// CloneFor is Clone with memory reserved for that many more nodes and values.
func (g *Graph) CloneFor(moreNodes, moreValues int) *Graph {
	c := *g
	values := make([]Value, len(g.Values))
	c.Values = make([]*Value, len(g.Values), len(g.Values)+moreValues)
	c.byName = make(map[string]*Value, len(g.Values)+moreValues)
	for i, v := range g.Values {
		values[i] = *v
		c.Values[i] = &values[i]
		c.byName[v.Name] = &values[i]
	}
	to := func(v *Value) *Value {
		if v == nil {
			return nil
		}
		return c.Values[v.ID]
	}
	count := len(g.Inputs) + len(g.Outputs)
	for _, n := range g.Nodes {
		count += len(n.Inputs) + len(n.Outputs)
	}
	room := make([]*Value, count) // one allocation for all lists
	list := func(vs []*Value) []*Value {
		out := room[:len(vs):len(vs)]
		room = room[len(vs):]
		for i, v := range vs {
			out[i] = to(v)
		}
		return out
	}
	nodes := make([]Node, len(g.Nodes))
	c.Nodes = make([]*Node, len(g.Nodes), len(g.Nodes)+moreNodes)
	for i, n := range g.Nodes {
		nodes[i] = *n
		m := &nodes[i]
		m.Inputs, m.Outputs = list(n.Inputs), list(n.Outputs)
		for _, v := range m.Outputs {
			if v != nil {
				v.Def = m
			}
		}
		c.Nodes[i] = m
	}
	c.Inputs, c.Outputs, c.Loss = list(g.Inputs), list(g.Outputs), to(g.Loss)
	c.Updates, c.Grads = slices.Clone(g.Updates), slices.Clone(g.Grads)
	for i, u := range g.Updates {
		c.Updates[i] = Update{to(u.State), to(u.New)}
	}
	for i, d := range g.Grads {
		c.Grads[i] = Grad{to(d.Param), to(d.Grad)}
	}
	c.Holds = slices.Clone(g.Holds)
	for i, h := range g.Holds {
		c.Holds[i] = Hold{to(h.Value), c.Nodes[h.Until.ID]}
	}
	c.Assumed, c.Recorded = slices.Clone(g.Assumed), slices.Clone(g.Recorded)
	return &c
}
