package graph

// noOps removes nodes whose output is their input, except those that stop or change gradients, which
// matter to autograd.
func noOps(g *Graph, o CleanOptions) map[string]int {
	e := newEdit(o.Context, g)
	e.each(func(n *Node) []*Value {
		if n.Op.NoGrad || n.Op.OwnGrad || !n.same() {
			return nil
		}
		return []*Value{n.Inputs[0]}
	})
	return e.made
}

// same reports whether output 0 is input 0.
func (n *Node) same() bool {
	x, y := n.In(0), n.Output(0)
	return x != nil && y != nil && x.Type == y.Type && x.Shape.Equal(y.Shape) && (n.Op.View || n.Op.NoOp != nil && n.Op.NoOp(n))
}

// StopsGradient reports whether the node only stops the gradient: its output is its input.
func (n *Node) StopsGradient() bool { return n.Op.NoGrad && n.same() }
