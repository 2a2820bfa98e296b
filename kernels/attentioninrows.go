package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// AttentionInRows is attention over blocks of queries: scores, softmax and product with V
// of some rows at a time. Its gradient computes the scores again, so neither scores nor
// probabilities ever exist for all queries, and only Q, K and V are kept. Unlike the
// tiles of FlashAttention, each softmax sees a whole row and sums over queries are split
// where MatMul splits them, so float32 results are bit-identical to MatMul, Softmax,
// MatMul. Vulkan kernels work on some matrices of the batch at a time instead (lowerRows),
// bit-identical to the kernels of those operators. It replaces them only where the caller
// of Clean asks for it.
var AttentionInRows = define(graph.Op{
	Name:   "AttentionInRows",
	Domain: own,
	Doc:    "softmax(scale·Q·Kᵀ + bias)·V some queries at a time; keys are seen from −left to right of a query, −1 is no limit, where mask is true; others count as fill",
	In:     "Q, K, V, bias?, mask?",
	Out:    "Y",
	Attrs:  flashAttrs,
	Infer: func(n *graph.Node) {
		n.Set(0, n.Inputs[0].Type, inferFlash(n, n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3), n.In(4)))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		d := b.Ops(own+".AttentionInRowsGrad", flashAttrsOf(n), 3, dy[0], n.Inputs[0], n.Inputs[1], n.Inputs[2], n.In(3), n.In(4))
		if n.In(3) != nil {
			d = append(d, attentionBiasGrad(b, n, dy[0], nil))
		}
		return append(d, make([]*graph.Value, len(n.Inputs)-len(d))...)
	},
	Eval: func(c *graph.Call) { newRows(c, 0).attend(func(int, float64) {}) },
	Fast: func(c *graph.Call) {
		f := newRows(c, 0)
		f.slots(rowSlots, min(f.queries, tileQueries)*f.keys, f.fastRows)
	},
	Scratch: func(n *graph.Node) graph.Dim { return rowsScratch(n, 0, 1, tileQueries) },
	Fuse: func(m *graph.Match) []*graph.Value {
		if t := m.Node.Outputs[0]; t == nil || t.Type != graph.Float32 {
			return nil // MatMul and Softmax would round 16-bit scores after each step
		}
		return fuseAttention(m, func(attrs graph.A, in []*graph.Value) []*graph.Value {
			if slices.ContainsFunc(in, func(v *graph.Value) bool { return !m.KeepsSums(v) }) {
				return nil
			}
			return []*graph.Value{m.Builder.Op(own+".AttentionInRows", attrs, in...)}
		})
	},
	Lower:     lowerRows,
	Flops:     func(n *graph.Node) graph.Dim { return flashFlops(n, 0, 1, 1) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.attends(0, 1, 1) })},
	Recompute: graph.Heavy,
	Kernel:    graph.AttentionKernel,
	Calls:     launches(8),
	Inside:    func(n *graph.Node) graph.Dim { return scoreBytes(n, 0).Mul(graph.Num(4)) }, // as the product, the softmax and the other product do
	Pieces:    graph.AttentionInRows,
	Samples: []string{
		"f32[2,3,4], f32[2,5,4], f32[2,5,6]; scale=0.5",
		"f32[2,2,7,4], f32[2,2,4,7], f32[2,2,7,4], f32[7,7]; scale=0.5 transK=1",
		"f32[5,4], f32[5,4], f32[5,3]; right=0 fill=-1e30",
		"f32[2,3,70,8], f32[2,3,9,8], f32[2,3,9,8], f32[2,1,70,9]; left=60 right=0 fill=-9.0",
		"f32[1,140,16], f32[1,300,16], f32[1,300,16]; left=9 right=2 fill=-1e30",
		"f32[1,14,5], f32[1,5,300], f32[1,300,7]; transK=1",
		"f32[2,3,9,4], f32[2,1,8,4], f32[2,1,8,6]; right=0 fill=-1e30",
		"f32[3,66,4], f32[3,5,4], f32[3,5,4], f32[3,1,5]; safe=1",
		"f32[3,6,4], f32[3,5,4], f32[3,5,4], _, bool[3,1,5]; fill=-2.5",
		"f32[2,3,6,4], f32[2,3,5,4], f32[2,3,5,4], f32[6,1], bool[2,1,6,5]; fill=-9.0",
		"f64[2,3,4], f64[2,5,4], f64[2,5,6]; scale=0.5",
		"f32[0,3,4], f32[0,5,4], f32[0,5,6]",
		"f32[2,3,4], f32[2,0,4], f32[2,0,6]",
	},
})

