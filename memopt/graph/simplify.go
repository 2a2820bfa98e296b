package graph

// simplify lets operators say the same with less: a pair of casts, a view of a
// view.
func simplify(g *Graph, _ CleanOptions) map[string]int {
	e := newEdit(g)
	e.each(func(n *Node) []*Value {
		if n.Op.Simplify == nil {
			return nil
		}
		return n.Op.Simplify(e.b, n)
	})
	return e.made
}
