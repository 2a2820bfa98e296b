package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// BandMask masks attention scores by distance (causal, sliding window) without a mask
// tensor, and in place. Query i stands at position i + offset and sees key j if
// −left ≤ j − (i + offset) ≤ right; −1 means no limit. offset is a scalar or has one
// element for each item of the first dim. Its gradient is BandMask with fill 0.
var _ = define(graph.Op{
	Name:   "BandMask",
	Domain: own,
	Doc:    "x where −left ≤ j − (i + offset) ≤ right, over the last two dims, and fill elsewhere",
	In:     "X, offset?",
	Out:    "Y",
	Attrs:  "left int=-1, right int=-1, fill float=0",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		x := n.Inputs[0]
		if x.Rank() < 2 {
			n.Fail("the input must have at least two dims, but is %s", x.Shape)
		}
		if o := n.In(1); o != nil {
			if o.Type != graph.Int64 || o.Rank() > 1 {
				n.Fail("offset must be int64, one or [%s], but is %s%s", x.Shape[0], o.Type, o.Shape)
			}
			if o.Rank() == 1 {
				n.Same(o.Shape[0], x.Shape[0], "offsets and the first dim")
			}
		}
		sameShape(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op(own+".BandMask", graph.A{"left": n.Int("left"), "right": n.Int("right")}, dy[0], n.In(1))
		return dx
	},
	Eval: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		w, fill := newBand(c), c.Node.Float("fill")
		for r := range w.rows {
			lo, hi := w.seen(r)
			for j := range w.width {
				if at := r*w.width + j; j < lo || j >= hi {
					y.SetFloat(at, fill)
				} else {
					y.SetFloat(at, x.Float(at))
				}
			}
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		x, y := c.In[0].F32(), c.Out[0].F32()
		w, fill := newBand(c), float32(c.Node.Float("fill"))
		c.Parallel(w.rows, 1+f32.Grain/max(1, w.width), func(first, last int) {
			for r := first; r < last; r++ {
				x, y := x[r*w.width:(r+1)*w.width], y[r*w.width:(r+1)*w.width]
				lo, hi := w.seen(r)
				f32.Fill(y[:lo], fill)
				copyUnless(y[lo:hi], x[lo:hi])
				f32.Fill(y[hi:], fill)
			}
		})
	},
	Lower:     lowerBand,
	Flops:     perElement(1),
	Tests:     graph.Tests{Work: eachOut(1), NoScalars: true},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3,5]; right=0 fill=-1.5",
		"f32[4,4], i64[]{2}; right=0",
		"f32[4,6], i64[]{1}; left=2 right=1 fill=9.0",
		"f32[3,2,2,3], i64{0,-2,1}; right=0 fill=-2.0",
		"f16[3,3]; left=0",
		"f32[2,0]; right=0",
	},
})

type band struct {
	rows, width, queries int
	each                 int // rows for each item of the first dim
	left, right          int
	offset               *graph.Tensor
}

func newBand(c *graph.Call) band {
	s := c.In[0].Shape
	r := len(s)
	w := band{index.Elems(s[:r-1]), s[r-1], s[r-2], 1, c.Node.Int("left"), c.Node.Int("right"), input(c, 1)}
	if s[0] > 0 {
		w.each = w.rows / s[0]
	}
	return w
}

// seen returns the keys [lo, hi) that row r sees; 0 ≤ lo ≤ hi ≤ width.
func (w band) seen(r int) (lo, hi int) {
	at := r % w.queries
	if w.offset != nil {
		item := 0
		if len(w.offset.Shape) == 1 {
			item = r / w.each
		}
		at += int(w.offset.Int(item))
	}
	return seenKeys(at, w.left, w.right, w.width)
}

// seenKeys returns the keys [lo, hi) that the query at position at sees; lo ≤ hi.
func seenKeys(at, left, right, keys int) (lo, hi int) {
	hi = keys
	if left >= 0 {
		lo = min(max(0, at-left), keys)
	}
	if right >= 0 {
		hi = max(lo, min(at+right+1, keys))
	}
	return lo, hi
}

var bandKernel = lower.Halved(lower.Shader("bandmask", "bandmask.comp"))

func lowerBand(l *graph.Lowering) {
	if !lower.OnlyTypes(l, []graph.DType{graph.Float32, graph.Int64}, []graph.DType{graph.Float32}) {
		return
	}
	w := newBand(lower.Call(l))
	if w.rows*w.width == 0 {
		return
	}
	offset, kind := lower.Unused(false), 0
	if w.offset != nil {
		offset, kind = lower.Reads(1), 1+len(w.offset.Shape)
	}
	w.append(l, l.Node.Float("fill"), kind, lower.Writes(0), lower.Reads(0), offset)
}

// append appends a dispatch. kind is 0 without offset, 1 for a scalar, 2 for one offset an item.
func (w band) append(l *graph.Lowering, fill float64, kind int, y, x, offset graph.Buffer) {
	n := w.rows * w.width
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: bandKernel, Spec: []uint32{uint32(kind)},
		Push:    append(lower.Words(l, n, w.width, w.queries, w.each), uint32(int32(w.left)), uint32(int32(w.right)), lower.Bits(fill)),
		Buffers: []graph.Buffer{y, x, offset}, Groups: lower.InLine(l, index.CeilDiv(n, 256)),
	})
}
