package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// FlashAttention is attention by tiles of queries × keys with an online softmax (Dao et al.
// 2022): each row carries its greatest score so far and the sum of exponentials; when a
// greater score comes, that sum and Y are rescaled. It also outputs LSE, the log-sum-exp of
// each query's scores, from which the gradient recomputes probabilities tile by tile. So
// neither scores nor probabilities ever exist as a whole, and the backward pass needs Q, K,
// V, Y and LSE. Results differ from MatMul, Softmax, MatMul by rounding. It replaces them
// only where the caller of Clean asks for it.
var FlashAttention = define(graph.Op{
	Name:   "FlashAttention",
	Domain: own,
	Doc:    "softmax(scale·Q·Kᵀ + bias)·V by tiles, and log Σ eˣ of each query's scores; keys are seen from −left to right of a query, −1 is no limit, others count as fill",
	In:     "Q, K, V, bias?",
	Out:    "Y, LSE",
	Attrs:  flashAttrs,
	Infer: func(n *graph.Node) {
		q := n.Inputs[0]
		n.Set(0, q.Type, inferFlash(n, q, n.Inputs[1], n.Inputs[2], n.In(3), nil))
		t, each := lseOf(q)
		n.Set(1, t, each)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		q, k, v, bias := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3)
		if dy[0] == nil {
			dy[0] = expandTo(b, num(b, n.Outputs[0], 0), n.Outputs[0].Shape)
		}
		d := b.Ops(own+".FlashAttentionGrad", flashAttrsOf(n), 3, dy[0], q, k, v, n.Outputs[0], n.Outputs[1], bias, dy[1])
		if bias == nil {
			return d
		}
		return append(d, attentionBiasGrad(b, n, dy[0], dy[1]))
	},
	Eval: func(c *graph.Call) {
		f := newFlash(c, 0, 3)
		f.attend(func(at int, log float64) { c.Out[1].SetFloat(at, log) })
	},
	Fast:    flashFast(0, 3, (*flash).fast),
	Scratch: func(n *graph.Node) graph.Dim { return flashScratch(n, 0) },
	Fuse: func(m *graph.Match) []*graph.Value {
		return fuseAttention(m, func(attrs graph.A, in []*graph.Value) []*graph.Value {
			if in[4] != nil {
				return nil
			}
			return m.Builder.Ops(own+".FlashAttention", attrs, 2, in[:4]...)[:1]
		})
	},
	Lower:     lowerFlash,
	Flops:     func(n *graph.Node) graph.Dim { return flashFlops(n, 0, 1, 1) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.attends(0, 1, 1) })},
	Recompute: graph.Heavy,
	Kernel:    graph.AttentionKernel,
	Calls:     launches(8),
	Pieces:    graph.AttentionInTiles,
	Samples: []string{
		"f32[2,3,4], f32[2,5,4], f32[2,5,6]; scale=0.5",
		"f32[2,2,7,4], f32[2,2,4,7], f32[2,2,7,4], f32[7,7]; scale=0.5 transK=1",
		"f32[5,4], f32[5,4], f32[5,3]; right=0 fill=-1e30",
		"f32[2,3,70,8], f32[2,3,9,8], f32[2,3,9,8], f32[2,1,70,9]; left=60 right=0 fill=-9.0",
		"f32[2,30,16], f32[2,22,16], f32[2,22,32]; left=4 right=0 fill=-1e30",
		"f32[1,40,16], f32[1,300,16], f32[1,300,16]; left=9 right=2 fill=-1e30",
		"f32[1,14,5], f32[1,5,300], f32[1,300,7]; transK=1",
		"f32[2,3,9,4], f32[2,1,8,4], f32[2,1,8,6]; right=0 fill=-1e30",
		"f32[3,66,4], f32[3,5,4], f32[3,5,4], f32[3,1,5]; safe=1",
		"f64[2,3,4], f64[2,5,4], f64[2,5,6]; scale=0.5",
		"f16[2,3,4], f16[2,5,4], f16[2,5,6]",
		"f32[0,3,4], f32[0,5,4], f32[0,5,6]",
		"f32[2,3,4], f32[2,0,4], f32[2,0,6]",
		"f32[2,3,4], f32[2,0,4], f32[2,0,6]; safe=1",
	},
})

