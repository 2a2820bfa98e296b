package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "RotaryEmbedding",
	Since: 23,
	Doc:   "rotates pairs of each head's elements by an angle that depends on the position",
	In:    "X, cos_cache, sin_cache, position_ids?",
	Out:   "Y",
	Attrs: "interleaved int=0, num_heads int=0, rotary_embedding_dim int=0",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		x, cos, sin := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		head := x.Shape
		switch x.Rank() {
		case 3:
			if h := n.Int("num_heads"); h < 1 || !x.Shape[2].Mod(graph.Num(int64(h))).Is(0) {
				n.Fail("num_heads is %d, but the hidden size is %s", h, x.Shape[2])
			}
		case 4:
		default:
			n.Fail("the input must be [B, H, S, D] or [B, S, H·D], but is %s", head)
		}
		ranks := 3
		if n.In(3) != nil {
			ranks = 2
			wantType(n, 3, isIndex, "int64")
			if n.In(3).Rank() != 2 {
				n.Fail("position_ids must be [B, S], but are %s", n.In(3).Shape)
			}
		}
		if cos.Rank() != ranks || sin.Rank() != ranks {
			n.Fail("the caches must have %d dims, but are %s and %s", ranks, cos.Shape, sin.Shape)
		}
		half := n.Int("rotary_embedding_dim") / 2
		if half == 0 {
			d := x.Shape[x.Rank()-1]
			if x.Rank() == 3 {
				d = d.FloorDiv(graph.Num(int64(n.Int("num_heads"))))
			}
			n.Same(cos.Shape[ranks-1].Mul(graph.Num(2)), d, "twice the cache's last dim and the head size")
		} else {
			n.Same(cos.Shape[ranks-1], graph.Num(int64(half)), "the cache's last dim and half of rotary_embedding_dim")
		}
		n.Same(cos.Shape[ranks-1], sin.Shape[ranks-1], "the caches")
		sameShape(n)
	},
	// dX is dY rotated back. For a pair (x₁, x₂), dcos is dy·(x₁, x₂) and dsin is
	// dy·(−x₂, x₁), where (−x₂, x₁) is x rotated by 90°.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, cos, sin := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op("RotaryEmbedding", convCopy(n), dy[0], cos, b.Op("Neg", nil, sin), n.In(3))
		none := zerosLike(b, cos)
		quarter := b.Op("RotaryEmbedding", convCopy(n), x, none, b.Op("Add", nil, none, num(b, cos, 1)), n.In(3))
		dx[1] = rotaryTableGrad(b, n, cos, b.Op("Mul", nil, dy[0], x))
		dx[2] = rotaryTableGrad(b, n, sin, b.Op("Mul", nil, dy[0], quarter))
		return dx
	},
	Eval: func(c *graph.Call) {
		x, y, cos, sin := c.In[0], c.Out[0], c.In[1], c.In[2]
		r := newRotary(c)
		for row := range r.rows {
			at, angle := row*r.head, r.angle(row)
			for k := 2 * r.half; k < r.head; k++ {
				y.SetFloat(at+k, x.Float(at+k))
			}
			for k := range r.half {
				i, j := r.pair(k)
				a, b := x.Float(at+i), x.Float(at+j)
				co, si := cos.Float(angle+k), sin.Float(angle+k)
				y.SetFloat(at+i, co*a-si*b)
				y.SetFloat(at+j, si*a+co*b)
			}
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		x, y, cos, sin := c.In[0].F32(), c.Out[0].F32(), c.In[1].F32(), c.In[2].F32()
		r := newRotary(c)
		c.Parallel(r.rows, 1+f32.Grain/4/max(1, r.head), func(lo, hi int) {
			for row := lo; row < hi; row++ {
				x, y, angle := x[row*r.head:(row+1)*r.head], y[row*r.head:(row+1)*r.head], r.angle(row)
				cos, sin := cos[angle:angle+r.half], sin[angle:angle+r.half]
				copyUnless(y[2*r.half:], x[2*r.half:])
				for k, co := range cos {
					i, j := r.pair(k)
					a, b, si := x[i], x[j], sin[k]
					y[i], y[j] = co*a-si*b, si*a+co*b
				}
			}
		})
	},
	Lower:     lowerRotary,
	Flops:     perElement(3),
	Tests:     graph.Tests{Work: eachOut(3)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3,4,6], f32[2,4,3], f32[2,4,3]",
		"f32[2,3,4,6], f32[9,3], f32[9,3], i64[2,4]<9; interleaved=1",
		"f32[2,4,12], f32[9,2], f32[9,2], i64[2,4]<9; num_heads=2 rotary_embedding_dim=4",
		"f32[2,3,4,6], f32[2,4,2], f32[2,4,2]; interleaved=1 rotary_embedding_dim=4",
		"f32[1,4,12], f32[1,4,3], f32[1,4,3]; num_heads=2 interleaved=1",
		"f16[1,2,3,4], f16[1,3,2], f16[1,3,2]",
		"f32[0,2,3,4], f32[0,3,2], f32[0,3,2]",
	},
})

