package kernels

import "memopt/internal/graph"

var plainProduct = product{Alpha: 1}

var _ = define(graph.Op{
	Name:  "MatMul",
	Doc:   "Y = A·B over the last two dims, the others broadcast",
	In:    "A, B",
	Out:   "Y",
	Infer: plainProduct.infer,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dA, dB := plainProduct.grads(b, n.Inputs[0], n.Inputs[1], dy[0])
		return []*graph.Value{dA, dB}
	},
	Eval:    plainProduct.eval,
	Fast:    plainProduct.fast,
	Lower:   lowerProduct(func(*graph.Node) product { return plainProduct }),
	Scratch: wideScratch,
	Flops:   plainProduct.flops,
	Tests: graph.Tests{
		Work:  counted(func(c sampled) int64 { return 2 * visits(append(c.outs(0), int(c.inner(false, false)))...) }),
		Large: []string{"f32[3,65,75], f32[3,75,127]"},
		Pieces: []string{
			"f16[10,20], f16[20,10]",
			"f32[200,10], f32[10,20]",
			"f32[4,200], f32[200,20]",
			"f32[40,8,8], f32[40,8,8]",
			"f32[60,3,5], f32[60,5,6]",
			"f16[40,8,8], f16[40,8,8]",
		},
	},
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[3,4], f32[4,5]",
		"f32[2,3,4], f32[4,5]",
		"f32[2,3,4], f32[2,4,5]",
		"f32[2,1,3,4], f32[3,4,2]",
		"f32[3,4], f32[2,4,5]",
		"f32[4], f32[4]",
		"f32[4], f32[2,4,3]",
		"f32[2,3,4], f32[4]",
		"f32[13,2], f32[2,33]",
		"i32[2,3], i32[3,2]",
		"f16[2,5,3], f16[3,4]",
		"bf16[3,40], bf16[40,2]",
		"f32[2,0], f32[0,3]",
		"f32[0,2], f32[2,3]",
	},
})
