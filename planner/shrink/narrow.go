package shrink

import (
	"fmt"
	"slices"

	"memopt/memopt/graph"
)

// narrows are the types that integers are kept in, with what each holds less
// than, the smallest first.
var narrows = []struct {
	to    graph.DType
	below int64
}{{graph.Uint8, 1 << 8}, {graph.Uint16, 1 << 16}, {graph.Int32, 1 << 31}}

// narrow keeps an output of n, whose integers are known to be small, in the
// smallest type that holds them.
func narrow(g *graph.Graph, uses *graph.Uses, n *graph.Node, v *graph.Value) (c Candidate, ok bool) {
	if n.Op.Below == nil || !v.Type.IsInt() {
		return c, false
	}
	limit, known := n.Op.Below(n, slices.Index(n.Outputs, v))
	below, fixed := limit.Const()
	if !known || !fixed {
		return c, false
	}
	for _, t := range narrows {
		if below <= t.below && t.to.Size() < v.Type.Size() {
			c = Candidate{ID: n.Op.Name + "+", Value: v, As: t.to, How: fmt.Sprintf("%s: all are below %d", t.to, below), Before: v.Bytes(), After: v.Shape.Elems().Mul(graph.Num(t.to.Size()))}
			return c, c.casts(g, uses) && len(c.Readers) > 0
		}
	}
	return c, false
}