var _ = define(graph.Op{
	Name:   "AttentionInRowsGrad",
	Domain: own,
	Doc:    "the gradients of AttentionInRows for Q, K and V; computes the scores again",
	In:     "dY, Q, K, V, bias?, mask?",
	Out:    "dQ, dK, dV",
	Attrs:  flashAttrs,
	Infer: func(n *graph.Node) {
		dy, q := n.Inputs[0], n.Inputs[1]
		if y := inferFlash(n, q, n.Inputs[2], n.Inputs[3], n.In(4), n.In(5)); dy.Type != q.Type || !dy.Shape.Equal(y) {
			n.Fail("dY is %s%s, not %s%s", dy.Type, dy.Shape, q.Type, y)
		}
		for i := range 3 {
			n.Set(i, n.Inputs[1+i].Type, n.Inputs[1+i].Shape)
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		f := newRows(c, 1)
		f.grads(func(z, i int, p, flow []float64) (dot float64) {
			f.probabilities(z, i, p)
			for j, x := range p {
				dot += x * flow[j]
			}
			return dot
		})
	},
	Fast: func(c *graph.Call) {
		f := newRows(c, 1)
		f.slots(rowSlots, 2*min(f.queries, f32.BlockK)*f.keys, f.fastRowsGrad)
	},
	Scratch:   func(n *graph.Node) graph.Dim { return rowsScratch(n, 1, 2, f32.BlockK) },
	Lower:     lowerRowsGrad,
	Flops:     func(n *graph.Node) graph.Dim { return flashFlops(n, 1, 3, 2) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.attends(1, 3, 2) })},
	Recompute: graph.Heavy,
	Kernel:    graph.AttentionBackwardKernel,
	Calls:     launches(16),
	Inside:    func(n *graph.Node) graph.Dim { return scoreBytes(n, 1).Mul(graph.Num(11)) },
	Samples: []string{
		"f32[2,3,6], f32[2,3,4], f32[2,5,4], f32[2,5,6]; scale=0.5",
		"f32[2,2,7,4], f32[2,2,7,4], f32[2,2,4,7], f32[2,2,7,4], f32[7,7]; scale=0.5 transK=1",
		"f32[5,3], f32[5,4], f32[5,4], f32[5,3]; right=0 fill=-1e30",
		"f32[2,3,70,8], f32[2,3,70,8], f32[2,3,9,8], f32[2,3,9,8], f32[2,1,70,9]; scale=0.2 left=60 right=0 fill=-9.0",
		"f32[1,40,16], f32[1,40,16], f32[1,300,16], f32[1,300,16]; scale=0.1 left=9 right=2 fill=-1e30",
		"f32[1,14,7], f32[1,14,5], f32[1,5,300], f32[1,300,7]; scale=0.2 transK=1",
		"f32[2,3,9,6], f32[2,3,9,4], f32[2,1,8,4], f32[2,1,8,6]; right=0 fill=-1e30",
		"f32[3,66,4], f32[3,66,4], f32[3,5,4], f32[3,5,4], f32[3,1,5]; safe=1",
		"f32[3,6,4], f32[3,6,4], f32[3,5,4], f32[3,5,4], _, bool[3,1,5]; fill=-2.5",
		"f32[2,3,6,4], f32[2,3,6,4], f32[2,3,5,4], f32[2,3,5,4], f32[6,1], bool[2,1,6,5]; fill=-9.0",
		"f64[2,3,6], f64[2,3,4], f64[2,5,4], f64[2,5,6]",
		"f32[0,3,6], f32[0,3,4], f32[0,5,4], f32[0,5,6]",
		"f32[2,3,6], f32[2,3,4], f32[2,0,4], f32[2,0,6]",
	},
})