// attentionBiasGrad is the gradient of a bias on the scores, given those of Y and (if not nil)
// of LSE. It computes all scores at once: such biases are seldom trained.
func attentionBiasGrad(b *graph.Builder, n *graph.Node, dy, dlse *graph.Value) *graph.Value {
	q, k, v, bias, mask := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Inputs[3], n.In(4)
	scores := product{TransB: n.Int("transK") == 0, Alpha: n.Float("scale")}.node(b, q, k)
	band := func(x *graph.Value, fill float64) *graph.Value {
		if mask != nil {
			x = b.Op("Where", nil, mask, x, num(b, x, fill))
		}
		if n.Int("left") < 0 && n.Int("right") < 0 {
			return x
		}
		return b.Op(own+".BandMask", graph.A{"left": n.Int("left"), "right": n.Int("right"), "fill": fill}, x)
	}
	softmax := "Softmax"
	if n.Int("safe") != 0 {
		softmax = own + ".SafeSoftmax"
	}
	p := b.Op(softmax, nil, band(b.Op("Add", nil, scores, bias), n.Float("fill")))
	flow := b.Op(microsoft+".SoftmaxGrad_13", nil, product{TransB: true, Alpha: 1}.node(b, dy, v), p)
	if dlse != nil {
		flow = b.Op("Add", nil, flow, b.Op("Mul", nil, p, cast(b, dlse, p.Type)))
	}
	return sumTo(b, band(flow, 0), bias.Shape)
}

// safe: a row whose probabilities would be NaN has probabilities 0 and LSE ∞.
const flashAttrs = "scale float=1, transK int=0, left int=-1, right int=-1, fill float=0, safe int=0"

func flashAttrsOf(n *graph.Node) graph.A {
	return graph.A{"scale": n.Float("scale"), "transK": n.Int("transK"), "left": n.Int("left"), "right": n.Int("right"), "fill": n.Float("fill"), "safe": n.Int("safe")}
}

// lseOf is the type and shape of LSE. It is at least float32: 16 bits are too few for a
// number that is subtracted from scores before an exponential.
func lseOf(q *graph.Value) (graph.DType, graph.Shape) {
	t := graph.Float32
	if q.Type == graph.Float64 {
		t = q.Type
	}
	return t, slices.Concat(q.Shape[:q.Rank()-1], graph.Shape{graph.Num(1)})
}

// inferFlash checks the inputs and returns the shape of Y. K and V may have a last batch dim
// of 1: then matrices of Q share one matrix of each.
func inferFlash(n *graph.Node, q, k, v, bias, mask *graph.Value) (y graph.Shape) {
	rank := q.Rank()
	if !q.Type.IsFloat() || k.Type != q.Type || v.Type != q.Type || bias != nil && bias.Type != q.Type {
		n.Fail("Q, K, V and bias must be floats of one type")
	}
	if rank < 2 || k.Rank() != rank || v.Rank() != rank {
		n.Fail("Q, K and V must be matrices with the same batch dims, but are %s, %s and %s", q.Shape, k.Shape, v.Shape)
	}
	for i := range rank - 2 {
		n.Same(k.Shape[i], v.Shape[i], "the batch dims of K and V")
		if i < rank-3 || !k.Shape[i].Is(1) {
			n.Same(q.Shape[i], k.Shape[i], "the batch dims of Q and K")
		}
	}
	keys, width := k.Shape[rank-2], k.Shape[rank-1]
	if n.Int("transK") != 0 {
		keys, width = width, keys
	}
	n.Same(q.Shape[rank-1], width, "the widths of Q and K")
	n.Same(v.Shape[rank-2], keys, "the keys of K and V")
	if mask != nil && mask.Type != graph.Bool {
		n.Fail("the mask is %s, not bool", mask.Type)
	}
	full := append(append(graph.Shape{}, q.Shape[:rank-1]...), keys)
	for i, x := range []*graph.Value{bias, mask} {
		if x != nil && !broadcast(n, full, x.Shape).Equal(full) {
			n.Fail("the %s is %s, which does not broadcast to the scores %s", [...]string{"bias", "mask"}[i], x.Shape, full)
		}
	}
	return slices.Concat(q.Shape[:rank-1], v.Shape[rank-1:])
}

// flashFlops counts byWidth products over the width of Q and K, byOut over that of V, and
// the softmax.
func flashFlops(n *graph.Node, q int, byWidth, byOut int64) graph.Dim {
	s, v := n.Inputs[q].Shape, n.Inputs[q+2].Shape
	last := len(s) - 1
	return scoresOf(n, q).Mul(s[last].Mul(graph.Num(2 * byWidth)).Add(v[last].Mul(graph.Num(2 * byOut))).Add(graph.Num(12)))
}

