package kernels

import (
	"math"

	"memopt/internal/graph"
)

// Graphs compute shapes with integer operators. Folding evaluates these while the graph is
// read, with dims as formulas. A fold returns false where the formula would not be exact.

// arithmetic infers a binary operator on numbers of one type, and folds it on integers.
func arithmetic(fold func(a, b graph.Dim) graph.Dim) func(*graph.Node) {
	return arithmeticIf(func(a, b graph.Dim) (graph.Dim, bool) { return fold(a, b), true })
}

// arithmeticIf is arithmetic with a fold that may return false.
func arithmeticIf(fold func(a, b graph.Dim) (graph.Dim, bool)) func(*graph.Node) {
	return func(n *graph.Node) {
		sameTypes(n)
		wantType(n, 0, isNumber, "numbers")
		out := broadcast(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
		n.Set(0, n.Inputs[0].Type, out)
		foldPairs(n, out, fold)
	}
}

// foldPairs folds an integer output 0 from inputs 0 and 1, if both are known and have the
// same number of elements or one is a single element.
func foldPairs(n *graph.Node, out graph.Shape, fold func(a, b graph.Dim) (graph.Dim, bool)) {
	x, y := n.Inputs[0].Ints, n.Inputs[1].Ints
	size := max(len(x), len(y))
	if x == nil || y == nil || !out.Elems().Is(int64(size)) ||
		len(x) != size && len(x) != 1 || len(y) != size && len(y) != 1 {
		return
	}
	foldEach(n, size, func(i int) (graph.Dim, bool) { return fold(x[i%len(x)], y[i%len(y)]) })
}

// foldOne folds an integer output 0 from input 0, if that is known.
func foldOne(n *graph.Node, fold func(d graph.Dim) (graph.Dim, bool)) {
	if x := n.Inputs[0].Ints; x != nil {
		foldEach(n, len(x), func(i int) (graph.Dim, bool) { return fold(x[i]) })
	}
}

// foldEach sets the contents of output 0 if every element has an exact formula in the range
// of its type. If arithmetic overflows int64, nothing is folded: at run time the node wraps
// around as its type does.
func foldEach(n *graph.Node, size int, element func(i int) (graph.Dim, bool)) {
	out := n.Outputs[0]
	if out == nil || out.Type.IsReal() || size > graph.MaxInts {
		return
	}
	ds, all := make([]graph.Dim, size), true
	err := graph.Try(func() {
		for i := 0; i < size && all; i++ {
			ds[i], all = element(i)
			all = all && holds(out.Type, ds[i])
		}
	})
	if err == nil && all {
		n.SetInts(0, ds)
	}
}

// holds reports whether type t can represent d. Symbolic dims are assumed to fit int64 and
// int32.
func holds(t graph.DType, d graph.Dim) bool {
	x, ok := d.Const()
	if !ok {
		return t == graph.Int64 || t == graph.Int32
	}
	lo, hi := intRange(t)
	return x >= lo && (x <= hi || t == graph.Uint64)
}

// intRange returns the range of an integer type, for uint64 cut off at the greatest int64; a
// bool is 0 or 1.
func intRange(t graph.DType) (lo, hi int64) {
	bits := uint(t.Bits())
	switch t {
	case graph.Bool:
		return 0, 1
	case graph.Uint64:
		return 0, math.MaxInt64
	case graph.Uint2, graph.Uint4, graph.Uint8, graph.Uint16, graph.Uint32:
		return 0, 1<<bits - 1
	}
	return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits)
}

// atLeast reports whether d ≥ x is proven.
func atLeast(d graph.Dim, x int64) bool {
	order, known := d.Sub(graph.Num(x)).Add(graph.Num(1)).Compare(graph.Num(0))
	return known && order > 0
}