// newRows reads a call of either operator; Q is input number at.
func newRows(c *graph.Call, at int) *flash {
	f := newFlash(c, at, at+3)
	f.rows = true
	return f
}

// rowSlots is how many matrices of the batch are computed concurrently, each with work
// space for its scores. It is small because a block of rows has scores for all keys.
const rowSlots = 4

// rowsScratch is the work space in bytes: in each slot, tensors × min(queries, most) rows
// of float32 scores.
func rowsScratch(n *graph.Node, q int, tensors, most int64) graph.Dim {
	s, keys := n.Inputs[q].Shape, n.Inputs[q+2].Shape
	last := len(s) - 1
	scores := s[last-1].Min(graph.Num(most)).Mul(keys[last-1]).Mul(graph.Num(tensors))
	return keys[:last-1].Elems().Min(graph.Num(rowSlots)).Mul(scores).Mul(graph.Num(4))
}

// inLanes is the alignment of parts of a row: a multiple of the vector length of f32's
// sums, so that each element is added in the same lane as in a sum over the whole row.
const inLanes = 64

// seen returns the keys that any of the queries [from, from+rows) can see, widened to
// multiples of inLanes, and to at least f32.WorthVectors where the whole row is that
// long, so that sums use vectors exactly where sums over the whole row do.
func (f *flash) seen(from, rows int) (lo, hi int) {
	lo, hi = f.reach(from, rows)
	lo = min(lo, max(0, f.keys-f32.WorthVectors))
	return lo / inLanes * inLanes, min(f.keys, index.CeilDiv(hi, inLanes)*inLanes)
}

// rowsOf fills s with the probabilities of queries [from, from+rows) for keys [key, key+n).
func (f *flash) rowsOf(par f32.Parallel, z, from, rows, key, n int, s []float32) {
	f.tile(par, z, from, rows, key, n, s, func(_ int, row []float32) {
		f32.Softmax(row, row)
		if f.safe && row[0] != row[0] {
			clear(row)
		}
	})
}

// overKeys calls do for each part of keys [lo, hi), split where a product over all keys
// splits its sum.
func (f *flash) overKeys(lo, hi int, do func(key, n int, add bool)) {
	depth := f32.DepthOf(f.keys)
	for key := lo; key < hi; {
		n := min(hi, (key/depth+1)*depth) - key
		do(key, n, key > lo)
		key += n
	}
}

// leavingOut calls do for matrix zk of K without the keys that the band hides, then again
// with all keys if skipping them might have changed a bit: where scores are not far above
// the fill value (hidden probabilities might not be 0), where a factor is not finite
// (0·∞ is NaN), or where an output is −0 (−0 + 0 is 0). in begins with Q, K, V.
func (f *flash) leavingOut(zk int, in, out []*graph.Tensor, do func(f *flash)) {
	part := func(t *graph.Tensor) []float32 {
		matrices := f.batch / f.share
		return t.F32()[zk*t.Len()/matrices : (zk+1)*t.Len()/matrices]
	}
	if f.skips() {
		var most [4]float64
		for i, t := range in {
			most[i] = greatestSize(part(t))
		}
		q, k, v, dy := most[0], most[1], most[2], most[3]
		if math.Abs(f.scale)*float64(f.width)*q*k < 1e29 && v < 1e38 && float64(f.out)*dy*v < 1e38 {
			do(f)
			if !slices.ContainsFunc(out, func(t *graph.Tensor) bool { return slices.ContainsFunc(part(t), isMinusZero) }) {
				return
			}
		}
	}
	whole := *f
	whole.whole = true
	do(&whole)
}

// greatestSize is the greatest |x|, NaN if x has one.
func greatestSize(x []float32) float64 {
	top := uint32(0)
	for _, v := range x {
		top = max(top, math.Float32bits(v)<<1)
	}
	return float64(math.Float32frombits(top >> 1))
}

