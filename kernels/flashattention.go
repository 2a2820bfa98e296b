package kernels

import (
	"math"

	"memopt/memopt/graph"
)

// FlashAttention is attention by strips: the scores of some queries at a time are
// computed in work space, all keys of each, and gone when their rows of Y are there. The
// gradient computes them again, so neither scores nor probabilities are kept; what the
// backward pass needs is Q, K and V. A strip has whole rows, so its softmax is the
// plain one, with no running sums to mend. It stands for its pieces where a caller
// of Clean lets it.
var FlashAttention = define(graph.Op{
	Name:   "FlashAttention",
	Domain: own,
	Doc:    "softmax(scale·Q·Kᵀ + bias)·V, some queries at a time; keys are seen from −left to right of a query, −1 is no limit, others count as fill",
	In:     "Q, K, V, bias?",
	Out:    "Y",
	Attrs:  flashAttrs,
	Infer: func(n *graph.Node) {
		inferFlash(n, n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3))
		q, v := n.Inputs[0], n.Inputs[2]
		last := q.Rank() - 1
		shape := append(append(graph.Shape{}, q.Shape[:last]...), v.Shape[last])
		n.Set(0, q.Type, shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		q, k, v, bias := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3)
		attrs := flashAttrsOf(n)
		d := b.Ops(own+".FlashAttentionGrad", attrs, 3, dy[0], q, k, v, bias)
		if bias == nil {
			return d
		}
		// The bias is seldom trained. If it is, its gradient is that of all scores.
		scores := product{transB: n.Int("transK") == 0, alpha: n.Float("scale")}.node(b, q, k)
		band := func(x *graph.Value, fill float64) *graph.Value {
			if n.Int("left") < 0 && n.Int("right") < 0 {
				return x
			}
			return b.Op(own+".BandMask", graph.A{"left": n.Int("left"), "right": n.Int("right"), "fill": fill}, x)
		}
		p := b.Op("Softmax", nil, band(b.Op("Add", nil, scores, bias), n.Float("fill")))
		flow := b.Op(microsoft+".SoftmaxGrad_13", nil, product{transB: true, alpha: 1}.node(b, dy[0], v), p)
		return append(d, sumTo(b, band(flow, 0), bias.Shape))
	},
	Eval: func(c *graph.Call) {
		f := newFlash(c, 0)
		p := make([]float64, f.keys)
		f.each(func(z, i int) {
			f.probabilities(z, i, p)
			for e := range f.out {
				sum := 0.0
				for j, x := range p {
					sum += x * f.v.Float((z*f.keys+j)*f.out+e)
				}
				c.Out[0].SetFloat((z*f.queries+i)*f.out+e, sum)
			}
		})
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		newFlash(c, 0).fast(c.Out[0].F32())
	},
	Scratch:   func(n *graph.Node) graph.Dim { return flashScratch(n, 0, 1) },
	Fuse:      fuseFlashAttention,
	Lower:     func(l *graph.Lowering) { lowerFlash(l, false) },
	Flops:     func(n *graph.Node) graph.Dim { return flashFlops(n, 0, 1, 1) },
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[2,3,4], f32[2,5,4], f32[2,5,6]; scale=0.5",
		"f32[2,2,7,4], f32[2,2,4,7], f32[2,2,7,4], f32[7,7]; scale=0.5 transK=1",
		"f32[5,4], f32[5,4], f32[5,3]; right=0 fill=-1e30",
		"f32[2,3,70,8], f32[2,3,9,8], f32[2,3,9,8], f32[2,1,70,9]; left=60 right=0 fill=-9.0",
		"f32[3,66,4], f32[3,5,4], f32[3,5,4], f32[3,1,5]",
		"f64[2,3,4], f64[2,5,4], f64[2,5,6]; scale=0.5",
		"f16[2,3,4], f16[2,5,4], f16[2,5,6]",
		"f32[0,3,4], f32[0,5,4], f32[0,5,6]",
	},
})

const flashAttrs = "scale float=1, transK int=0, left int=-1, right int=-1, fill float=0"

func flashAttrsOf(n *graph.Node) graph.A {
	return graph.A{"scale": n.Float("scale"), "transK": n.Int("transK"), "left": n.Int("left"), "right": n.Int("right"), "fill": n.Float("fill")}
}