// rotaryTableGrad sums slopes, which have the shape of x, over all pairs that one entry of the
// table rotates.
func rotaryTableGrad(b *graph.Builder, n *graph.Node, table, slopes *graph.Value) *graph.Value {
	x, half := slopes.Shape, table.Shape[table.Rank()-1]
	two := graph.Num(2)
	heads, seq := graph.Num(int64(n.Int("num_heads"))), x[1]
	if slopes.Rank() == 4 {
		heads, seq = x[1], x[2]
	}
	// [B, H, S, D], or [B, S, H, D].
	rows, sum := slices.Clone(x), graph.Num(1)
	if slopes.Rank() == 3 {
		rows, sum = graph.Shape{x[0], seq, heads, x[2].FloorDiv(heads)}, two
	}
	slopes = reshape(b, slopes, rows)
	if rotated := half.Mul(two); !rows[3].Equal(rotated) {
		slopes = b.Op("Slice", nil, slopes, b.Ints(graph.Num(0)), b.Ints(rotated), b.Ints(graph.Num(3)))
	}
	pairs, other := graph.Shape{rows[0], rows[1], rows[2], two, half}, graph.Num(3)
	if n.Int("interleaved") != 0 {
		pairs, other = graph.Shape{rows[0], rows[1], rows[2], half, two}, graph.Num(4)
	}
	slopes = b.Op("ReduceSum", graph.A{"keepdims": 0}, reshape(b, slopes, pairs), b.Ints(sum, other))
	if ids := n.In(3); ids != nil {
		return b.Op("com.microsoft.GatherGrad", nil, shapeOf(b, table), ids, slopes)
	}
	return reshape(b, slopes, table.Shape)
}

// rotary views x as rows of one head each.
type rotary struct {
	rows, head, half int
	heads, seq       int
	four             bool // [B, H, S, D], else [B, S, H·D]
	interleaved      bool
	ids              *graph.Tensor
}

func newRotary(c *graph.Call) rotary {
	s, cache := c.In[0].Shape, c.In[1].Shape
	r := rotary{half: cache[len(cache)-1], interleaved: c.Node.Int("interleaved") != 0, ids: input(c, 3)}
	if r.four = len(s) == 4; r.four {
		r.heads, r.seq, r.head = s[1], s[2], s[3]
	} else {
		r.heads, r.seq = c.Node.Int("num_heads"), s[1]
		r.head = s[2] / r.heads
	}
	r.rows = s[0] * r.heads * r.seq
	return r
}

// angle is the offset of a row's angles in the caches.
func (r rotary) angle(row int) int {
	item, place := row/(r.heads*r.seq), row%r.seq
	if !r.four {
		place = row / r.heads % r.seq
	}
	at := item*r.seq + place
	if r.ids != nil {
		at = int(r.ids.Int(at))
	}
	return at * r.half
}

// pair returns the elements that angle k rotates.
func (r rotary) pair(k int) (i, j int) {
	if r.interleaved {
		return 2 * k, 2*k + 1
	}
	return k, k + r.half
}

func lowerRotary(l *graph.Lowering) {
	f := graph.Float32
	if !lower.OnlyTypes(l, []graph.DType{f, f, f, graph.Int64}, []graph.DType{f}) {
		return
	}
	r := newRotary(lower.Call(l))
	n := r.rows * (r.head - r.half)
	if n == 0 {
		return
	}
	given, ids := lower.In(l, 3) != nil, lower.Unused(false)
	if given {
		ids = lower.Reads(3)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: rotaryKernel, Spec: []uint32{lower.OneIf(given), lower.OneIf(r.four), lower.OneIf(r.interleaved)},
		Push:    lower.Words(l, r.rows, r.head, r.half, r.heads, r.seq, min(l.In[1].Len(), l.In[2].Len())/max(1, r.half)),
		Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0), lower.Reads(1), lower.Reads(2), ids}, Groups: lower.InLine(l, index.CeilDiv(n, 64)),
	})
}

var rotaryKernel = lower.Halved(lower.Shader("rotary", "rotary.comp"))