func isMinusZero(x float32) bool { return math.Float32bits(x) == 1<<31 }

func (f *flash) fastRows(par f32.Parallel, zk int, s []float32) {
	f.leavingOut(zk, f.c.In[:3], f.c.Out, func(f *flash) { f.forwardRows(par, zk, s) })
}

func (f *flash) forwardRows(par f32.Parallel, zk int, s []float32) {
	y := f.c.Out[0].F32()
	for z := zk * f.share; z < (zk+1)*f.share; z++ {
		for from := 0; from < f.queries; from += tileQueries {
			rows := min(tileQueries, f.queries-from)
			lo, hi := f.seen(from, rows)
			f.rowsOf(par, z, from, rows, lo, hi-lo, s)
			f.overKeys(lo, hi, func(key, n int, add bool) {
				f32.Multiply(par, rows, f.out, n, f32.Dense(s[key-lo:], hi-lo, 1, 1), columnsFrom(f.v.F32(), zk, f.keys, key, f.out, 1),
					y[(z*f.queries+from)*f.out:], f.out, add)
			})
		}
	}
}

func (f *flash) fastRowsGrad(par f32.Parallel, zk int, room []float32) {
	in := []*graph.Tensor{f.q, f.k, f.v, f.c.In[0]}
	f.leavingOut(zk, in, f.c.Out, func(f *flash) { f.backwardRows(par, zk, room) })
}

func (f *flash) backwardRows(par f32.Parallel, zk int, room []float32) {
	dy, q, depth := f.c.In[0].F32(), f.q.F32(), f32.DepthOf(f.queries)
	dq, dk, dv := f.c.Out[0].F32(), f.c.Out[1].F32(), f.c.Out[2].F32()
	begun := 0 // gradients of keys [0, begun) have been written
	for z := zk * f.share; z < (zk+1)*f.share; z++ {
		for from := 0; from < f.queries; from += depth {
			rows := min(depth, f.queries-from)
			lo, hi := f.seen(from, rows)
			f.noneFor(par, zk, begun, lo, dk, dv)
			begun = max(begun, lo)
			width := hi - lo
			p, ds := room[:rows*width], room[len(room)/2:][:rows*width]
			f.rowsOf(par, z, from, rows, lo, width, p)
			f32.Multiply(par, rows, width, f.out, rowsFrom(dy, z, f.queries, from, f.out, 1), rowsFrom(f.v.F32(), zk, f.keys, lo, f.out, 1), ds, width, false)
			par(rows, 1+f32.Grain/(8*width), func(first, last int) {
				for r := first; r < last; r++ {
					row := ds[r*width : (r+1)*width]
					f32.SoftmaxSlope(row, row, p[r*width:(r+1)*width])
					before, after := f.hidden(from+r, lo, row)
					clear(before)
					clear(after)
					f.masked(z, from+r, lo, row, 0)
				}
			})
			f.overKeys(lo, hi, func(key, n int, add bool) {
				f32.Multiply(par, rows, f.width, n, f32.Dense(ds[key-lo:], width, 1, float32(f.scale)), f.widthBy(zk, key), dq[(z*f.queries+from)*f.width:], f.width, add)
			})
			toKeys := func(key, n int, add bool) {
				f32.Multiply(par, n, f.out, rows, f32.Dense(p[key-lo:], 1, width, 1), columnsFrom(dy, z, f.queries, from, f.out, 1), dv[(zk*f.keys+key)*f.out:], f.out, add)
				// As in a product, alpha scales the first factor.
				byKeys, byWidth := float32(f.scale), 1.0
				if f.transK {
					byKeys, byWidth = 1, f.scale
				}
				f.toKeys(par, zk, key, n, rows, f32.Dense(ds[key-lo:], 1, width, byKeys), columnsFrom(q, z, f.queries, from, f.width, byWidth), dk, add)
			}
			if lo < begun {
				toKeys(lo, min(hi, begun)-lo, true)
			}
			if begun < hi {
				toKeys(begun, hi-begun, false)
				begun = hi
			}
		}
	}
	f.noneFor(par, zk, begun, f.keys, dk, dv)
}

