package graph

import "context"

// simplify applies operators' Simplify rules: pairs of casts, views of views.
func simplify(g *Graph, o CleanOptions) map[string]int {
	return g.rewriteEach(o.Context, func(op *Op) func(*Builder, *Node) []*Value { return op.Simplify })
}

// rewriteEach replaces each node by the result of one of its operator's rules, if any.
func (g *Graph) rewriteEach(ctx context.Context, facet func(*Op) func(*Builder, *Node) []*Value) map[string]int {
	e := newEdit(ctx, g)
	e.each(func(n *Node) []*Value {
		if f := facet(n.Op); f != nil {
			return f(e.b, n)
		}
		return nil
	})
	return e.made
}
