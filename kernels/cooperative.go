package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// Products of float16, and convolutions that are products, on devices whose subgroups
// multiply matrices at once. Both factors must hold float16, whatever the kernel sees
// of them: then nothing is rounded on the way, a product of two is exact in float32,
// and only the order of the sums is the device's. Float32 is never computed so. It
// is a matter of the operands' types alone, so a few rows have the bits that they
// have among others.

var cooperativeKernel = halved(shader("product-cooperative", "productcooperative.comp"))

// A side of a group has so many subgroups, and each of those so many matrices.
const cooperativeSide, cooperativeEach = 2, 2

// cooperates reports whether the products are computed so.
func (g loweredProduct) cooperates(l *graph.Lowering) bool {
	return l.Limits.Matrix != [3]int{} && holdsFloat16(l, g.a, g.ofA) && holdsFloat16(l, g.b, g.ofB)
}

// holdsFloat16 reports whether a buffer, or what it is a copy of, is an input of
// float16, also where its lowering shows it as float32.
func holdsFloat16(l *graph.Lowering, b graph.Buffer, of *graph.Buffer) bool {
	if of != nil {
		b = *of
	}
	return b.Place == graph.PlaceIn && l.Node.In(b.Index).Type == graph.Float16
}

// cooperativeTile is what a group owns of them.
func (g loweredProduct) cooperativeTile(l *graph.Lowering) productTile {
	s := l.Limits.Matrix
	side := cooperativeSide * cooperativeEach
	spec := words(l, cooperativeSide*cooperativeSide*l.Limits.Subgroup, s[0], s[1], s[2])
	return productTile{
		shared: true, rows: side * s[0], columns: side * s[1], singles: cooperativeKernel, paired: cooperativeKernel,
		spec: append(spec, oneIf(g.foursA()), oneIf(g.foursB())),
	}
}

// foursA reports whether A's neighbours can be loaded by fours, foursB whether B's
// can.
func (g loweredProduct) foursA() bool {
	a := g.layout.a
	return byFours(g.sa, g.fromA) && (a.p == 1 && byFours(nil, a.i, g.k) || a.p != 1 && a.i == 1 && byFours(nil, a.p, g.m))
}

func (g loweredProduct) foursB() bool {
	b := g.layout.b
	if g.lines != nil || !byFours(g.sb, g.fromB) {
		return false
	}
	if g.trans() {
		return byFours(nil, b.i, g.k)
	}
	return byFours(nil, b.p, g.n)
}

// byFours reports whether all are multiples of four.
func byFours(strides []int, more ...int) bool {
	return !slices.ContainsFunc(slices.Concat(strides, more), func(n int) bool { return n%4 != 0 })
}
