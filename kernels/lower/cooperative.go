package lower

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// Float16 matrix products, and convolutions as products or gathered, with VK_KHR_cooperative_matrix.
// Both factors must be float16 in the graph, even if the lowering converts them to float32
// first: then products of two elements are exact in float32, and only the order of the sums
// is the device's. Float32 factors never use it. The choice depends on operand types alone,
// not on sizes, so a row has the same bits in any batch.

// A workgroup has cooperativeSide² subgroups, each with some matrices by as many: variants with the same bits, the expected best first.
const cooperativeSide = 2

type cooperativeVariant struct {
	name              string
	each              int
	products, gathers *graph.Kernel
}

var cooperativeVariants = []cooperativeVariant{newCooperative(2), newCooperative(4), newCooperative(1)}

func newCooperative(each int) cooperativeVariant {
	name, define := fmt.Sprint("matrices-", each), fmt.Sprint("-DEACH=", each)
	return cooperativeVariant{name, each, Halved(Shader("product-cooperative-"+fmt.Sprint(each), "productcooperative.comp", define)),
		Halved(Shader("convolution-cooperative-"+fmt.Sprint(each), "productcooperative.comp", define, "-DCONV"))}
}

// bytes is the shared memory of a variant's workgroup, for matrices of a shape.
func (v cooperativeVariant) bytes(s [3]int) int {
	const single, half, room = 4, 2, 8 // bytes of floats, and elements behind each line of halves
	side, slab := cooperativeSide*v.each, 2*s[2]
	return half*(side*s[0]*(slab+room)+slab*(side*s[1]+room)) + single*cooperativeSide*cooperativeSide*s[0]*s[1]
}

// pickCooperative picks a variant for a product of m × k with k × n, some times; those whose tile is mostly empty are not tried.
func pickCooperative(l *graph.Lowering, form string, m, n, k, times int, fits func(cooperativeVariant) bool) cooperativeVariant {
	s, all, names := l.Limits.Matrix, []cooperativeVariant{}, []string{}
	for i, v := range cooperativeVariants {
		tile := cooperativeSide * v.each
		if i == 0 || Fits(v.bytes(s), l.Limits.SharedBytes) && fits(v) && (v.each < 2 || 2*m > tile*s[0] && 2*n > tile*s[1]) {
			all, names = append(all, v), append(names, v.name)
		}
	}
	name := l.Pick(fmt.Sprintf("%s by matrices %d×%d×%d×%d", form, SizeClass(m), SizeClass(n), SizeClass(k), SizeClass(times)), names...)
	return all[slices.Index(names, name)]
}

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

// cooperativeTile is the tile of a workgroup; batch is how many products there are.
func (g Products) cooperativeTile(l *graph.Lowering, batch int) productTile {
	s := l.Limits.Matrix
	v := pickCooperative(l, "product", g.M, g.N, g.K, batch, func(cooperativeVariant) bool { return true })
	side := cooperativeSide * v.each
	spec := Words(l, cooperativeSide*cooperativeSide*l.Limits.Subgroup, s[0], s[1], s[2])
	return productTile{
		shared: true, rows: side * s[0], columns: side * s[1], singles: v.products, paired: v.products,
		spec: append(spec, OneIf(g.foursA()), OneIf(g.foursB())),
	}
}

// gathersByMatrices is the tile of a convolution's side between two float16 tensors, on devices whose workgroups share fast
// memory.
func gathersByMatrices(l *graph.Lowering, form string, m, n, k, times int) productTile {
	s := l.Limits.Matrix
	v := pickCooperative(l, form, m, n, k, times, func(v cooperativeVariant) bool { return v.dividesSlabs(l) })
	side := cooperativeSide * v.each
	local := cooperativeSide * cooperativeSide * l.Limits.Subgroup
	return productTile{shared: true, rows: side * s[0], columns: side * s[1], slab: 2 * s[2], gathers: v.gathers, spec: Words(l, local, s[0], s[1], s[2])}
}

// dividesSlabs reports whether the invocations of a group divide what it gathers at once.
func (v cooperativeVariant) dividesSlabs(l *graph.Lowering) bool {
	s, local := l.Limits.Matrix, cooperativeSide*cooperativeSide*l.Limits.Subgroup
	return local%(2*s[2]) == 0 && local%(cooperativeSide*v.each*s[1]) == 0
}

// gathersCooperate reports whether a side of a convolution gathers its image for matrices: between two float16 tensors, on devices
// whose workgroups share fast memory.
func gathersCooperate(l *graph.Lowering, a, b graph.Buffer) bool {
	return l.Limits.Shared && l.Limits.Matrix != [3]int{} && holdsFloat16(l, a, nil) && holdsFloat16(l, b, nil) && cooperativeVariants[0].dividesSlabs(l)
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
