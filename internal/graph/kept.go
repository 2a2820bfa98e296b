package graph

import "slices"

// Kept reports whether the backward pass needs v, or the value that v is a view of, for nodes
// other than the pieces. It builds the gradients of v's maker and readers to see what they read.
func (m *Match) Kept(v *Value) bool {
	for v.Def != nil && v.Def.Op.View {
		v = v.Def.Inputs[0]
	}
	return v.Def == nil || m.gradientReads(v.Def, v) || m.readBack(v)
}

// readBack reports whether the gradient of a reader of v, or of a view of it, reads v.
func (m *Match) readBack(v *Value) bool {
	return slices.ContainsFunc(m.Readers(v), func(r *Node) bool {
		switch {
		case r == m.Node || slices.Contains(m.pieces, r):
			return false
		case r.Op.View:
			return m.readBack(r.Outputs[0])
		}
		return m.gradientReads(r, v)
	})
}

// gradientReads reports whether a gradient of n's inputs reads v, an input or output of n.
func (m *Match) gradientReads(n *Node, v *Value) bool {
	if n.Op.Grad == nil || n.Op.NoGrad {
		return false
	}
	b := NewBuilder(New(m.Builder.Graph.Lib, ""))
	copies := map[*Value]*Value{}
	in := make([]*Value, len(n.Inputs))
	for i, x := range n.Inputs {
		if x != nil && copies[x] == nil {
			c := *x
			c.Def = nil
			b.insert(&c)
			copies[x] = &c
		}
		in[i] = copies[x]
	}
	dy := make([]*Value, len(n.Outputs))
	for i, y := range b.Copy(n, in) {
		if of := n.Outputs[i]; of != nil {
			copies[of] = y
			if of.Type.IsFloat() && (m.result[of] || len(m.Readers(of)) > 0) {
				dy[i] = b.must(Input, of.Type, of.Shape)
			}
		}
	}
	own := b.Graph.Nodes[0]
	var dx []*Value
	if Try(func() { dx = n.Op.Grad(b, own, dy) }) != nil {
		return false
	}
	for i, d := range dx {
		if x := n.In(i); d != nil && (x.Kind == Computed || x.Kind == Param) {
			b.Graph.Outputs = append(b.Graph.Outputs, d)
		}
	}
	b.Graph.Prune()
	return slices.ContainsFunc(b.Graph.Nodes, func(g *Node) bool {
		return g != own && slices.Contains(g.Inputs, copies[v])
	})
}