// On Vulkan, AttentionInRows runs the kernels of MatMul, mask and Softmax for some
// matrices of the batch at a time, with all their queries. Results are bit-identical to
// those operators, and only the scores of these matrices take work space.

// rowsBytes is the target size of the scores computed by one dispatch; one matrix may
// need more. Smaller dispatches would leave a GPU idle.
const rowsBytes = 1 << 20

// rowsMask is the pointwise expression of a mask: a is the mask, b the score, p the fill value.
const rowsMask = "a != 0 ? b : p"

var rowsMaskForm = func() *lower.Form {
	form := lower.FormOf(graph.Float32, graph.Bool, graph.Float32, graph.Float32)
	form.Exprs = append(form.Exprs, rowsMask)
	return form
}()

// loweredRowsOf lowers a node of either operator for one part: matrices
// [first, first+n) of the batch.
type loweredRowsOf struct {
	*flash
	l         *graph.Lowering
	at        int   // input Q
	scores    int64 // bytes of the scores of a part
	room      int64 // offset in work space of the copied mask of a part
	first, n  int
	fromBias  int  // element of the bias where the part begins
	fromMask  int  // element of the mask where the part begins
	anewBatch bool // matrices have different masks
}

// from is a product's factor that reads matrices [rows, columns] of input at+input (0 is Q).
func (r *loweredRowsOf) from(input, rows, columns, outside, along int) lower.Factor {
	return lower.Factor{Buffer: lower.Reads(r.at + input), Step: rows * columns, Outside: outside, Along: along}
}

// of is a product's factor that reads matrices of scores.
func (r *loweredRowsOf) of(scores graph.Buffer, outside, along int) lower.Factor {
	return lower.Factor{Buffer: scores, Step: r.queries * r.keys, Outside: outside, Along: along}
}

// strideK returns the strides of K from key to key and from element to element of a key.
func (r *loweredRowsOf) strideK() (key, element int) {
	if r.transK {
		return 1, r.keys
	}
	return r.width, 1
}

// product appends y = alpha·a·b for each matrix of the part.
func (r *loweredRowsOf) product(m, n, k int, a, b lower.Factor, y graph.Buffer, alpha float64) {
	r.appendProduct(lower.ProductsOf(m, n, k, r.n, a, b, y, m*n), alpha)
}

// overQueries appends y = alpha·a·b summed over queries. If several matrices share their
// keys, the sum runs over all of them, and parts after the first add to the earlier result.
func (r *loweredRowsOf) overQueries(m, n int, a, b lower.Factor, y graph.Buffer, alpha float64) {
	if r.share == 1 {
		r.product(m, n, r.queries, a, b, y, alpha)
		return
	}
	x := lower.ProductsOf(m, n, r.n*r.queries, 1, a, b, y, m*n)
	if r.first%r.share > 0 {
		x.Biased, x.Beta, x.C, x.Ci, x.Cj = true, 1, lower.Unwritten(y), n, 1
		x.FromC = r.show(&x.C, m*n)
	}
	r.appendProduct(x, alpha)
}

// appendProduct restricts a product's buffers to the part's matrices and appends it.
func (r *loweredRowsOf) appendProduct(x lower.Products, alpha float64) {
	shared := r.isShared(x.B) // never A
	x.Alpha, x.FromA, x.FromB, x.FromY = alpha, r.show(&x.A, x.Sa[0]), r.show(&x.B, x.Sb[0]), r.show(&x.Y, x.Step)
	if shared {
		x.Sb[0] = 0
	}
	if !x.Biased {
		x.C = x.B
	}
	x.Whole(r.l)
}

// isShared reports whether a buffer (K, V or their gradients) has one matrix for the whole
// part.
func (r *loweredRowsOf) isShared(b graph.Buffer) bool {
	switch b.Place {
	case graph.PlaceIn:
		return r.share > 1 && (b.Index == r.at+1 || b.Index == r.at+2)
	case graph.PlaceOut:
		return r.share > 1 && b.Index > 0
	}
	return false
}

