package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// product is shared by MatMul, FusedMatMul and Gemm.
type product lower.Product

// shapes returns the result's shape and k.
func (p product) shapes(n *graph.Node, a, b graph.Shape) (out graph.Shape, k graph.Dim) {
	if len(a) == 0 || len(b) == 0 {
		n.Fail("A and B must not be scalars, but their shapes are %s and %s", a, b)
	}
	var aLead, bLead graph.Shape
	var rows, cols []graph.Dim
	if k = a[0]; len(a) > 1 {
		var m graph.Dim
		if aLead, m, k = lower.Matrix(a, p.BatchA); p.TransA {
			m, k = k, m
		}
		rows = append(rows, m)
	}
	kb := b[0]
	if len(b) > 1 {
		var c graph.Dim
		if bLead, kb, c = lower.Matrix(b, p.BatchB); p.TransB {
			kb, c = c, kb
		}
		cols = append(cols, c)
	}
	n.Same(k, kb, "the inner dims of A and B")
	return slices.Concat(broadcast(n, aLead, bLead), rows, cols), k
}

func (p product) infer(n *graph.Node) {
	sameTypes(n)
	wantType(n, 0, isNumber, "numbers")
	out, _ := p.shapes(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
	n.Set(0, n.Inputs[0].Type, out)
}

// flops counts a multiplication and an addition for each k of each element.
func (p product) flops(n *graph.Node) graph.Dim {
	a := n.Inputs[0].Shape
	k := a[0]
	if len(a) > 1 {
		var rows graph.Dim
		if _, rows, k = lower.Matrix(a, p.BatchA); p.TransA {
			k = rows
		}
	}
	return n.Outputs[0].Shape.Elems().Mul(k).Mul(graph.Num(2))
}

func (p product) eval(c *graph.Call) {
	p.sums(c, func(o int, f float64, i int64) {
		if c.Out[0].Type.IsFloat() {
			c.Out[0].SetFloat(o, p.Alpha*f)
		} else {
			c.Out[0].SetInt(o, i)
		}
	})
}

// sums calls f for each element of the result with its sum over k, as a float or an integer
// according to the element type.
func (p product) sums(c *graph.Call, f func(o int, f float64, i int64)) {
	x, y := c.In[0], c.In[1]
	l := lower.Product(p).Layout(x.Shape, y.Shape, c.Out[0].Shape)
	index.Walk(l.Batch, 0, index.Elems(l.Batch), func(batch int, at []int) {
		for o := range l.M * l.N {
			var float float64
			var int int64
			a, b := at[0]+o/l.N*l.A.I, at[1]+o%l.N*l.B.I
			for q := range l.K {
				if x.Type.IsFloat() {
					float += x.Float(a+q*l.A.P) * y.Float(b+q*l.B.P)
				} else {
					int += x.Int(a+q*l.A.P) * y.Int(b+q*l.B.P)
				}
			}
			f(batch*l.M*l.N+o, float, int)
		}
	}, l.ABatch, l.BBatch)
}

func (p product) fast(c *graph.Call) {
	switch {
	case c.In[0].Type == graph.Float32:
		p.into(c, c.Out[0].F32(), false)
	case hasWide(c):
		p.intoHalf(c, nil)
	default:
		p.eval(c)
	}
}

// into computes a float32 product into z, or adds it to z.
func (p product) into(c *graph.Call, z []float32, add bool) {
	l, batches := p.whole(c)
	size := l.M * l.N
	a, b := operandOf(c.In[0], l.A.I, l.A.P, float32(p.Alpha)), operandOf(c.In[1], l.B.I, l.B.P, 1)
	one := func(par f32.Parallel, i int, at []int) {
		f32.Multiply(par, l.M, l.N, l.K, a(at[0]), b(at[1]), z[i*size:], l.N, add)
	}
	switch work := l.M * l.N * l.K; {
	case len(z) == 0:
	case batches == 1:
		one(c.Parallel, 0, []int{0, 0})
	case work >= f32.WholeWork:
		index.Walk(l.Batch, 0, batches, func(i int, at []int) { one(c.Parallel, i, at) }, l.ABatch, l.BBatch)
	default:
		c.Parallel(batches, 1+16*f32.Grain/max(1, work), func(lo, hi int) {
			index.Walk(l.Batch, lo, hi, func(i int, at []int) { one(f32.Serial, i, at) }, l.ABatch, l.BBatch)
		})
	}
}

// whole returns a call's layout and its number of products.
func (p product) whole(c *graph.Call) (l lower.Layout, batches int) {
	l = lower.Product(p).Layout(c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
	batches = index.Elems(l.Batch)
	if batches > 1 && c.In[1].Len() == l.K*l.N && c.In[0].Len() == batches*l.M*l.K && l.A.P == 1 && !p.BatchA {
		// All matrices share B: the whole batch is one tall matrix.
		l.M, l.Batch, batches = l.M*batches, nil, 1
	}
	return l, batches
}

// grads returns the gradients of A and B. They are products that read the matrices in place,
// transposed where needed.
func (p product) grads(b *graph.Builder, x, y, dz *graph.Value) (dx, dy *graph.Value) {
	if p.BatchA || p.BatchB {
		return p.batchGrads(b, x, y, dz)
	}
	xs, ys := x.Shape, y.Shape
	// Treat vectors as matrices.
	zs := slices.Clone(dz.Shape)
	if len(ys) == 1 {
		y, p.TransB = reshape(b, y, graph.Shape{ys[0], graph.Num(1)}), false
		zs = append(zs, graph.Num(1))
	}
	if len(xs) == 1 {
		x, p.TransA = reshape(b, x, graph.Shape{graph.Num(1), xs[0]}), false
		zs = slices.Insert(zs, len(zs)-1, graph.Num(1))
	}
	dz = reshape(b, dz, zs)

	back := func(l, r *graph.Value, transL, transR bool, like *graph.Value) *graph.Value {
		return sumTo(b, product{TransA: transL, TransB: transR, Alpha: p.Alpha}.node(b, l, r), like.Shape)
	}
	if p.TransA {
		dx = back(y, dz, p.TransB, true, x)
	} else {
		dx = back(dz, y, false, !p.TransB, x)
	}
	left := x
	if y.Rank() == 2 && x.Rank() > 2 && !p.TransA {
		// All matrices share B: viewed as one tall matrix, the product itself sums over the batch,
		// so no gradient for each matrix is stored.
		left, dz = tall(b, x), tall(b, dz)
	}
	if p.TransB {
		dy = back(dz, left, true, p.TransA, y)
	} else {
		dy = back(left, dz, !p.TransA, false, y)
	}
	return reshape(b, dx, xs), reshape(b, dy, ys)
}

// batchGrads transposes factors whose rows come first to batch-first order, and their
// gradients back.
func (p product) batchGrads(b *graph.Builder, x, y, dz *graph.Value) (dx, dy *graph.Value) {
	turn := func(v *graph.Value, there bool, order func(rank int) []int64) *graph.Value {
		if !there || v.Rank() < 3 {
			return v
		}
		return b.Op("Transpose", graph.A{"perm": order(v.Rank())}, v)
	}
	away := func(rank int) []int64 { // rows before columns
		perm := make([]int64, rank)
		for i := range rank - 2 {
			perm[i] = int64(i + 1)
		}
		perm[rank-1] = int64(rank - 1)
		return perm
	}
	back := func(rank int) []int64 { // rows first
		perm := make([]int64, rank)
		perm[0] = int64(rank - 2)
		for i := 1; i < rank-1; i++ {
			perm[i] = int64(i - 1)
		}
		perm[rank-1] = int64(rank - 1)
		return perm
	}
	plain := product{TransA: p.TransA, TransB: p.TransB, Alpha: p.Alpha}
	dx, dy = plain.grads(b, turn(x, p.BatchA, away), turn(y, p.BatchB, away), dz)
	return turn(dx, p.BatchA, back), turn(dy, p.BatchB, back)
}

// tall views a batch of matrices as one tall matrix.
func tall(b *graph.Builder, x *graph.Value) *graph.Value {
	r := x.Rank()
	return reshape(b, x, graph.Shape{x.Shape[:r-1].Elems(), x.Shape[r-1]})
}

// node appends the product as a MatMul or FusedMatMul.
func (p product) node(b *graph.Builder, x, y *graph.Value) *graph.Value {
	if p == (product{Alpha: 1}) {
		return b.Op("MatMul", nil, x, y)
	}
	attrs := graph.A{}
	if p.TransA {
		attrs["transA"] = 1
	}
	if p.TransB {
		attrs["transB"] = 1
	}
	if p.Alpha != 1 {
		attrs["alpha"] = p.Alpha
	}
	return b.Op(microsoft+".FusedMatMul", attrs, x, y)
}

// scaled is v·x, or v itself if x is 1.
func scaled(b *graph.Builder, v *graph.Value, x float64) *graph.Value {
	if x == 1 {
		return v
	}
	return b.Op("Mul", nil, v, num(b, v, x))
}

// lowerProduct lowers a product without a bias.
func lowerProduct(of func(n *graph.Node) product) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if lower.OnlyF32(l) {
			lower.Product(of(l.Node)).Lower(l, -1, 0)
		}
	}
}
