package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// Loss scaling keeps small gradients from underflowing in 16-bit types: backward starts from
// the scale instead of 1, and updates divide by it. The scale is an optimizer state; 0, the
// initial value of states, stands for the attribute initial. If that is a power of two the
// scale always is, so that scaling does not round.
const lossScaleAttrs = "initial float=65536"

// The bounds of a dynamic scale.
const (
	leastLossScale = 1
	mostLossScale  = 1 << 24
)

func lossScale(c *graph.Call) float64 {
	if scale := c.In[0].Float(0); scale != 0 {
		return scale
	}
	return c.Node.Float("initial")
}

var _ = define(graph.Op{
	Name:   "LossSeed",
	Domain: own,
	Doc:    "the scale as the initial gradient of a loss, with its type and rank",
	In:     "scale",
	Out:    "seed",
	Attrs:  lossScaleAttrs + ", to int=1, rank int=0",
	Infer: func(n *graph.Node) {
		wantScalar(n, 0, graph.Float32)
		to, shape := graph.DType(n.Int("to")), graph.Shape{}
		if !to.IsFloat() {
			n.Fail("to is %d, which is not a float type", n.Int("to"))
		}
		if r := n.Int("rank"); r < 0 || r > 64 {
			n.Fail("rank %d is out of range", r)
		}
		for range n.Int("rank") {
			shape = append(shape, graph.Num(1))
		}
		n.Set(0, to, shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { c.Out[0].SetFloat(0, lossScale(c)) },
	Lower:     lowerLossSeed,
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork},
	Recompute: graph.Cheap,
	Role:      graph.RoleLossSeed,
	Samples:   []string{"f32[]{8}", "f32[]{0}; initial=4.0 rank=2", "f32[]{8}; to=10", "f32[]{8}; to=11"},
})

var _ = define(graph.Op{
	Name:   "Unscale",
	Domain: own,
	Doc:    "factor/scale, or −1 (skip the update) if a gradient has an infinity or NaN",
	In:     "scale, factor?, grads...",
	Out:    "unscale",
	Attrs:  lossScaleAttrs,
	Infer: func(n *graph.Node) {
		wantScalar(n, 0, graph.Float32)
		wantScalar(n, 1, graph.Float32)
		for i := 2; i < len(n.Inputs); i++ {
			wantType(n, i, isFloat, "floats")
		}
		n.Set(0, graph.Float32, graph.Shape{})
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		unscale(c, f32.Serial, func(x *graph.Tensor, lo, hi int) bool {
			for k := lo; k < hi; k++ {
				if !isFinite(x.Float(k)) {
					return false
				}
			}
			return true
		})
	},
	Fast: func(c *graph.Call) {
		unscale(c, c.Parallel, func(x *graph.Tensor, lo, hi int) bool {
			if x.Type == graph.Float32 {
				return f32.Finite(x.F32()[lo:hi])
			}
			for k := lo; k < hi; k++ {
				if !isFinite(x.Float(k)) {
					return false
				}
			}
			return true
		})
	},
	Lower: lowerUnscale,
	Flops: func(n *graph.Node) graph.Dim {
		sum := graph.Num(1)
		for _, g := range n.Inputs[2:] {
			sum = sum.Add(g.Shape.Elems())
		}
		return sum
	},
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return 1 + c.rest(2) })},
	Recompute: graph.Never,
	Role:      graph.RoleUnscale,
	Samples: []string{
		"f32[]{8}, _, f32[3], f32[2,2]",
		"f32[]{8}, f32[]{0.5}, f32[70000], f32[0], f16[3], f64[2]",
		"f32[]{0}, _, f32[3]; initial=4.0",
		"f32[]{8}, _, f32[2]{1e30,1e39}",
	},
})

func unscale(c *graph.Call, par f32.Parallel, finite func(x *graph.Tensor, lo, hi int) bool) {
	factor := 1 / lossScale(c)
	if f := input(c, 1); f != nil {
		factor *= f.Float(0)
	}
	for _, x := range c.In[2:] {
		n := x.Len()
		good := make([]bool, index.CeilDiv(n, clipChunk))
		par(len(good), 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				good[i] = finite(x, i*clipChunk, min((i+1)*clipChunk, n))
			}
		})
		for _, ok := range good {
			if !ok {
				factor = -1
			}
		}
		if factor < 0 {
			break
		}
	}
	c.Out[0].SetFloat(0, factor)
}

