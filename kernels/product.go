package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// product is what MatMul, FusedMatMul and Gemm have in common: alpha · op(A) ·
// op(B) over the last two dims, with the dims before them broadcast. A vector
// on the left is a row, on the right a column, and its dim of 1 is not in the
// result.
type product struct {
	transA, transB bool
	alpha          float64
}

// layout says where the matrices of a product lie. Element (i, p) of A is at
// i·a.i + p·a.p, element (p, j) of B at j·b.i + p·b.p.
type layout struct {
	m, n, k        int
	batch          []int // dims of the result before the matrix
	aBatch, bBatch []int // strides under batch, in elements
	a, b           struct{ i, p int }
}

func (p product) layout(aShape, bShape, out []int) (l layout) {
	l.m, l.n = 1, 1
	if r := len(aShape); r == 1 {
		l.k, l.a.i, l.a.p = aShape[0], aShape[0], 1
	} else {
		l.m, l.k = aShape[r-2], aShape[r-1]
		l.a.i, l.a.p = l.k, 1
		if p.transA {
			l.m, l.k, l.a.i, l.a.p = l.k, l.m, 1, l.k
		}
	}
	if r := len(bShape); r == 1 {
		l.b.i, l.b.p = 1, 1
	} else {
		l.n = bShape[r-1]
		l.b.i, l.b.p = 1, l.n
		if p.transB {
			l.n = bShape[r-2]
			l.b.i, l.b.p = l.k, 1
		}
	}
	aLead, bLead := aShape[:max(0, len(aShape)-2)], bShape[:max(0, len(bShape)-2)]
	l.batch = out[:max(len(aLead), len(bLead))]
	l.aBatch, l.bBatch = broadcastStrides(aLead, l.batch), broadcastStrides(bLead, l.batch)
	for i := range l.batch {
		l.aBatch[i] *= l.m * l.k
		l.bBatch[i] *= l.k * l.n
	}
	return l
}

// shapes gives the result's shape and k, from formulas.
func (p product) shapes(n *graph.Node, a, b graph.Shape) (out graph.Shape, k graph.Dim) {
	if len(a) == 0 || len(b) == 0 {
		n.Fail("a scalar has no product of matrices; the shapes are %s and %s", a, b)
	}
	aLead, bLead := a[:max(0, len(a)-2)], b[:max(0, len(b)-2)]
	out = slices.Clone(broadcast(n, aLead, bLead))
	k = a[len(a)-1]
	if len(a) > 1 {
		m := a[len(a)-2]
		if p.transA {
			m, k = k, m
		}
		out = append(out, m)
	}
	kb := b[0]
	if len(b) > 1 {
		var cols graph.Dim
		kb, cols = b[len(b)-2], b[len(b)-1]
		if p.transB {
			kb, cols = cols, kb
		}
		out = append(out, cols)
	}
	n.Same(k, kb, "the dims that are multiplied")
	return out, k
}