// show restricts a buffer of all matrices, size elements each, to those of the part, and
// returns the element at which they begin in the restricted buffer.
func (r *loweredRowsOf) show(b *graph.Buffer, size int) (from int) {
	switch {
	case b.Place == graph.PlaceScratch:
		return 0
	case r.isShared(*b):
		matrix := r.first / r.share
		return showFloats(b, matrix*size, (matrix+1)*size)
	}
	return showFloats(b, r.first*size, (r.first+r.n)*size)
}

// probable appends the computation of the part's probabilities and returns their buffer.
func (r *loweredRowsOf) probable() graph.Buffer {
	s := lower.Scratch(0, r.scores, true)
	key, element := r.strideK()
	x := lower.ProductsOf(r.queries, r.keys, r.width, r.n, r.from(0, r.queries, r.width, r.width, 1), r.from(1, r.keys, r.width, key, element), s, r.queries*r.keys)
	if r.bias != nil {
		rank, step := len(r.biasAt), overPart(r.biasAt)
		x.C, x.Biased, x.Beta, x.Ci, x.Cj, x.CStep = lower.Reads(r.at+3), true, 1, r.biasAt[rank-2], r.biasAt[rank-1], step
		x.FromC = showFloats(&x.C, r.fromBias, r.fromBias+(r.n-1)*step+(r.queries-1)*x.Ci+(r.keys-1)*x.Cj+1)
	}
	r.appendProduct(x, r.scale)
	r.hide(s, r.fill)
	rule := uint32(lower.RowSoftmax)
	if r.safe {
		rule = lower.RowSafeSoftmax
	}
	lower.LinesInto(r.l, s, rule, r.n*r.queries, r.keys, 1, lower.Unwritten(s), lower.Unused(false))
	return lower.Unwritten(s)
}

// hide overwrites the part's scores that the mask or the band hides with fill.
func (r *loweredRowsOf) hide(s graph.Buffer, fill float64) {
	if r.mask != nil {
		scores := &graph.Operand{Type: graph.Float32, Shape: []int{r.n, r.queries, r.keys}}
		mask, seen := r.maskOfPart()
		rowsMaskForm.Append(r.l, rowsMask, scores, []*graph.Operand{mask, scores}, []graph.Buffer{s, seen, lower.Unwritten(s)}, fill)
	}
	if r.left >= 0 || r.right >= 0 {
		w := band{rows: r.n * r.queries, width: r.keys, queries: r.queries, each: 1, left: r.left, right: r.right}
		w.append(r.l, fill, 0, s, lower.Unwritten(s), lower.Unused(false))
	}
}

// maskOfPart returns the part's mask: the input itself if all matrices have the same mask,
// else a copy, because a buffer can only be bound at aligned offsets.
func (r *loweredRowsOf) maskOfPart() (*graph.Operand, graph.Buffer) {
	rank := len(r.maskAt)
	if !r.anewBatch {
		last := r.mask.Shape[max(0, len(r.mask.Shape)-2):]
		return &graph.Operand{Type: graph.Bool, Shape: last}, lower.Reads(r.at + 4)
	}
	copied := lower.Scratch(r.room, int64(r.n*r.queries*r.keys), true)
	lower.Box(r.l, 1, []graph.Buffer{copied, lower.Reads(r.at + 4)}, nil, []int{r.n, r.queries, r.keys},
		[]int{overPart(r.maskAt), r.maskAt[rank-2], r.maskAt[rank-1]}, []int{r.queries * r.keys, r.keys, 1}, r.fromMask, 0)
	return &graph.Operand{Type: graph.Bool, Shape: []int{r.n, r.queries, r.keys}}, lower.Unwritten(copied)
}

func lowerRows(l *graph.Lowering) {
	inRows(l, 0, 1, func(r *loweredRowsOf) {
		p := r.probable()
		r.product(r.queries, r.out, r.keys, r.of(p, r.keys, 1), r.from(2, r.keys, r.out, 1, r.out), lower.Writes(0), 1)
	})
}

