package lower

import (
	"slices"

	"memopt/internal/graph"
)

// Float16 matrix products, and convolutions as products or gathered, with VK_KHR_cooperative_matrix.
// Both factors must be float16 in the graph, even if the lowering converts them to float32
// first: then products of two elements are exact in float32, and only the order of the sums
// is the device's. Float32 factors never use it. The choice depends on operand types alone,
// not on sizes, so a row has the same bits in any batch.

var (
	cooperativeKernel  = Halved(Shader("product-cooperative", "productcooperative.comp"))
	cooperativeGathers = Halved(Shader("convolution-cooperative", "productcooperative.comp", "-DCONV"))
)

// A workgroup has cooperativeSide² subgroups, each with cooperativeEach² matrices.
const cooperativeSide, cooperativeEach = 2, 2

// cooperates reports whether a product uses cooperative matrices.
func (g Products) cooperates(l *graph.Lowering) bool {
	return l.Limits.Matrix != [3]int{} && holdsFloat16(l, g.A, g.ofA) && holdsFloat16(l, g.B, g.ofB)
}

// holdsFloat16 reports whether a buffer, or the one it is a copy of, is a float16 input of
// the node.
func holdsFloat16(l *graph.Lowering, b graph.Buffer, of *graph.Buffer) bool {
	if of != nil {
		b = *of
	}
	return b.Place == graph.PlaceIn && l.Node.In(b.Index).Type == graph.Float16
}

// HoldsFloat16 reports whether a buffer is a float16 input of the node.
func HoldsFloat16(l *graph.Lowering, b graph.Buffer) bool { return holdsFloat16(l, b, nil) }

// cooperativeTile is the tile of a workgroup.
func (g Products) cooperativeTile(l *graph.Lowering) productTile {
	s := l.Limits.Matrix
	side := cooperativeSide * cooperativeEach
	spec := Words(l, cooperativeSide*cooperativeSide*l.Limits.Subgroup, s[0], s[1], s[2])
	return productTile{
		shared: true, rows: side * s[0], columns: side * s[1], singles: cooperativeKernel, paired: cooperativeKernel,
		spec: append(spec, OneIf(g.foursA()), OneIf(g.foursB())),
	}
}

// gathersByMatrices is the tile of a convolution's side between two float16 tensors, on devices whose workgroups share fast
// memory; ok is false if they do not, or if the invocations of a group do not divide a slab of it.
func gathersByMatrices(l *graph.Lowering, a, b graph.Buffer) (t productTile, ok bool) {
	s, side := l.Limits.Matrix, cooperativeSide*cooperativeEach
	local := cooperativeSide * cooperativeSide * l.Limits.Subgroup
	if !l.Limits.Shared || s == [3]int{} || !holdsFloat16(l, a, nil) || !holdsFloat16(l, b, nil) || local%(2*s[2]) != 0 || local%(side*s[1]) != 0 {
		return t, false
	}
	return productTile{shared: true, rows: side * s[0], columns: side * s[1], slab: 2 * s[2], gathers: cooperativeGathers, spec: Words(l, local, s[0], s[1], s[2])}, true
}

// foursA reports whether A can be loaded in vectors of four, foursB whether B can.
func (g Products) foursA() bool {
	a := g.Layout.A
	return byFours(g.Sa, g.FromA) && (a.P == 1 && byFours(nil, a.I, g.K) || a.P != 1 && a.I == 1 && byFours(nil, a.P, g.M))
}

func (g Products) foursB() bool {
	b := g.Layout.B
	if g.lines != nil || !byFours(g.Sb, g.FromB) {
		return false
	}
	if g.trans() {
		return byFours(nil, b.I, g.K)
	}
	return byFours(nil, b.P, g.N)
}

// byFours reports whether all are multiples of four.
func byFours(strides []int, more ...int) bool {
	return !slices.ContainsFunc(slices.Concat(strides, more), func(n int) bool { return n%4 != 0 })
}