func inferFlash(n *graph.Node, q, k, v, bias *graph.Value) {
	rank := q.Rank()
	if !q.Type.IsFloat() || k.Type != q.Type || v.Type != q.Type || bias != nil && bias.Type != q.Type {
		n.Fail("Q, K, V and bias must be floats of one type")
	}
	if rank < 2 || k.Rank() != rank || v.Rank() != rank {
		n.Fail("Q, K and V must be matrices, or as many of each, but are %s, %s and %s", q.Shape, k.Shape, v.Shape)
	}
	for i := range rank - 2 {
		n.Same(q.Shape[i], k.Shape[i], "the dims before the matrices of Q and K")
		n.Same(q.Shape[i], v.Shape[i], "the dims before the matrices of Q and V")
	}
	keys, width := k.Shape[rank-2], k.Shape[rank-1]
	if n.Int("transK") != 0 {
		keys, width = width, keys
	}
	n.Same(q.Shape[rank-1], width, "the widths of Q and K")
	n.Same(v.Shape[rank-2], keys, "the keys of K and V")
	if bias != nil {
		full := append(append(graph.Shape{}, q.Shape[:rank-1]...), keys)
		if !broadcast(n, full, bias.Shape).Equal(full) {
			n.Fail("the bias is %s, which does not broadcast to the scores %s", bias.Shape, full)
		}
	}
}

// flashFlops counts so many products by the width of Q and K and by that of V.
func flashFlops(n *graph.Node, q int, byWidth, byOut int64) graph.Dim {
	s, v := n.Inputs[q].Shape, n.Inputs[q+2].Shape
	last := len(s) - 1
	scores := s[:last].Elems().Mul(v[last-1])
	return scores.Mul(s[last].Mul(graph.Num(2 * byWidth)).Add(v[last].Mul(graph.Num(2 * byOut))).Add(graph.Num(12)))
}