func (p product) infer(n *graph.Node) {
	sameTypes(n)
	wantType(n, 0, isNumber, "numbers")
	out, _ := p.shapes(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
	n.Set(0, n.Inputs[0].Type, out)
}

// flops: a multiplication and an addition for each k of each element.
func (p product) flops(n *graph.Node) graph.Dim {
	a := n.Inputs[0].Shape
	k := a[len(a)-1]
	if p.transA && len(a) > 1 {
		k = a[len(a)-2]
	}
	return n.Outputs[0].Shape.Elems().Mul(k).Mul(graph.Num(2))
}

func (p product) eval(c *graph.Call) {
	p.sums(c, func(o int, f float64, i int64) {
		if c.Out[0].Type.IsFloat() {
			c.Out[0].SetFloat(o, p.alpha*f)
		} else {
			c.Out[0].SetInt(o, i)
		}
	})
}

// sums calls f for each element of the result with its sum over k, as a float
// or an integer by the element type.
func (p product) sums(c *graph.Call, f func(o int, f float64, i int64)) {
	x, y := c.In[0], c.In[1]
	l := p.layout(x.Shape, y.Shape, c.Out[0].Shape)
	walk(l.batch, 0, elems(l.batch), func(batch int, at []int) {
		for o := range l.m * l.n {
			var float float64
			var int int64
			a, b := at[0]+o/l.n*l.a.i, at[1]+o%l.n*l.b.i
			for q := range l.k {
				if x.Type.IsFloat() {
					float += x.Float(a+q*l.a.p) * y.Float(b+q*l.b.p)
				} else {
					int += x.Int(a+q*l.a.p) * y.Int(b+q*l.b.p)
				}
			}
			f(batch*l.m*l.n+o, float, int)
		}
	}, l.aBatch, l.bBatch)
}

// aWhole is the work of one product from which on all workers share it;
// smaller ones of a batch are dealt out whole.
const aWhole = 8 << 20

func (p product) fast(c *graph.Call) {
	if c.In[0].Type != graph.Float32 {
		p.eval(c)
		return
	}
	p.into(c, c.Out[0].F32(), false)
}

// into computes a float32 product, or adds it to what z holds.
func (p product) into(c *graph.Call, z []float32, add bool) {
	x, y := c.In[0].F32(), c.In[1].F32()
	l := p.layout(c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
	a, b := dense{x, l.a.i, l.a.p, float32(p.alpha)}, dense{y, l.b.i, l.b.p, 1}
	batches, size := elems(l.batch), l.m*l.n
	if batches > 1 && len(y) == l.k*l.n && len(x) == batches*l.m*l.k && l.a.p == 1 {
		// One B for all: the rows of the whole batch are one tall matrix.
		l.m, batches = l.m*batches, 1
	}
	one := func(par parallel, i int, at []int) {
		a, b := a, b
		a.data, b.data = x[at[0]:], y[at[1]:]
		multiply(par, l.m, l.n, l.k, a, b, z[i*size:], l.n, add)
	}
	switch work := l.m * l.n * l.k; {
	case len(z) == 0:
	case batches == 1:
		one(c.Parallel, 0, []int{0, 0})
	case work >= aWhole:
		walk(l.batch, 0, batches, func(i int, at []int) { one(c.Parallel, i, at) }, l.aBatch, l.bBatch)
	default:
		c.Parallel(batches, 1+16*grain/max(1, work), func(lo, hi int) {
			walk(l.batch, lo, hi, func(i int, at []int) { one(serial, i, at) }, l.aBatch, l.bBatch)
		})
	}
}

// grads are again products, of the same matrices seen otherwise; nothing is
// transposed in memory.
func (p product) grads(b *graph.Builder, x, y, dz *graph.Value) (dx, dy *graph.Value) {
	xs, ys := x.Shape, y.Shape
	// Vectors take part as matrices.
	zs := slices.Clone(dz.Shape)
	if len(ys) == 1 {
		y, p.transB = reshape(b, y, graph.Shape{ys[0], graph.Num(1)}), false
		zs = append(zs, graph.Num(1))
	}
	if len(xs) == 1 {
		x, p.transA = reshape(b, x, graph.Shape{graph.Num(1), xs[0]}), false
		zs = slices.Insert(zs, len(zs)-1, graph.Num(1))
	}
	dz = reshape(b, dz, zs)

	back := func(l, r *graph.Value, transL, transR bool, like *graph.Value) *graph.Value {
		return sumTo(b, product{transL, transR, p.alpha}.node(b, l, r), like.Shape)
	}
	if p.transA {
		dx = back(y, dz, p.transB, true, x)
	} else {
		dx = back(dz, y, false, !p.transB, x)
	}
	left := x
	if y.Rank() == 2 && x.Rank() > 2 && !p.transA {
		// One B for the whole batch: seen as one tall matrix, the batch is
		// summed inside the product, and no gradient for each part is made.
		left, dz = tall(b, x), tall(b, dz)
	}
	if p.transB {
		dy = back(dz, left, true, p.transA, y)
	} else {
		dy = back(left, dz, !p.transA, false, y)
	}
	return reshape(b, dx, xs), reshape(b, dy, ys)
}

// tall views a batch of matrices as one.
func tall(b *graph.Builder, x *graph.Value) *graph.Value {
	r := x.Rank()
	return reshape(b, x, graph.Shape{x.Shape[:r-1].Elems(), x.Shape[r-1]})
}

// node appends the product as an operator.
func (p product) node(b *graph.Builder, x, y *graph.Value) *graph.Value {
	if p == (product{alpha: 1}) {
		return b.Op("MatMul", nil, x, y)
	}
	attrs := graph.A{}
	if p.transA {
		attrs["transA"] = 1
	}
	if p.transB {
		attrs["transB"] = 1
	}
	if p.alpha != 1 {
		attrs["alpha"] = p.alpha
	}
	return b.Op(microsoft+".FusedMatMul", attrs, x, y)
}

// scaled is v · x; no node if x is 1.
func scaled(b *graph.Builder, v *graph.Value, x float64) *graph.Value {
	if x == 1 {
		return v
	}
	return b.Op("Mul", nil, v, num(b, v, x))
}