// scoresOf is how many scores attention has whose Q is an input, with K and V behind it.
func scoresOf(n *graph.Node, q int) graph.Dim {
	s, v := n.Inputs[q].Shape, n.Inputs[q+2].Shape
	return s[:len(s)-1].Elems().Mul(v[len(s)-2])
}

// scoreBytes is what they take.
func scoreBytes(n *graph.Node, q int) graph.Dim {
	return scoresOf(n, q).Mul(graph.Num(n.Inputs[q].Type.Size()))
}

var _ = define(graph.Op{
	Name:   "FlashAttentionGrad",
	Domain: own,
	Doc:    "the gradients of FlashAttention for Q, K and V; computes the scores again",
	In:     "dY, Q, K, V, Y, LSE, bias?, dLSE?",
	Out:    "dQ, dK, dV",
	Attrs:  flashAttrs,
	Infer: func(n *graph.Node) {
		q := n.Inputs[1]
		y := inferFlash(n, q, n.Inputs[2], n.Inputs[3], n.In(6), nil)
		t, each := lseOf(q)
		for _, x := range []struct {
			at    int
			t     graph.DType
			shape graph.Shape
		}{{0, q.Type, y}, {4, q.Type, y}, {5, t, each}, {7, t, each}} {
			if in := n.In(x.at); in != nil && (in.Type != x.t || !in.Shape.Equal(x.shape)) {
				n.Fail("input %d is %s%s, not %s%s", x.at, in.Type, in.Shape, x.t, x.shape)
			}
		}
		for i := range 3 {
			n.Set(i, n.Inputs[1+i].Type, n.Inputs[1+i].Shape)
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		f := newFlash(c, 1, 6)
		f.grads(func(z, i int, p, flow []float64) float64 {
			f.scores(z, i, p)
			at := z*f.queries + i
			for j, x := range p {
				p[j] = math.Exp(x - f.lse.Float(at))
			}
			return f.dot(at) // Σ dY·Y = Σ p·dp, as Y = p·V
		})
	},
	Fast:      flashFast(1, 6, (*flash).fastGrad),
	Scratch:   func(n *graph.Node) graph.Dim { return flashScratch(n, 1) },
	Lower:     lowerFlashGrad,
	Flops:     func(n *graph.Node) graph.Dim { return flashFlops(n, 1, 3, 2) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.attends(1, 3, 2) })},
	Recompute: graph.Heavy,
	Kernel:    graph.AttentionBackwardKernel,
	Calls:     launches(16),
	Samples: []string{
		"f32[2,3,6], f32[2,3,4], f32[2,5,4], f32[2,5,6], f32[2,3,6], f32[2,3,1]; scale=0.5",
		"f32[2,2,7,4], f32[2,2,7,4], f32[2,2,4,7], f32[2,2,7,4], f32[2,2,7,4], f32[2,2,7,1], f32[7,7]; scale=0.5 transK=1",
		"f32[5,3], f32[5,4], f32[5,4], f32[5,3], f32[5,3], f32[5,1]; right=0 fill=-1e30",
		"f32[2,3,70,8], f32[2,3,70,8], f32[2,3,9,8], f32[2,3,9,8], f32[2,3,70,8], f32[2,3,70,1], f32[2,1,70,9]; scale=0.2 left=60 right=0 fill=-9.0",
		"f32[2,30,32], f32[2,30,16], f32[2,22,16], f32[2,22,32], f32[2,30,32], f32[2,30,1]; scale=0.1 left=4 right=0 fill=-1e30",
		"f32[1,40,16], f32[1,40,16], f32[1,300,16], f32[1,300,16], f32[1,40,16], f32[1,40,1]; scale=0.1 left=9 right=2 fill=-1e30",
		"f32[8,78,16], f32[8,78,16], f32[8,100,16], f32[8,100,16], f32[8,78,16], f32[8,78,1]; scale=0.1 left=9 right=2 fill=-1e30",
		"f32[2,90,16], f32[2,90,16], f32[2,16,60], f32[2,60,16], f32[2,90,16], f32[2,90,1]; scale=0.1 transK=1",
		"f32[1,14,7], f32[1,14,5], f32[1,5,300], f32[1,300,7], f32[1,14,7], f32[1,14,1]; scale=0.2 transK=1",
		"f32[2,3,9,6], f32[2,3,9,4], f32[2,1,8,4], f32[2,1,8,6], f32[2,3,9,6], f32[2,3,9,1]; right=0 fill=-1e30",
		"f32[3,66,4], f32[3,66,4], f32[3,5,4], f32[3,5,4], f32[3,66,4], f32[3,66,1], f32[3,1,5]",
		"f32[2,3,6], f32[2,3,4], f32[2,5,4], f32[2,5,6], f32[2,3,6], f32[2,3,1], _, f32[2,3,1]",
		"f64[2,3,6], f64[2,3,4], f64[2,5,4], f64[2,5,6], f64[2,3,6], f64[2,3,1]",
		"f16[2,3,6], f16[2,3,4], f16[2,5,4], f16[2,5,6], f16[2,3,6], f32[2,3,1]",
		"f32[0,3,6], f32[0,3,4], f32[0,5,4], f32[0,5,6], f32[0,3,6], f32[0,3,1]",
	},
})