var _ = define(graph.Op{
	Name:   "FlashAttentionGrad",
	Domain: own,
	Doc:    "the gradients of FlashAttention for Q, K and V; computes the scores again",
	In:     "dY, Q, K, V, bias?",
	Out:    "dQ, dK, dV",
	Attrs:  flashAttrs,
	Infer: func(n *graph.Node) {
		inferFlash(n, n.Inputs[1], n.Inputs[2], n.Inputs[3], n.In(4))
		for i := range 3 {
			n.Set(i, n.Inputs[1+i].Type, n.Inputs[1+i].Shape)
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		f, dy := newFlash(c, 1), c.In[0]
		p, flow := make([]float64, f.keys), make([]float64, f.keys)
		dk, dv := make([]float64, f.k.Len()), make([]float64, f.v.Len())
		f.each(func(z, i int) {
			f.probabilities(z, i, p)
			at, dot := z*f.queries+i, 0.0
			lo, hi := f.window(i)
			for j, x := range p {
				flow[j] = 0
				for e := range f.out {
					g := dy.Float(at*f.out + e)
					flow[j] += g * f.v.Float((z*f.keys+j)*f.out+e)
					dv[(z*f.keys+j)*f.out+e] += x * g
				}
				dot += x * flow[j]
			}
			for d := range f.width {
				sum := 0.0
				for j := lo; j < hi; j++ {
					g := f.scale * p[j] * (flow[j] - dot)
					sum += g * f.k.Float(f.atK(z, j, d))
					dk[f.atK(z, j, d)] += g * f.q.Float(at*f.width+d)
				}
				c.Out[0].SetFloat(at*f.width+d, sum)
			}
		})
		for i, x := range dk {
			c.Out[1].SetFloat(i, x)
		}
		for i, x := range dv {
			c.Out[2].SetFloat(i, x)
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		newFlash(c, 1).fastGrad(c.In[0].F32(), c.Out[0].F32(), c.Out[1].F32(), c.Out[2].F32())
	},
	Scratch:   func(n *graph.Node) graph.Dim { return flashScratch(n, 1, 2) },
	Lower:     func(l *graph.Lowering) { lowerFlash(l, true) },
	Flops:     func(n *graph.Node) graph.Dim { return flashFlops(n, 1, 3, 2) },
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[2,3,6], f32[2,3,4], f32[2,5,4], f32[2,5,6]; scale=0.5",
		"f32[2,2,7,4], f32[2,2,7,4], f32[2,2,4,7], f32[2,2,7,4], f32[7,7]; scale=0.5 transK=1",
		"f32[5,3], f32[5,4], f32[5,4], f32[5,3]; right=0 fill=-1e30",
		"f32[2,3,70,8], f32[2,3,70,8], f32[2,3,9,8], f32[2,3,9,8], f32[2,1,70,9]; left=60 right=0 fill=-9.0",
		"f32[3,66,4], f32[3,66,4], f32[3,5,4], f32[3,5,4], f32[3,1,5]",
		"f64[2,3,6], f64[2,3,4], f64[2,5,4], f64[2,5,6]",
		"f16[2,3,6], f16[2,3,4], f16[2,5,4], f16[2,5,6]",
		"f32[0,3,6], f32[0,3,4], f32[0,5,4], f32[0,5,6]",
	},
})

// flash is a call of either operator; Q is input at.
type flash struct {
	c                    *graph.Call
	q, k, v, bias        *graph.Tensor
	shape                []int // of the scores
	batch, queries, keys int
	width, out           int // of Q and K, of V
	transK               bool
	scale, fill          float64
	left, right          int
	biasAt               []int // strides of the bias under the scores
}

func newFlash(c *graph.Call, at int) *flash {
	n := c.Node
	f := &flash{c: c, q: c.In[at], k: c.In[at+1], v: c.In[at+2], bias: input(c, at+3), transK: n.Int("transK") != 0,
		scale: n.Float("scale"), fill: n.Float("fill"), left: n.Int("left"), right: n.Int("right")}
	last := len(f.q.Shape) - 1
	f.batch, f.queries, f.keys, f.width, f.out = elems(f.q.Shape[:last-1]), f.q.Shape[last-1], f.v.Shape[last-1], f.q.Shape[last], f.v.Shape[last]
	f.shape = append(append([]int{}, f.q.Shape[:last]...), f.keys)
	if f.bias != nil {
		f.biasAt = broadcastStrides(f.bias.Shape, f.shape)
	}
	return f
}

// each calls do for every query of every matrix.
func (f *flash) each(do func(z, i int)) {
	for z := range f.batch {
		for i := range f.queries {
			do(z, i)
		}
	}
}

func (f *flash) atK(z, j, d int) int {
	if f.transK {
		return (z*f.width+d)*f.keys + j
	}
	return (z*f.keys+j)*f.width + d
}

// window is the keys [lo, hi) that query i sees.
func (f *flash) window(i int) (lo, hi int) { return seenKeys(i, f.left, f.right, f.keys) }

// probabilities fills p with the softmax of a query's scores.
func (f *flash) probabilities(z, i int, p []float64) {
	row := (z*f.queries + i) * f.keys
	lo, hi := f.window(i)
	walk(f.shape, row, row+f.keys, func(at int, bias []int) {
		j := at - row
		if p[j] = f.fill; j < lo || j >= hi {
			return
		}
		sum := 0.0
		for d := range f.width {
			sum += f.q.Float((z*f.queries+i)*f.width+d) * f.k.Float(f.atK(z, j, d))
		}
		if p[j] = f.scale * sum; f.bias != nil {
			p[j] += f.bias.Float(bias[0])
		}
	}, f.biasLists()...)
	top, sum := greatestOf(p), 0.0
	for j, x := range p {
		p[j] = math.Exp(x - top)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
}

func (f *flash) biasLists() [][]int {
	if f.bias == nil {
		return nil
	}
	return [][]int{f.biasAt}
}

// stripRows is how many queries make a strip: a multiple of 64, so that strips begin
// where devices can see them, and at most 32 strips.
const stripUnit, mostStrips = 64, 32

func stripRows(queries int) int {
	return min(queries, stripUnit*ceilDiv(queries, stripUnit*mostStrips))
}

// flashSlots is how many matrices of the batch are worked on at one time.
const flashSlots = 8

// flashScratch is the room for so many strips in each slot.
func flashScratch(n *graph.Node, q int, strips int64) graph.Dim {
	s, keys := n.Inputs[q].Shape, n.Inputs[q+2].Shape
	last := len(s) - 1
	queries := s[last-1]
	rows := queries.Min(queries.CeilDiv(graph.Num(stripUnit * mostStrips)).Mul(graph.Num(stripUnit)))
	slots := s[:last-1].Elems().Min(graph.Num(flashSlots))
	return slots.Mul(rows).Mul(keys[last-1]).Mul(graph.Num(4 * strips))
}

// strips calls do for every strip of every matrix, those of a matrix in order
// and with room for so many strips. A matrix is one worker's; a single one is
// everybody's.
func (f *flash) strips(count int, do func(par parallel, z, from, rows int, room [][]float32)) {
	most := stripRows(f.queries)
	size, slots := most*f.keys, min(f.batch, flashSlots)
	if size == 0 || slots == 0 {
		return
	}
	scratch := floats(f.c.Scratch)
	slot := func(par parallel, s int) {
		room := make([][]float32, count)
		for z := s; z < f.batch; z += slots {
			for from := 0; from < f.queries; from += most {
				rows := min(most, f.queries-from)
				for i := range room {
					at := (s*count + i) * size
					room[i] = scratch[at : at+rows*f.keys]
				}
				do(par, z, from, rows, room)
			}
		}
	}
	if slots == 1 {
		slot(f.c.Parallel, 0)
		return
	}
	f.c.Parallel(slots, 1, func(lo, hi int) {
		for s := lo; s < hi; s++ {
			slot(serial, s)
		}
	})
}

// The matrices of a float32 call as operands of products: rows of Q, columns of
// Kᵀ, and so on.
func (f *flash) rowsOf(x []float32, z, rows, from, width int, scale float64) operand {
	return dense{x[(z*rows+from)*width:], width, 1, float32(scale)}
}

func (f *flash) columnsOf(x []float32, z, rows, from, width int, scale float64) operand {
	return dense{x[(z*rows+from)*width:], 1, width, float32(scale)}
}

// keysBy is Kᵀ: keys outside, the width inside; widthBy is K: the other way.
func (f *flash) keysBy(z int) operand {
	if f.transK {
		return f.columnsOf(f.k.F32(), z, f.width, 0, f.keys, 1)
	}
	return f.rowsOf(f.k.F32(), z, f.keys, 0, f.width, 1)
}

func (f *flash) widthBy(z int) operand {
	if f.transK {
		return f.rowsOf(f.k.F32(), z, f.width, 0, f.keys, 1)
	}
	return f.columnsOf(f.k.F32(), z, f.keys, 0, f.width, 1)
}

// softened fills p with the probabilities of a strip.
func (f *flash) softened(par parallel, z, from, rows int, p []float32) {
	multiply(par, rows, f.keys, f.width, f.rowsOf(f.q.F32(), z, f.queries, from, f.width, f.scale), f.keysBy(z), p, f.keys, false)
	par(rows, 1+grain/(8*f.keys), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := p[r*f.keys : (r+1)*f.keys]
			if f.bias != nil {
				bias, at, step := f.bias.F32(), (z*f.queries+from+r)*f.keys, f.biasAt[len(f.biasAt)-1]
				walk(f.shape, at, at+1, func(_ int, b []int) {
					for j := range row {
						row[j] += bias[b[0]+j*step]
					}
				}, f.biasAt)
			}
			lo, hi := f.window(from + r)
			fillWith(row[:lo], float32(f.fill))
			fillWith(row[hi:], float32(f.fill))
			softmaxRow(row, [][]float32{row})
		}
	})
}

