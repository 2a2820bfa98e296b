package graph

import "context"

// simplify lets operators say the same with less: a pair of casts, a view of a
// view.
func simplify(g *Graph, o CleanOptions) map[string]int {
	return g.rewriteEach(o.Context, func(op *Op) func(*Builder, *Node) []*Value { return op.Simplify })
}

// rewriteEach puts in the place of each node what a facet of its operator gives, if it does.
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
