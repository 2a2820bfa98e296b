package graph

// unfold puts operators in pieces, where those can be kept better.
func unfold(g *Graph, o CleanOptions) map[string]int {
	if !o.Unfold {
		return nil
	}
	return g.rewriteEach(o.Context, func(op *Op) func(*Builder, *Node) []*Value { return op.Unfold })
}
