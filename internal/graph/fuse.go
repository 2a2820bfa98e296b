package graph

// fuse replaces patterns of nodes by one node, by operators' Fuse rules. A result may be a
// piece of another pattern, so passes repeat until none matches.
func fuse(g *Graph, o CleanOptions) map[string]int {
	var rules []*Op
	for _, op := range g.Lib.All() {
		if op.Fuse != nil && o.Fuse != nil && o.Fuse(op) {
			rules = append(rules, op)
		}
	}
	made := map[string]int{}
	for {
		e := newEdit(o.Context, g)
		uses := g.Uses()
		m := &Match{Builder: e.b, uses: uses, result: e.result, changed: g.replaced()}
		e.each(func(n *Node) []*Value {
			m.Node = n
			for _, op := range rules {
				m.pieces = m.pieces[:0]
				if with := op.Fuse(m); with != nil && m.closed() && (o.Fused == nil || o.Fused(op, n)) {
					return with
				}
			}
			return nil
		})
		for op, k := range e.made {
			made[op] += k
		}
		if e.changed == 0 {
			return made
		}
	}
}
