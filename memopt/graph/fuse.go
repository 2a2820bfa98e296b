package graph

// fuse puts one node in the place of many, as the Fuse rules of operators ask.
// A rule's result may be the piece of another, so walks follow one another
// until nothing is found.
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
				if with := op.Fuse(m); with != nil && m.closed() {
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
