package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Gemm",
	Since: 7,
	Doc:   "Y = alpha · op(A)·op(B) + beta · C, C broadcast",
	In:    "A, B, C?",
	Out:   "Y",
	Attrs: "alpha float=1, beta float=1, transA int=0, transB int=0",
	Infer: func(n *graph.Node) {
		if a, b := n.Inputs[0].Rank(), n.Inputs[1].Rank(); a != 2 || b != 2 {
			n.Fail("A and B must be matrices, but their ranks are %d and %d", a, b)
		}
		fusedProduct(n).infer(n)
		y := n.Outputs[0]
		if c := n.In(2); c != nil {
			if out := broadcast(n, y.Shape, c.Shape); !out.Equal(y.Shape) {
				n.Fail("C is %s, which does not broadcast to %s", c.Shape, y.Shape)
			}
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dA, dB := fusedProduct(n).grads(b, n.Inputs[0], n.Inputs[1], dy[0])
		grads := []*graph.Value{dA, dB}
		if c := n.In(2); c != nil {
			grads = append(grads, sumTo(b, scaled(b, dy[0], n.Float("beta")), c.Shape))
		}
		return grads
	},
	Eval: func(c *graph.Call) {
		y, alpha, beta := c.Out[0], c.Node.Float("alpha"), c.Node.Float("beta")
		bias, st := func(int) float64 { return 0 }, []int{0, 0}
		if len(c.In) > 2 {
			st = index.Broadcast(c.In[2].Shape, y.Shape)
			bias = func(o int) float64 { return beta * c.In[2].Float(o/y.Shape[1]*st[0]+o%y.Shape[1]*st[1]) }
		}
		fusedProduct(c.Node).sums(c, func(o int, f float64, i int64) {
			if y.Type.IsFloat() {
				y.SetFloat(o, alpha*f+bias(o))
			} else {
				y.SetInt(o, int64(alpha*float64(i)+bias(o)))
			}
		})
	},
	Lower: lowerGemm,
	Fast: func(c *graph.Call) {
		if hasWide(c) {
			var begin func(to []float32, row, col, rows, cols int)
			if len(c.In) > 2 {
				begin = func(to []float32, row, col, rows, cols int) { gemmBias(c, to, row, col, rows, cols) }
			}
			fusedProduct(c.Node).intoHalf(c, begin)
			return
		}
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		y := c.Out[0].F32()
		if len(c.In) > 2 {
			gemmBias(c, y, 0, 0, c.Out[0].Shape[0], c.Out[0].Shape[1])
		}
		fusedProduct(c.Node).into(c, y, len(c.In) > 2)
	},
	Scratch: wideScratch,
	Flops:   func(n *graph.Node) graph.Dim { return fusedProduct(n).flops(n) },
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 {
			return 2 * visits(append(c.outs(0), int(c.inner(c.Node.Int("transA") != 0, false)))...)
		}),
		Pieces: []string{
			"f32[200,10], f32[10,20], f32[20]",
			"f32[200,10], f32[10,20], f32[200,20]; alpha=0.5",
			"f32[4,20], f32[200,20], f32[200]; transB=1",
			"bf16[200,10], bf16[20,10]; transB=1",
		},
	},
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[3,4], f32[4,5]",
		"f32[3,4], f32[4,5], f32[5]",
		"f32[4,3], f32[5,4], f32[3,1]; transA=1 transB=1 alpha=0.5 beta=2.0",
		"f32[3,4], f32[4,5], f32[3,5]; beta=0.0",
		"f32[3,4], f32[5,4], f32[]; transB=1",
		"f32[3,4], f32[4,5], f32[1,5]",
		"f32[13,2], f32[33,2], f32[33]; transB=1",
		"i32[2,3], i32[3,2], i32[2]; alpha=2.0 beta=3.0",
		"f16[4,3], f16[5,4], f16[3,1]; transA=1 transB=1 alpha=0.5 beta=2.0",
		"f32[2,0], f32[0,3], f32[3]",
	},
})

// gemmBias initializes the block of sums at (row, col) with beta · C.
func gemmBias(c *graph.Call, to []float32, row, col, rows, cols int) {
	beta, bias := float32(c.Node.Float("beta")), c.In[2]
	st := index.Broadcast(bias.Shape, c.Out[0].Shape)
	c.Parallel(rows, 1+f32.Grain/max(1, cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			at, line := (row+i)*st[0]+col*st[1], to[i*cols:(i+1)*cols]
			if bias.Type == graph.Float32 && st[1] == 1 {
				f32.Scale(line, bias.F32()[at:], beta)
				continue
			}
			for j := range line {
				line[j] = beta * float32(bias.Float(at))
				at += st[1]
			}
		}
	})
}

// Before opset 7 attribute broadcast says whether C is broadcast; its shape says the same.
var _ = define(graph.Op{
	Name:  "Gemm",
	Doc:   "the form before opset 7",
	In:    "A, B, C",
	Out:   "Y",
	Attrs: "alpha float=1, beta float=1, broadcast int=0, transA int=0, transB int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		attrs := graph.A{"alpha": n.Float("alpha"), "beta": n.Float("beta"), "transA": n.Int("transA"), "transB": n.Int("transB")}
		return []*graph.Value{b.Op("Gemm", attrs, n.Inputs...)}
	},
})

func lowerGemm(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	lower.Product(fusedProduct(l.Node)).Lower(l, lower.Present(l, 2), l.Node.Float("beta"))
}
