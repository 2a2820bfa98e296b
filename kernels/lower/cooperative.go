package lower

import (
	"fmt"
	"slices"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/spirv"
)

// Products of 16-bit matrices, and convolutions as products or gathered, with VK_KHR_cooperative_matrix.
// Both factors must be of one 16-bit type in the graph, even if the lowering converts them to float32
// first: then products of two elements are exact in float32, and only the order of the sums
// is the device's. Float32 factors never use it. The choice depends on operand types alone,
// not on sizes, so a row has the same bits in any batch.

// MatrixKernel is a kernel with cooperative matrices, by the type of their elements.
type MatrixKernel struct{ float16, bfloat16 *graph.Kernel }

// MatrixShader declares one, with a half form: a shader for matrices of float16. The kernel for bfloat16 is made by editing what it compiles
// to (spirv.BFloat16).
func MatrixShader(name, file string, args ...string) MatrixKernel {
	retyped := func(k *graph.Kernel) *graph.Kernel {
		made := &graph.Kernel{Name: k.Name + "-bfloat16", Code: sync.OnceValue(func() []byte { return spirv.BFloat16(k.Code()) })}
		bfloat16Kernels = append(bfloat16Kernels, made)
		return made
	}
	k := Halved(Shader(name, file, args...))
	form := halfForms[k]
	matrices := MatrixKernel{k, retyped(k)}
	halfForms[matrices.bfloat16] = &halfForm{retyped(form.kernel), form.floats}
	return matrices
}

var bfloat16Kernels []*graph.Kernel

// BFloat16Kernels lists the kernels with cooperative matrices of bfloat16.
func BFloat16Kernels() []*graph.Kernel { return bfloat16Kernels }

// Of is the kernel for factors of a type.
func (k MatrixKernel) Of(t graph.DType) *graph.Kernel {
	if t == graph.BFloat16 {
		return k.bfloat16
	}
	return k.float16
}

// A workgroup has cooperativeSide² subgroups, each with some matrices by as many: variants with the same bits, the expected best first.
const cooperativeSide = 2

type cooperativeVariant struct {
	name              string
	each              int
	products, gathers MatrixKernel
}

var cooperativeVariants = []cooperativeVariant{newCooperative(2), newCooperative(4), newCooperative(1)}

func newCooperative(each int) cooperativeVariant {
	name, define := fmt.Sprint("matrices-", each), fmt.Sprint("-DEACH=", each)
	return cooperativeVariant{name, each, MatrixShader("product-cooperative-"+fmt.Sprint(each), "productcooperative.comp", define),
		MatrixShader("convolution-cooperative-"+fmt.Sprint(each), "productcooperative.comp", define, "-DCONV")}
}

// bytes is the shared memory of a variant's workgroup, for matrices of a shape.
func (v cooperativeVariant) bytes(s [3]int) int {
	const single, half, room = 4, 2, 8 // bytes of floats, and elements behind each line of halves
	side, slab := cooperativeSide*v.each, 2*s[2]
	return half*(side*s[0]*(slab+room)+slab*(side*s[1]+room)) + single*cooperativeSide*cooperativeSide*s[0]*s[1]
}

// pickCooperative picks a variant for a product of m × k with k × n, some times, by matrices of a type; those whose tile is mostly
// empty are not tried.
func pickCooperative(l *graph.Lowering, of graph.DType, form string, m, n, k, times int, fits func(cooperativeVariant) bool) cooperativeVariant {
	s, all, names := l.Limits.Matrices.Of(of), []cooperativeVariant{}, []string{}
	if of != graph.Float16 {
		form += fmt.Sprint(" of ", of)
	}
	for i, v := range cooperativeVariants {
		tile := cooperativeSide * v.each
		if i == 0 || Fits(v.bytes(s), l.Limits.SharedBytes) && fits(v) && (v.each < 2 || 2*m > tile*s[0] && 2*n > tile*s[1]) {
			all, names = append(all, v), append(names, v.name)
		}
	}
	name := l.Pick(fmt.Sprintf("%s by matrices %d×%d×%d×%d", form, SizeClass(m), SizeClass(n), SizeClass(k), SizeClass(times)), names...)
	return all[slices.Index(names, name)]
}

// cooperates reports whether a product uses cooperative matrices, and the type of its factors.
func (g Products) cooperates(l *graph.Lowering) (graph.DType, bool) {
	original := func(b graph.Buffer, of *graph.Buffer) graph.Buffer {
		if of != nil {
			return *of
		}
		return b
	}
	return MatrixType(l, original(g.A, g.ofA), original(g.B, g.ofB))
}

// MatrixType is the type of buffers that are all inputs of the node of one type that the device multiplies in cooperative matrices;
// ok is false if they are not.
func MatrixType(l *graph.Lowering, buffers ...graph.Buffer) (of graph.DType, ok bool) {
	for i, b := range buffers {
		if b.Place != graph.PlaceIn {
			return of, false
		}
		t := l.Node.In(b.Index).Type
		if i > 0 && t != of {
			return of, false
		}
		of = t
	}
	return of, l.Limits.Matrices.Of(of) != [3]int{}
}

// cooperativeTile is the tile of a workgroup, for factors of a type; batch is how many products there are.
func (g Products) cooperativeTile(l *graph.Lowering, of graph.DType, batch int) productTile {
	s := l.Limits.Matrices.Of(of)
	v := pickCooperative(l, of, "product", g.M, g.N, g.K, batch, func(cooperativeVariant) bool { return true })
	side := cooperativeSide * v.each
	spec := Words(l, cooperativeSide*cooperativeSide*l.Limits.Subgroup, s[0], s[1], s[2])
	return productTile{
		shared: true, rows: side * s[0], columns: side * s[1], singles: v.products.Of(of), paired: v.products.Of(of),
		spec: append(spec, OneIf(g.foursA()), OneIf(g.foursB())),
	}
}

// gathersByMatrices is the tile of a convolution's side between two tensors of a 16-bit type, on devices whose workgroups share fast
// memory.
func gathersByMatrices(l *graph.Lowering, of graph.DType, form string, m, n, k, times int) productTile {
	s := l.Limits.Matrices.Of(of)
	v := pickCooperative(l, of, form, m, n, k, times, func(v cooperativeVariant) bool { return v.dividesSlabs(l, s) })
	side := cooperativeSide * v.each
	local := cooperativeSide * cooperativeSide * l.Limits.Subgroup
	return productTile{shared: true, rows: side * s[0], columns: side * s[1], slab: 2 * s[2], gathers: v.gathers.Of(of), spec: Words(l, local, s[0], s[1], s[2])}
}

// dividesSlabs reports whether the invocations of a group divide what it gathers at once.
func (v cooperativeVariant) dividesSlabs(l *graph.Lowering, s [3]int) bool {
	local := cooperativeSide * cooperativeSide * l.Limits.Subgroup
	return local%(2*s[2]) == 0 && local%(cooperativeSide*v.each*s[1]) == 0
}

// gathersCooperate reports whether a side of a convolution gathers its image for matrices, and of what type: between two tensors
// of a 16-bit type, on devices whose workgroups share fast memory.
func gathersCooperate(l *graph.Lowering, a, b graph.Buffer) (graph.DType, bool) {
	of, ok := MatrixType(l, a, b)
	return of, ok && l.Limits.Shared && cooperativeVariants[0].dividesSlabs(l, l.Limits.Matrices.Of(of))
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