// flash is a call of FlashAttention, AttentionInRows or a gradient of them.
type flash struct {
	c                    *graph.Call
	q, k, v, y           *graph.Tensor
	bias, mask           *graph.Tensor // nil for none
	lse, dlse            *graph.Tensor
	shape                []int // of the scores
	batch, queries, keys int
	width, out           int // head width of Q and K; of V
	share                int // matrices of Q that share one of K and V
	transK, safe         bool
	rows                 bool // AttentionInRows: softmax over whole rows
	whole                bool // do not skip keys that the band hides
	scale, fill          float64
	left, right          int
	biasAt, maskAt       []int // strides in the shape of the scores
}

// newFlash reads a call whose Q is input number at, followed by K and V.
func newFlash(c *graph.Call, at, bias int) *flash {
	n := c.Node
	f := &flash{c: c, q: c.In[at], k: c.In[at+1], v: c.In[at+2], bias: input(c, bias), transK: n.Int("transK") != 0, safe: n.Int("safe") != 0,
		scale: n.Float("scale"), fill: n.Float("fill"), left: n.Int("left"), right: n.Int("right")}
	if bias > at+3 { // FlashAttentionGrad: Y and LSE come before the bias
		f.y, f.lse, f.dlse = c.In[4], c.In[5], input(c, 7)
	} else {
		f.mask = input(c, bias+1)
	}
	last := len(f.q.Shape) - 1
	f.batch, f.queries, f.keys, f.width, f.out = index.Elems(f.q.Shape[:last-1]), f.q.Shape[last-1], f.v.Shape[last-1], f.q.Shape[last], f.v.Shape[last]
	f.share = f.batch / max(1, index.Elems(f.k.Shape[:last-1]))
	f.shape = append(append([]int{}, f.q.Shape[:last]...), f.keys)
	if f.bias != nil {
		f.biasAt = index.Broadcast(f.bias.Shape, f.shape)
	}
	if f.mask != nil {
		f.maskAt = index.Broadcast(f.mask.Shape, f.shape)
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

// window returns the keys [lo, hi) that query i sees.
func (f *flash) window(i int) (lo, hi int) { return seenKeys(i, f.left, f.right, f.keys) }

// fillOf is the score of keys that query i does not see. If it sees none, all probabilities
// are equal whatever the fill; FlashAttention then takes 0, which loses no precision in LSE.
func (f *flash) fillOf(i int) float64 {
	if lo, hi := f.window(i); lo == hi && !f.rows {
		return 0
	}
	return f.fill
}

// skips reports whether hidden keys certainly have probability 0, so that they can be left
// out. With a bias or a mask, visible scores might be as low as the fill.
func (f *flash) skips() bool {
	return !f.whole && f.bias == nil && f.mask == nil && (f.left >= 0 || f.right >= 0) && f.fill <= -1e30 && (f.left < 0 || f.queries <= f.keys+f.left)
}

// scores fills s with the scores of query i.
func (f *flash) scores(z, i int, s []float64) {
	row := (z*f.queries + i) * f.keys
	lo, hi := f.window(i)
	hides := f.hides(row)
	index.Walk(f.shape, row, row+f.keys, func(at int, bias []int) {
		j := at - row
		if s[j] = f.fillOf(i); j < lo || j >= hi || hides(j) {
			return
		}
		sum := 0.0
		for d := range f.width {
			sum += f.q.Float((z*f.queries+i)*f.width+d) * f.k.Float(f.atK(z/f.share, j, d))
		}
		if s[j] = f.scale * sum; f.bias != nil {
			s[j] += f.bias.Float(bias[0])
		}
	}, f.biasLists()...)
}

// dot is Σ dY·Y − dLSE of a row, which the gradients of its scores subtract.
func (f *flash) dot(at int) float64 {
	dy, sum := f.c.In[0], 0.0
	for e := range f.out {
		sum += dy.Float(at*f.out+e) * f.y.Float(at*f.out+e)
	}
	if f.dlse != nil {
		sum -= f.dlse.Float(at)
	}
	return sum
}

// probabilities fills p with the probabilities of query i and returns its LSE.
func (f *flash) probabilities(z, i int, p []float64) (log float64) {
	f.scores(z, i, p)
	top, total := greatestOf(p), 0.0
	for j, x := range p {
		p[j] = math.Exp(x - top)
		total += p[j]
	}
	if f.safe && !(total > 0) {
		clear(p)
		return math.Inf(1)
	}
	for j := range p {
		p[j] /= total
	}
	return top + math.Log(total)
}

// attend computes Y a query at a time and calls each with the LSE.
func (f *flash) attend(each func(at int, log float64)) {
	p := make([]float64, f.keys)
	f.each(func(z, i int) {
		log, at := f.probabilities(z, i, p), z*f.queries+i
		for e := range f.out {
			sum := 0.0
			for j, x := range p {
				sum += x * f.v.Float((z/f.share*f.keys+j)*f.out+e)
			}
			f.c.Out[0].SetFloat(at*f.out+e, sum)
		}
		each(at, log)
	})
}

// grads computes dQ, dK and dV a query at a time. probable fills p with the query's
// probabilities and returns Σ p·flow − dLSE.
func (f *flash) grads(probable func(z, i int, p, flow []float64) float64) {
	c, dy := f.c, f.c.In[0]
	p, flow := make([]float64, f.keys), make([]float64, f.keys)
	dk, dv := make([]float64, f.k.Len()), make([]float64, f.v.Len())
	f.each(func(z, i int) {
		at, zk := z*f.queries+i, z/f.share
		for j := range flow {
			flow[j] = 0
			for e := range f.out {
				flow[j] += dy.Float(at*f.out+e) * f.v.Float((zk*f.keys+j)*f.out+e)
			}
		}
		dot := probable(z, i, p, flow)
		for j, x := range p {
			for e := range f.out {
				dv[(zk*f.keys+j)*f.out+e] += x * dy.Float(at*f.out+e)
			}
		}
		lo, hi := f.window(i)
		hides := f.hides(at * f.keys)
		for d := range f.width {
			sum := 0.0
			for j := lo; j < hi; j++ {
				if hides(j) {
					continue
				}
				g := f.scale * p[j] * (flow[j] - dot)
				sum += g * f.k.Float(f.atK(zk, j, d))
				dk[f.atK(zk, j, d)] += g * f.q.Float(at*f.width+d)
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
}

// hides returns whether the mask hides a key, for the row of scores that begins at element row.
func (f *flash) hides(row int) func(key int) bool {
	if f.mask == nil {
		return func(int) bool { return false }
	}
	at, step := 0, f.maskAt[len(f.maskAt)-1]
	index.Walk(f.shape, row, row+1, func(_ int, from []int) { at = from[0] }, f.maskAt)
	return func(key int) bool { return f.mask.Bytes[at+key*step] == 0 }
}

func (f *flash) biasLists() [][]int {
	if f.bias == nil {
		return nil
	}
	return [][]int{f.biasAt}
}

// fuseAttention matches MatMul(Softmax(scores), V), where scores are a product with an
// optional bias, BandMask or mask, and no other node reads scores or probabilities. Batch
// dims must be equal. Attention with dropout on the probabilities is not matched.
func fuseAttention(m *graph.Match, build func(attrs graph.A, in []*graph.Value) []*graph.Value) []*graph.Value {
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
	} else if s := p.Inner(soft, own+".SafeSoftmax"); s != nil && axisOf(s, s.Int("axis"), rank) == rank-1 {
		scores, attrs["safe"] = s.Inputs[0], 1
	} else if s := p.Inner(soft, "com.microsoft.BiasSoftmax"); s != nil && axisOf(s, s.Int("axis"), rank) == rank-1 {
		scores, bias = s.Inputs[0], s.Inputs[1]
	} else {
		return nil
	}
	if band := p.Inner(scores, own+".BandMask"); band != nil && bias == nil && band.In(1) == nil {
		attrs["left"], attrs["right"], attrs["fill"] = band.Int("left"), band.Int("right"), band.Float("fill")
		scores = band.Inputs[0]
	}
	var mask *graph.Value
	if where := p.Inner(scores, "Where"); where != nil && bias == nil && attrs["fill"] == nil {
		for i, x := range where.Inputs[1:] {
			if fill, ok := p.Number(where.Inputs[2-i]); ok && mask == nil && x.Shape.Equal(soft.Shape) {
				scores, mask, attrs["fill"] = x, where.Inputs[0], fill
				if i == 1 {
					mask = m.Builder.Op("Not", nil, mask)
				}
			}
		}
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
	if mask != nil && mask.Rank() > rank {
		return nil
	}
	of := productOfNode(made)
	attrs["scale"], attrs["transK"] = of.Alpha, !of.TransB
	return build(attrs, []*graph.Value{q, k, v, bias, mask})
}

// plainProduct reports whether a node is a product of A and B as they are; if free is set, B
// may be transposed and the product scaled.
func (p pieces) plainProduct(n *graph.Node, free bool) bool {
	switch n.Op.FullName() {
	case "MatMul":
		return true
	case microsoft + ".FusedMatMul":
		of := batchedProduct(n)
		return of == product{Alpha: 1} || free && of == product{TransB: of.TransB, Alpha: of.Alpha}
	}
	return false
}

// flashKernel is a part of flash.comp, its form that loads floats in pairs, and what does the same by cooperative matrices.
type flashKernel struct {
	singles, paired, staged *graph.Kernel
	matrices                lower.MatrixKernel
}

var (
	flashForward = newFlashKernel("forward", lower.MatrixShader("flash-cooperative", "flashcooperative.comp"))
	flashQueries = newFlashKernel("queries", lower.MatrixShader("flash-queries-cooperative", "flashbackcooperative.comp", "-DQUERIES"))
	flashKeys    = newFlashKernel("keys", lower.MatrixShader("flash-keys-cooperative", "flashbackcooperative.comp", "-DKEYS"))
	flashDots    = lower.Halved(lower.Shader("flash-dots", "flash.comp", "-DDOTS"))
)

// flashRows is how many rows of the other operand a workgroup processes at a time;
// mostFlashWidth is the largest head width that fits a lane's registers.
const flashRows, mostFlashWidth = 4, 256

// loweredFlash lowers a node of FlashAttention or its gradient.
type loweredFlash struct {
	*flash
	l  *graph.Lowering
	at int // input Q
}

// part appends a kernel that iterates over rows for the columns of some matrices. A CPU
// driver (no shared memory) loads two floats as fast as one, so there a lane has two columns
// if sizes and types allow; on a GPU it has one, to save registers, and workgroups stage the rows.
func (f loweredFlash) part(k flashKernel, matrices, columns, rows int, own map[int]graph.Buffer) {
	limits := f.l.Limits
	if w := max(f.width, f.out); w > mostFlashWidth {
		f.l.Refuse("heads are %d wide; the kernel takes at most %d", w, mostFlashWidth)
		return
	}
	if f.byMatrices(k, matrices, columns, own) {
		return
	}
	kernel, each := k.singles, limits.Subgroup
	if limits.Int64 && !limits.Shared && !lower.OfHalves(f.l) && f.width%2 == 0 && f.out%2 == 0 && (!f.transK || f.keys%2 == 0) {
		kernel, each = k.paired, 2*each
	}
	local := 0
	if limits.Shared {
		local = f.staged(matrices, columns)
	}
	if local > 0 {
		kernel, each = k.staged, 4 // rows are in shared memory by fours
	}
	spec := []uint32{uint32(index.CeilDiv(f.width, each) * each), uint32(index.CeilDiv(f.out, each) * each), lower.OneIf(f.transK), lower.OneIf(f.bias != nil),
		lower.OneIf(f.left >= 0 || f.right >= 0), lower.OneIf(f.skips()), lower.OneIf(f.width%each == 0) | lower.OneIf(f.out%each == 0)<<1 | lower.OneIf(rows%flashRows == 0)<<2, lower.OneIf(f.safe)}
	if local > 0 {
		spec, each = append(spec, uint32(local)), local
	}
	f.append(kernel, matrices*index.CeilDiv(columns, each), spec, own)
}

// byMatrices appends a part by cooperative matrices, where a device has them and groups share memory, and Q, K, V and dY
// are of a 16-bit type that it multiplies so; it reports whether it did. The choice depends on types and widths alone.
func (f loweredFlash) byMatrices(k flashKernel, matrices, columns int, own map[int]graph.Buffer) bool {
	l, factors := f.l, []graph.Buffer{}
	for i := range f.at + 3 { // dY comes before Q
		factors = append(factors, lower.Reads(i))
	}
	of, ok := lower.MatrixType(l, factors...)
	s := l.Limits.Matrices.Of(of)
	if !ok || !l.Limits.Shared || 2*s[1]%s[2] != 0 || s[0] > l.Limits.Subgroup {
		return false
	}
	kernel := k.matrices.Of(of)
	side := max(s[1], s[2])
	wide, outs := index.CeilDiv(f.width, side)*side, index.CeilDiv(f.out, side)*side
	sizes, variants := map[string]int{}, []string{}
	for _, n := range matrixSubgroups {
		if lower.Fits(n*l.Limits.Subgroup, l.Limits.Invocations) && lower.Fits(k.matrixBytes(s, n, wide, outs), l.Limits.SharedBytes) && (n == matrixSubgroups[0] || n/2*s[0] < columns) {
			name := fmt.Sprint("subgroups-", n)
			sizes[name], variants = n, append(variants, name)
		}
	}
	if !slices.Contains(variants, fmt.Sprint("subgroups-", matrixSubgroups[0])) || k != flashForward && wide+outs > mostHeldWidths {
		return false
	}
	class := fmt.Sprintf("%s %d×%d×%d×%d", kernel.Name, lower.SizeClass(matrices), lower.SizeClass(columns), lower.SizeClass(f.width), lower.SizeClass(f.out))
	subgroups := sizes[l.Pick(class, variants...)]
	spec := append(lower.Words(l, wide, outs), lower.OneIf(f.bias != nil), lower.OneIf(f.left >= 0 || f.right >= 0), lower.OneIf(f.skips()), lower.OneIf(f.safe))
	spec = append(append(spec, lower.Words(l, subgroups*l.Limits.Subgroup, s[0], s[1], s[2])...), lower.OneIf(f.transK), uint32(subgroups))
	f.append(kernel, matrices*index.CeilDiv(columns, subgroups*s[0]), spec, own)
	return true
}

// matrixSubgroups are the subgroups of a workgroup that multiplies matrices, variants with the same bits; the first is the expected best, and
// a device without room for it takes the ordinary kernels.
var matrixSubgroups = []int{4, 8, 2}

// mostHeldWidths is how wide a line of both factors may be for a subgroup to hold its lines and sums of the backward pass in registers.
const mostHeldWidths = 256

// matrixBytes is the shared memory of a part by cooperative matrices of a shape, of so many subgroups, for heads of two widths.
func (k flashKernel) matrixBytes(shape [3]int, subgroups, wide, outs int) int {
	const single, half, room = 4, 2, 8 // bytes of floats, and elements behind each line of halves
	rows, step := subgroups*shape[0], 2*shape[1]
	others, rounded := step*(wide+room+outs+room), rows*(step+room)
	if k == flashForward {
		return half*(rows*(wide+room)+others+rounded) + single*(rows*step+rows*outs+rows)
	}
	if k == flashKeys {
		rounded *= 2 // probabilities and slopes
	}
	return half*(max(others, rows*(max(wide, outs)+room))+rounded) + single*2*rows*shape[1]
}

// stagedSizes are the numbers of columns, and invocations, of a workgroup that stages rows.
var stagedSizes = []int{128, 64, 32}

// staged picks one of stagedSizes, or 0 for subgroups that work alone: the most that keep a GPU busy, as
// all of a workgroup share what it loads.
func (f loweredFlash) staged(matrices, columns int) int {
	l, sizes := f.l, map[string]int{"alone": 0}
	var variants []string
	for _, n := range stagedSizes {
		bytes := 2 * 4 * flashRows * (index.CeilDiv(f.width, 4) + index.CeilDiv(f.out, 4)) * 4
		if lower.Fits(n, l.Limits.Invocations) && lower.Fits(bytes, l.Limits.SharedBytes) {
			name := fmt.Sprint("staged-", n)
			sizes[name], variants = n, append(variants, name)
		}
	}
	busy := func(name string) bool {
		return matrices*index.CeilDiv(columns, sizes[name]) >= lower.BusyGroups && sizes[name] < columns+sizes[name]/2
	}
	if i := slices.IndexFunc(variants, busy); i > 0 {
		variants = slices.Concat(variants[i:], variants[:i])
	} else if i < 0 {
		slices.Reverse(variants)
	}
	class := fmt.Sprintf("attention %d×%d×%d×%d", lower.SizeClass(matrices), lower.SizeClass(columns), lower.SizeClass(f.width), lower.SizeClass(f.out))
	return sizes[l.Pick(class, append(variants, "alone")...)]
}

// append appends a dispatch; own overrides bindings for this kernel.
func (f loweredFlash) append(kernel *graph.Kernel, groups int, spec []uint32, own map[int]graph.Buffer) {
	l := f.l
	shape, strides, bias := []int{1, 1, f.batch}, make([]int, 5), lower.Unused(false)
	if f.bias != nil {
		last := len(f.flash.shape) - 2
		dims, st := index.Merge(f.flash.shape[:last], f.biasAt[:last])
		if !lower.MustFit(l, dims, 3) {
			return
		}
		shape, strides = index.Padded(3, dims, 1), slices.Concat(index.Padded(3, st[0], 0), f.biasAt[last:])
		bias = lower.Reads(3 + 3*f.at)
	}
	buffers := []graph.Buffer{lower.Unused(true), lower.Reads(f.at), lower.Reads(f.at + 1), lower.Reads(f.at + 2), bias, lower.Unused(false), lower.Unused(true), lower.Unused(false), lower.Unused(true)}
	if f.at == 1 {
		buffers[5], buffers[6] = lower.Reads(0), lower.Reads(5)
	}
	for i, b := range own {
		buffers[i] = b
	}
	for first := 0; first < groups; first += l.Limits.Groups[0] {
		push := lower.Words(l, append([]int{first, f.queries, f.keys, f.width, f.out, f.share, shape[1], shape[2]}, strides...)...)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  kernel,
			Spec:    append([]uint32{uint32(l.Limits.Subgroup)}, spec...),
			Push:    append(push, uint32(int32(f.left)), uint32(int32(f.right)), lower.Bits(f.fill), lower.Bits(f.scale)),
			Buffers: buffers, Groups: [3]int{min(groups-first, l.Limits.Groups[0]), 1, 1},
		})
	}
}

func newFlashKernel(part string, matrices lower.MatrixKernel) flashKernel {
	name, defines := "flash-"+part, []string{"-D" + strings.ToUpper(part), fmt.Sprintf("-DROWS=%d", flashRows)}
	singles := lower.Halved(lower.Shader(name, "flash.comp", defines...))
	staged := lower.Halved(lower.Shader(name+"-staged", "flash.comp", append(slices.Clip(defines), "-DSTAGED")...))
	return flashKernel{singles, lower.Shader(name+"-pairs", "flash.comp", append(defines, "-DPAIRS")...), staged, matrices}
}

func newLoweredFlash(l *graph.Lowering, at, bias int) (f loweredFlash, ok bool) {
	if !lower.OnlyF32(l) {
		return f, false
	}
	f = loweredFlash{newFlash(lower.Call(l), at, bias), l, at}
	if f.batch*f.queries*f.keys == 0 {
		for i := range l.Out {
			empty := 0.0
			if at == 0 && i == 1 { // LSE of no keys
				if empty = math.Inf(-1); f.safe {
					empty = math.Inf(1)
				}
			}
			lower.Fill(l, i, uint64(lower.Bits(empty)))
		}
		return f, false
	}
	return f, true
}

func lowerFlash(l *graph.Lowering) {
	if f, ok := newLoweredFlash(l, 0, 3); ok {
		f.part(flashForward, f.batch, f.queries, f.keys, map[int]graph.Buffer{0: lower.Writes(0), 6: lower.Writes(1)})
	}
}

func lowerFlashGrad(l *graph.Lowering) {
	f, ok := newLoweredFlash(l, 1, 6)
	if !ok {
		return
	}
	if f.dlse != nil {
		l.Refuse("there is no kernel for the gradient of LSE")
		return
	}
	l.Scratch = int64(4 * f.batch * f.queries)
	f.append(flashDots, f.batch*f.queries, nil, map[int]graph.Buffer{0: lower.Scratch(0, l.Scratch, true), 1: lower.Reads(4)})
	dots := lower.Scratch(0, l.Scratch, false)
	f.part(flashQueries, f.batch, f.queries, f.keys, map[int]graph.Buffer{0: lower.Writes(0), 7: dots})
	f.part(flashKeys, f.batch/f.share, f.keys, f.queries, map[int]graph.Buffer{0: lower.Writes(1), 7: dots, 8: lower.Writes(2)})
}

// attends is the work of attention whose Q is input q: byWidth products over the width of Q
// and K, byOut over that of V.
func (c sampled) attends(q int, byWidth, byOut int64) int64 {
	queries, v := c.In[q].Shape, c.In[q+2].Shape
	last := len(queries) - 1
	n := int64(v[last-1])
	for _, d := range queries[:last] {
		n *= int64(d)
	}
	return n * (2*byWidth*int64(queries[last]) + 2*byOut*int64(v[last]) + 12)
}