func (f *flash) fast(y []float32) {
	f.strips(1, func(par parallel, z, from, rows int, room [][]float32) {
		p := room[0]
		f.softened(par, z, from, rows, p)
		multiply(par, rows, f.out, f.keys, f.rowsOf(p, 0, rows, 0, f.keys, 1), f.columnsOf(f.v.F32(), z, f.keys, 0, f.out, 1),
			y[(z*f.queries+from)*f.out:], f.out, false)
	})
}

func (f *flash) fastGrad(dy, dq, dk, dv []float32) {
	f.strips(2, func(par parallel, z, from, rows int, room [][]float32) {
		p, ds := room[0], room[1]
		f.softened(par, z, from, rows, p)
		multiply(par, f.keys, f.out, rows, f.columnsOf(p, 0, rows, 0, f.keys, 1), f.columnsOf(dy, z, f.queries, from, f.out, 1), dv[z*f.keys*f.out:], f.out, from > 0)
		multiply(par, rows, f.keys, f.out, f.rowsOf(dy, z, f.queries, from, f.out, 1), f.rowsOf(f.v.F32(), z, f.keys, 0, f.out, 1), ds, f.keys, false)
		par(rows, 1+grain/(8*f.keys), func(lo, hi int) {
			for r := lo; r < hi; r++ {
				flow := ds[r*f.keys : (r+1)*f.keys]
				softmaxSlopeRow(flow, flow, p[r*f.keys:(r+1)*f.keys])
				lo, hi := f.window(from + r)
				clear(flow[:lo])
				clear(flow[hi:])
			}
		})
		q := f.q.F32()
		multiply(par, rows, f.width, f.keys, f.rowsOf(ds, 0, rows, 0, f.keys, f.scale), f.widthBy(z), dq[(z*f.queries+from)*f.width:], f.width, false)
		if f.transK {
			multiply(par, f.width, f.keys, rows, f.columnsOf(q, z, f.queries, from, f.width, f.scale), f.columnsOf(ds, 0, rows, 0, f.keys, 1), dk[z*f.width*f.keys:], f.keys, from > 0)
			return
		}
		multiply(par, f.keys, f.width, rows, f.columnsOf(ds, 0, rows, 0, f.keys, f.scale), f.columnsOf(q, z, f.queries, from, f.width, 1), dk[z*f.keys*f.width:], f.width, from > 0)
	})
}

