package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// clipChunk is the number of elements that one worker sums. The chunks' sums are added in
// order, so the result does not depend on the number of workers.
const clipChunk = 64 << 10

// ClipNorm is the factor of torch.nn.utils.clip_grad_norm_.
var _ = define(graph.Op{
	Name:   "ClipNorm",
	Domain: own,
	Doc:    "min(1, max_norm / (‖all gradients together‖ + 1e-6))",
	In:     "max_norm, grads...",
	Out:    "factor",
	Infer: func(n *graph.Node) {
		wantScalar(n, 0, graph.Float32)
		for i := range n.Inputs {
			wantType(n, i, isFloat, "floats")
		}
		n.Set(0, graph.Float32, graph.Shape{})
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		clip(c, func(x *graph.Tensor, lo, hi int) (sum float64) {
			for k := lo; k < hi; k++ {
				sum += x.Float(k) * x.Float(k)
			}
			return sum
		}, f32.Serial)
	},
	Fast: func(c *graph.Call) {
		clip(c, func(x *graph.Tensor, lo, hi int) (sum float64) {
			if x.Type == graph.Float32 {
				return f32.SumSquares(0, x.F32()[lo:hi])
			}
			for k := lo; k < hi; k++ {
				sum += x.Float(k) * x.Float(k)
			}
			return sum
		}, c.Parallel)
	},
	Lower: lowerClipNorm,
	Flops: func(n *graph.Node) graph.Dim {
		sum := graph.Num(4)
		for _, g := range n.Inputs[1:] {
			sum = sum.Add(g.Shape.Elems().Mul(graph.Num(2)))
		}
		return sum
	},
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 { return 4 + 2*c.rest(1) }),
		Pieces: []string{
			"f32[]{1}, f32[200000], f32[3]",
		},
	},
	Recompute: graph.Never,
	Role:      graph.RoleClip,
	Samples: []string{
		"f32[]{1}, f32[3], f32[2,2]",
		"f32[]{1000}, f32[3]",
		"f32[]{0.5}, f32[70000], f32[0], f16[3]",
		"f32[]{1}",
	},
})

func clip(c *graph.Call, squares func(x *graph.Tensor, lo, hi int) float64, par f32.Parallel) {
	total := 0.0
	for _, x := range c.In[1:] {
		n := x.Len()
		sums := make([]float64, index.CeilDiv(n, clipChunk))
		par(len(sums), 1, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				sums[i] = squares(x, i*clipChunk, min((i+1)*clipChunk, n))
			}
		})
		for _, s := range sums {
			total += s
		}
	}
	factor := c.In[0].Float(0) / (math.Sqrt(total) + 1e-6)
	if factor > 1 {
		factor = 1
	}
	c.Out[0].SetFloat(0, factor)
}

// lowerClipNorm sums squares in parts, all gradients into one list of partial sums, which
// clipnorm.comp adds up.
func lowerClipNorm(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	parts := lower.Reduction{Fold: lower.FoldSum, Term: lower.TermSquare}.InParts(l, 1)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: clipNormKernel, Spec: []uint32{uint32(l.Limits.Subgroup)}, Push: lower.Words(l, parts),
		Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0), lower.Scratch(0, l.Scratch, false)}, Groups: [3]int{1, 1, 1},
	})
}

var clipNormKernel = lower.Shader("clipnorm", "clipnorm.comp")
