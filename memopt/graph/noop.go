package graph

// noOps takes out nodes whose output is their input.
func noOps(g *Graph, o CleanOptions) map[string]int {
	e := newEdit(o.Context, g)
	e.each(func(n *Node) []*Value {
		x, y := n.In(0), n.Output(0)
		if x == nil || y == nil || x.Type != y.Type || !x.Shape.Equal(y.Shape) || !n.Op.View && (n.Op.NoOp == nil || !n.Op.NoOp(n)) {
			return nil
		}
		return []*Value{x}
	})
	return e.made
}