// fuseFlashAttention: a product of a softmax that nobody else reads, of a product,
// maybe with a bias and a band between. Batches must be alike: nothing repeats a
// matrix. What is dropped out of the probabilities stays in pieces.
func fuseFlashAttention(m *graph.Match) []*graph.Value {
	p, n := pieces{m}, m.Node
	if !p.plainProduct(n, false) {
		return nil
	}
	soft, v := n.Inputs[0], n.Inputs[1]
	rank := soft.Rank()
	attrs := graph.A{}
	var scores, bias *graph.Value
	if s := p.Inner(soft, "Softmax"); s != nil && axisOf(s, s.Int("axis"), rank) == rank-1 {
		scores = s.Inputs[0]
	} else if s := p.Inner(soft, "com.microsoft.BiasSoftmax"); s != nil && axisOf(s, s.Int("axis"), rank) == rank-1 {
		scores, bias = s.Inputs[0], s.Inputs[1]
	} else {
		return nil
	}
	if band := p.Inner(scores, own+".BandMask"); band != nil && bias == nil && band.In(1) == nil {
		attrs["left"], attrs["right"], attrs["fill"] = band.Int("left"), band.Int("right"), band.Float("fill")
		scores = band.Inputs[0]
	}
	if add := p.Inner(scores, "Add"); add != nil && bias == nil {
		for i, x := range add.Inputs {
			if b := add.Inputs[1-i]; bias == nil && x.Shape.Equal(soft.Shape) && (p.Maker(x, "MatMul") != nil || p.Maker(x, microsoft+".FusedMatMul") != nil) {
				scores, bias = x, b
			}
		}
	}
	made := p.product(scores)
	if made == nil || !p.plainProduct(made, true) || !scores.Shape.Equal(soft.Shape) || !soft.Type.IsFloat() {
		return nil
	}
	q, k := made.Inputs[0], made.Inputs[1]
	if q.Rank() != rank || k.Rank() != rank || v.Rank() != rank || rank < 3 || bias != nil && bias.Type != soft.Type {
		return nil
	}
	lead := soft.Shape[:rank-2]
	for _, x := range []*graph.Value{q, k, v} {
		if !x.Shape[:rank-2].Equal(lead) {
			return nil
		}
	}
	of := product{alpha: 1}
	if made.Op.FullName() != "MatMul" {
		of = batchedProduct(made)
	}
	attrs["scale"], attrs["transK"] = of.alpha, !of.transB
	return []*graph.Value{m.Builder.Op(own+".FlashAttention", attrs, q, k, v, bias)}
}

// plainProduct reports whether a node is a product whose A lies as it is; if it is
// free, B may be transposed and the product scaled.
func (p pieces) plainProduct(n *graph.Node, free bool) bool {
	switch n.Op.FullName() {
	case "MatMul":
		return true
	case microsoft + ".FusedMatMul":
		of := batchedProduct(n)
		return of == product{alpha: 1} || free && of == product{transB: of.transB, alpha: of.alpha}
	}
	return false
}