func lowerRowsGrad(l *graph.Lowering) {
	inRows(l, 1, 2, func(r *loweredRowsOf) {
		p := r.probable()
		ds := lower.Scratch(r.scores, r.scores, true)
		dy := func(outside, along int) lower.Factor { return r.from(-1, r.queries, r.out, outside, along) }
		r.product(r.queries, r.keys, r.out, dy(r.out, 1), r.from(2, r.keys, r.out, r.out, 1), ds, 1)
		lower.LinesInto(l, ds, lower.RowSoftmaxGrad, r.n*r.queries, r.keys, 1, lower.Unwritten(ds), p)
		r.hide(ds, 0)
		ds = lower.Unwritten(ds)
		byKey, byWidth := r.strideK()
		r.product(r.queries, r.width, r.keys, r.of(ds, r.keys, 1), r.from(1, r.keys, r.width, byWidth, byKey), lower.Writes(0), r.scale)
		q := r.from(0, r.queries, r.width, 1, r.width)
		if r.transK {
			r.overQueries(r.width, r.keys, q, r.of(ds, 1, r.keys), lower.Writes(1), r.scale)
		} else {
			r.overQueries(r.keys, r.width, r.of(ds, 1, r.keys), q, lower.Writes(1), r.scale)
		}
		r.overQueries(r.keys, r.out, r.of(p, 1, r.keys), dy(1, r.out), lower.Writes(2), 1)
	})
}

// inRows calls do for each part of the batch, with work space for the given number of
// score tensors. Matrices of a part are consecutive in the innermost batch dim, so that a
// bias has one stride over them; matrices that share their keys are in one part.
func inRows(l *graph.Lowering, at int, tensors int64, do func(r *loweredRowsOf)) {
	if !lower.OnlyTypes(l, append(slices.Repeat([]graph.DType{graph.Float32}, at+4), graph.Bool), []graph.DType{graph.Float32}) {
		return
	}
	r := &loweredRowsOf{flash: newRows(lower.Call(l), at), l: l, at: at}
	if r.batch*r.queries*r.keys == 0 {
		for i := range l.Out {
			lower.Fill(l, i, 0)
		}
		return
	}
	matrix, rank := 4*r.queries*r.keys, len(r.shape)
	inner := r.batch
	if rank > 3 {
		inner = r.shape[rank-3]
	}
	each := min(inner, max(1, rowsBytes/matrix))
	r.scores = lower.Aligned(int64(each * matrix))
	r.room = tensors * r.scores
	l.Scratch = r.room
	for _, s := range r.maskAt[:max(0, len(r.maskAt)-2)] {
		r.anewBatch = r.anewBatch || s != 0
	}
	if r.anewBatch {
		l.Scratch += lower.Aligned(int64(each * matrix / 4))
	}
	for outer := 0; outer < r.batch; outer += inner {
		for h := 0; h < inner && l.Refused == ""; h += each {
			r.first, r.n = outer+h, min(each, inner-h)
			r.fromBias, r.fromMask = placeOf(r.shape[:rank-2], r.biasAt, r.first), placeOf(r.shape[:rank-2], r.maskAt, r.first)
			do(r)
		}
	}
}

// placeOf is the offset of batch item number item under the given strides; 0 without strides.
func placeOf(shape, strides []int, item int) (at int) {
	if strides == nil {
		return 0
	}
	for i := len(shape) - 1; i >= 0; i-- {
		at += item % shape[i] * strides[i]
		item /= shape[i]
	}
	return at
}

// overPart is the stride of a bias or mask from matrix to matrix of a part.
func overPart(strides []int) int {
	if len(strides) < 3 {
		return 0
	}
	return strides[len(strides)-3]
}

// showFloats restricts a buffer to elements [begin, end), with its start rounded down to a
// multiple of pieceStep, where a binding may begin, and returns begin's distance from it.
func showFloats(b *graph.Buffer, begin, end int) (from int) {
	before := begin / lower.PieceStep * lower.PieceStep
	b.At, b.Bytes = int64(4*before), int64(4*(end-before))
	return begin - before
}
