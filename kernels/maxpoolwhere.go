package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

// MaxPoolWhere stores, in one byte for each window, which tap is the maximum: all that
// MaxPool's gradient needs of X.
var _ = define(graph.Op{
	Name:   "MaxPoolWhere",
	Domain: own,
	Doc:    "the tap of the first maximum of each window, 255 for none",
	In:     "X",
	Out:    "where",
	Attrs:  maxPoolAttrs,
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		inferPool(n)
		if !byteTaps(n) {
			n.Fail("a window of %v has more than 255 elements, too many for an index in one byte", n.Ints("kernel_shape"))
		}
		n.Set(0, graph.Uint8, n.Outputs[0].Shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { maxPoolWhere(c, f32.Serial) },
	Fast:      func(c *graph.Call) { maxPoolWhere(c, c.Parallel) },
	Lower:     lowerTaps,
	Flops:     poolFlops(firstOutput),
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.out(0) * c.window() })},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,7]; kernel_shape=[3]",
		"f32[1,2,5,5]; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f32[1,2,6,7]; kernel_shape=[3, 2] dilations=[2, 3]",
		"f64[1,1,4]; kernel_shape=[2]",
	},
})

const noTap = 255

func byteTaps(n *graph.Node) bool {
	taps := int64(1)
	for _, k := range n.Ints("kernel_shape") {
		if taps *= k; taps > noTap {
			return false
		}
	}
	return true
}

func maxPoolWhere(c *graph.Call, par f32.Parallel) {
	x, where := c.In[0], c.Out[0].Bytes
	p := newPool(c.Node, x.Shape, c.Out[0].Shape)
	value := x.Float
	if x.Type == graph.Float32 {
		all := x.F32()
		value = func(i int) float64 { return float64(all[i]) }
	}
	p.images(par, func(lo, hi int) {
		most := make([]float64, f32.Volume(p.Out))
		for i := lo; i < hi; i++ {
			where, base := where[i*len(most):][:len(most)], i*f32.Volume(p.In)
			for k := range where {
				where[k], most[k] = noTap, math.Inf(-1)
			}
			p.Lines(func(out, in, tap, n, step int) {
				for k := range n {
					if v := value(base + in + k*step); better(v, most[out+k], where[out+k] == noTap) {
						where[out+k], most[out+k] = byte(tap), v
					}
				}
			})
		}
	})
}

var _ = define(graph.Op{
	Name:   "MaxPoolGradAt",
	Domain: own,
	Doc:    "dX of MaxPool from the taps of MaxPoolWhere and the shape of X",
	In:     "dY, where, shape",
	Out:    "dX",
	Attrs:  maxPoolAttrs,
	Known:  []int{2},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		if n.Inputs[1].Type != graph.Uint8 {
			n.Fail("where is %s; u8 expected", n.Inputs[1].Type)
		}
		sameDims(n, n.Inputs[1].Shape, n.Inputs[0].Shape)
		n.Set(0, n.Inputs[0].Type, knownDims(n, 2, "shape"))
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { maxPoolGradAt(c, f32.Serial, true) },
	Fast:      func(c *graph.Call) { maxPoolGradAt(c, c.Parallel, c.In[0].Type != graph.Float32) },
	Lower:     lowerGradAt,
	Flops:     poolFlops(func(n *graph.Node) *graph.Value { return n.Outputs[0] }),
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.out(0) * c.window() })},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,5], u8[2,3,5]<3, i64{2,3,7}; kernel_shape=[3]",
		"f32[1,2,3,3], u8[1,2,3,3]<9, i64{1,2,5,5}; kernel_shape=[3, 3] strides=[2, 2] auto_pad=\"SAME_UPPER\"",
		"f32[1,2,2,4], u8[1,2,2,4]<6, i64{1,2,6,7}; kernel_shape=[3, 2] dilations=[2, 3]",
		"f64[1,1,3], u8[1,1,3]<2, i64{1,1,4}; kernel_shape=[2]",
	},
})

// maxPoolGradAt adds in the order of MaxPoolGrad, for the same bits; in float64 if wide, as
// the reference does.
func maxPoolGradAt(c *graph.Call, par f32.Parallel, wide bool) {
	dy, where, dx := c.In[0], c.In[1].Bytes, c.Out[0]
	p := newPool(c.Node, dx.Shape, dy.Shape)
	p.images(par, func(lo, hi int) {
		at := make([]int32, f32.Volume(p.Out))
		for i := lo; i < hi; i++ {
			taps := where[i*len(at):][:len(at)]
			for k := range at {
				at[k] = -1
			}
			p.Lines(func(out, in, tap, n, step int) {
				for k := range n {
					if int(taps[out+k]) == tap {
						at[out+k] = int32(in + k*step)
					}
				}
			})
			if !wide {
				dx, dy := p.image(i, dx.F32(), dy.F32())
				clear(dx)
				for k, d := range dy {
					if at[k] >= 0 {
						dx[at[k]] += d
					}
				}
				continue
			}
			sum := make([]float64, f32.Volume(p.In))
			for k, to := range at {
				if to >= 0 {
					sum[to] += dy.Float(i*len(at) + k)
				}
			}
			for k, v := range sum {
				dx.SetFloat(i*len(sum)+k, v)
			}
		}
	})
}

// taps lets MaxPoolGrad read the output of MaxPoolWhere instead of X.
func taps(n *graph.Node) []graph.Smaller {
	if !byteTaps(n) {
		return nil
	}
	shape := n.Inputs[1].Shape
	return []graph.Smaller{{
		Input: 1,
		Keep: func(b *graph.Builder, x *graph.Value) *graph.Value {
			return b.Op(own+".MaxPoolWhere", convCopy(n), x)
		},
		Read: func(b *graph.Builder, in []*graph.Value, kept *graph.Value) []*graph.Value {
			return b.Ops(own+".MaxPoolGradAt", convCopy(n), 1, in[0], kept, b.Ints(shape...))
		},
	}}
}

// lowerTaps lowers MaxPoolWhere.
func lowerTaps(l *graph.Lowering) {
	if n := l.Out[0].Len(); n > 0 && tapsFit(l, l.In[0]) {
		p := newPool(l.Node, l.In[0].Shape, l.Out[0].Shape)
		p.dispatch(l, poolTaps, poolWhere, false, n, []graph.Buffer{lower.Unused(true), lower.Unused(false), lower.Reads(0), lower.Writes(0)})
	}
}

func lowerGradAt(l *graph.Lowering) {
	if n := l.Out[0].Len(); n > 0 && tapsFit(l, l.In[0], l.Out[0]) {
		p := newPool(l.Node, l.Out[0].Shape, l.In[0].Shape)
		p.dispatch(l, poolTaps, poolGradAt, false, n, []graph.Buffer{lower.Writes(0), lower.Reads(0), lower.Unused(false), lower.Reads(1)})
	}
}
