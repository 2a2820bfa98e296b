package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// product is shared by MatMul, FusedMatMul and Gemm: alpha · op(A) · op(B) over the last two
// dims, with the batch dims before them broadcast. A vector A is a row, a vector B a column;
// the result does not have their dim of 1.
type product struct {
	transA, transB bool
	alpha          float64
	// batchA: the first dim of A, not the second to last, is its rows (before transA); batch
	// dims follow it. batchB is the same for B.
	batchA, batchB bool
}

// matrix splits the shape of a factor of rank ≥ 2 into batch dims, rows and columns, before
// transposing.
func matrix[D any](shape []D, batched bool) (batch []D, rows, cols D) {
	r := len(shape)
	if batched {
		return shape[1 : r-1], shape[0], shape[r-1]
	}
	return shape[:r-2], shape[r-2], shape[r-1]
}

// layout holds the sizes and strides of a product: element (i, p) of A is at i·a.i + p·a.p,
// element (p, j) of B at j·b.i + p·b.p.
type layout struct {
	m, n, k        int
	batch          []int // batch dims of the result
	aBatch, bBatch []int // strides of the batch dims in A and B
	a, b           struct{ i, p int }
}

func (p product) layout(aShape, bShape, out []int) (l layout) {
	l.m, l.n = 1, 1
	var aLead, bLead []int
	var row, aStep, bStep int // strides between rows and between matrices
	if len(aShape) == 1 {
		l.k, l.a.i, l.a.p = aShape[0], aShape[0], 1
	} else {
		aLead, l.m, l.k = matrix(aShape, p.batchA)
		row, aStep = l.k, l.m*l.k
		if p.batchA {
			row, aStep = index.Elems(aLead)*l.k, l.k
		}
		l.a.i, l.a.p = row, 1
		if p.transA {
			l.m, l.k, l.a.i, l.a.p = l.k, l.m, 1, row
		}
	}
	if len(bShape) == 1 {
		l.b.i, l.b.p = 1, 1
	} else {
		var rows int
		bLead, rows, l.n = matrix(bShape, p.batchB)
		row, bStep = l.n, rows*l.n
		if p.batchB {
			row, bStep = index.Elems(bLead)*l.n, l.n
		}
		l.b.i, l.b.p = 1, row
		if p.transB {
			l.n, l.b.i, l.b.p = rows, row, 1
		}
	}
	l.batch = out[:max(len(aLead), len(bLead))]
	l.aBatch, l.bBatch = index.Broadcast(aLead, l.batch), index.Broadcast(bLead, l.batch)
	for i := range l.batch {
		l.aBatch[i] *= aStep
		l.bBatch[i] *= bStep
	}
	return l
}

// shapes returns the result's shape and k.
func (p product) shapes(n *graph.Node, a, b graph.Shape) (out graph.Shape, k graph.Dim) {
	if len(a) == 0 || len(b) == 0 {
		n.Fail("A and B must not be scalars, but their shapes are %s and %s", a, b)
	}
	var aLead, bLead graph.Shape
	var rows, cols []graph.Dim
	if k = a[0]; len(a) > 1 {
		var m graph.Dim
		if aLead, m, k = matrix(a, p.batchA); p.transA {
			m, k = k, m
		}
		rows = append(rows, m)
	}
	kb := b[0]
	if len(b) > 1 {
		var c graph.Dim
		if bLead, kb, c = matrix(b, p.batchB); p.transB {
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
		if _, rows, k = matrix(a, p.batchA); p.transA {
			k = rows
		}
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

// sums calls f for each element of the result with its sum over k, as a float or an integer
// according to the element type.
func (p product) sums(c *graph.Call, f func(o int, f float64, i int64)) {
	x, y := c.In[0], c.In[1]
	l := p.layout(x.Shape, y.Shape, c.Out[0].Shape)
	index.Walk(l.batch, 0, index.Elems(l.batch), func(batch int, at []int) {
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
	size := l.m * l.n
	a, b := operandOf(c.In[0], l.a.i, l.a.p, float32(p.alpha)), operandOf(c.In[1], l.b.i, l.b.p, 1)
	one := func(par f32.Parallel, i int, at []int) {
		f32.Multiply(par, l.m, l.n, l.k, a(at[0]), b(at[1]), z[i*size:], l.n, add)
	}
	switch work := l.m * l.n * l.k; {
	case len(z) == 0:
	case batches == 1:
		one(c.Parallel, 0, []int{0, 0})
	case work >= f32.WholeWork:
		index.Walk(l.batch, 0, batches, func(i int, at []int) { one(c.Parallel, i, at) }, l.aBatch, l.bBatch)
	default:
		c.Parallel(batches, 1+16*f32.Grain/max(1, work), func(lo, hi int) {
			index.Walk(l.batch, lo, hi, func(i int, at []int) { one(f32.Serial, i, at) }, l.aBatch, l.bBatch)
		})
	}
}

// whole returns a call's layout and its number of products.
func (p product) whole(c *graph.Call) (l layout, batches int) {
	l = p.layout(c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
	batches = index.Elems(l.batch)
	if batches > 1 && c.In[1].Len() == l.k*l.n && c.In[0].Len() == batches*l.m*l.k && l.a.p == 1 && !p.batchA {
		// All matrices share B: the whole batch is one tall matrix.
		l.m, l.batch, batches = l.m*batches, nil, 1
	}
	return l, batches
}

// grads returns the gradients of A and B. They are products that read the matrices in place,
// transposed where needed.
func (p product) grads(b *graph.Builder, x, y, dz *graph.Value) (dx, dy *graph.Value) {
	if p.batchA || p.batchB {
		return p.batchGrads(b, x, y, dz)
	}
	xs, ys := x.Shape, y.Shape
	// Treat vectors as matrices.
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
		return sumTo(b, product{transA: transL, transB: transR, alpha: p.alpha}.node(b, l, r), like.Shape)
	}
	if p.transA {
		dx = back(y, dz, p.transB, true, x)
	} else {
		dx = back(dz, y, false, !p.transB, x)
	}
	left := x
	if y.Rank() == 2 && x.Rank() > 2 && !p.transA {
		// All matrices share B: viewed as one tall matrix, the product itself sums over the batch,
		// so no gradient for each matrix is stored.
		left, dz = tall(b, x), tall(b, dz)
	}
	if p.transB {
		dy = back(dz, left, true, p.transA, y)
	} else {
		dy = back(left, dz, !p.transA, false, y)
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
	plain := product{transA: p.transA, transB: p.transB, alpha: p.alpha}
	dx, dy = plain.grads(b, turn(x, p.batchA, away), turn(y, p.batchB, away), dz)
	return turn(dx, p.batchA, back), turn(dy, p.batchB, back)
}

// tall views a batch of matrices as one tall matrix.
func tall(b *graph.Builder, x *graph.Value) *graph.Value {
	r := x.Rank()
	return reshape(b, x, graph.Shape{x.Shape[:r-1].Elems(), x.Shape[r-1]})
}

// node appends the product as a MatMul or FusedMatMul.
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

// scaled is v·x, or v itself if x is 1.
func scaled(b *graph.Builder, v *graph.Value, x float64) *graph.Value {
	if x == 1 {
		return v
	}
	return b.Op("Mul", nil, v, num(b, v, x))
}
