package graph

// unfold splits operators by their Unfold rules.
func unfold(g *Graph, o CleanOptions) map[string]int {
	if !o.Unfold {
		return nil
	}
	return g.rewriteEach(o.Context, func(op *Op) func(*Builder, *Node) []*Value { return op.Unfold })
}