func isFinite(x float64) bool { return x-x == 0 }

var _ = define(graph.Op{
	Name:   "NextLossScale",
	Domain: own,
	Doc:    "halves the scale (at least 1) after a skipped update, doubles it (at most 2²⁴) after window good ones in a row, and counts these",
	In:     "scale, good, unscale",
	Out:    "new_scale, new_good",
	Attrs:  lossScaleAttrs + ", window int=2000",
	Infer: func(n *graph.Node) {
		wantScalar(n, 0, graph.Float32)
		wantScalar(n, 1, graph.Int64)
		wantScalar(n, 2, graph.Float32)
		n.Set(0, graph.Float32, graph.Shape{})
		n.Set(1, graph.Int64, graph.Shape{})
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		scale, good := lossScale(c), c.In[1].Int(0)+1
		switch {
		case c.In[2].Float(0) < 0:
			scale, good = math.Max(scale/2, math.Min(scale, leastLossScale)), 0
		case good >= int64(c.Node.Int("window")):
			scale, good = math.Min(scale*2, math.Max(scale, mostLossScale)), 0
		}
		c.Out[0].SetFloat(0, scale)
		c.Out[1].SetInt(0, good)
	},
	Lower:      lowerNextLossScale,
	Flops:      noFlops,
	Tests:      graph.Tests{Work: noWork},
	Recompute:  graph.Never,
	Overwrites: []int{0, 1},
	Role:       graph.RoleNextLossScale,
	Samples: []string{
		"f32[]{8}, i64[]{3}, f32[]{0.125}",
		"f32[]{0}, i64[]{0}, f32[]{-1}; initial=16.0",
		"f32[]{8}, i64[]{3}, f32[]{0.125}; window=4",
		"f32[]{16777216}, i64[]{3}, f32[]{0.1}; window=1",
		"f32[]{1}, i64[]{3}, f32[]{-1}",
	},
})

// skips reports whether the input scale of an update says to skip it.
func skips(scale *graph.Tensor) bool { return scale != nil && scale.Float(0) < 0 }

func lowerLossSeed(l *graph.Lowering) {
	if lower.OnlyF32(l) {
		lowerScaleMode(l, scaleSeed, 1, 0, [6]*graph.Buffer{0: new(lower.Writes(0)), 2: new(lower.Reads(0))})
	}
}

func lowerNextLossScale(l *graph.Lowering) {
	lowerScaleMode(l, scaleNext, 1, 0, [6]*graph.Buffer{new(lower.Writes(0)), new(lower.Writes(1)), new(lower.Reads(0)), new(lower.Reads(1)), new(lower.Reads(2)), nil})
}

// lowerUnscale computes the maximum of |x| over parts of the gradients, which is infinite or
// NaN if an element is.
func lowerUnscale(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	parts := lower.Reduction{Fold: lower.FoldMax, Term: lower.TermSize}.InParts(l, 2)
	work := lower.Scratch(0, l.Scratch, false)
	lowerScaleMode(l, scaleFinite, l.Limits.Subgroup, parts, [6]*graph.Buffer{0: new(lower.Writes(0)), 2: new(lower.Reads(0)), 4: optionalIn(l, 1), 5: &work})
}

var lossScaleKernel = lower.Shader("lossscale", "lossscale.comp")

// The modes of lossscale.comp.
const (
	scaleSeed, scaleNext, scaleFinite, scaleCount = 0, 1, 2, 3
)

// lowerScaleMode appends a dispatch of a mode; the buffers are y, number, scale, last, factor
// and work, nil where the mode does not use them.
func lowerScaleMode(l *graph.Lowering, mode uint32, local, parts int, buffers [6]*graph.Buffer) {
	initial, window := 0.0, 0
	if mode != scaleCount {
		initial = l.Node.Float("initial")
	}
	if mode == scaleNext {
		window = max(0, min(l.Node.Int("window"), math.MaxInt32))
	}
	bound := make([]graph.Buffer, len(buffers))
	for i, b := range buffers {
		if bound[i] = lower.Unused(i < 2); b != nil {
			bound[i] = *b
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: lossScaleKernel, Spec: []uint32{uint32(local), mode, lower.OneIf(buffers[4] != nil)},
		Push:    append([]uint32{lower.Bits(initial), lower.Bits(leastLossScale), lower.Bits(mostLossScale)}, lower.Words(l, window, parts)...),
		Buffers: bound, Groups: [3]int{1, 1, 1},
	})
}
