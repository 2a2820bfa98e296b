package kernels

import "memopt/memopt/graph"

func fusedProduct(n *graph.Node) product {
	return product{n.Int("transA") != 0, n.Int("transB") != 0, n.Float("alpha")}
}

// FusedMatMul is what gradients of products are made of: a transposed factor
// is read as it lies.
var _ = define(graph.Op{
	Name:   "FusedMatMul",
	Domain: microsoft,
	Doc:    "Y = alpha · op(A)·op(B), op transposes the last two dims or not",
	In:     "A, B",
	Out:    "Y",
	Attrs:  "alpha float=1, transA int=0, transB int=0, transBatchA int=0, transBatchB int=0",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		for _, a := range []string{"transBatchA", "transBatchB"} {
			if n.Int(a) != 0 {
				n.Fail("%s is %d; only 0 is known, with a Transpose in front", a, n.Int(a))
			}
		}
		fusedProduct(n).infer(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dA, dB := fusedProduct(n).grads(b, n.Inputs[0], n.Inputs[1], dy[0])
		return []*graph.Value{dA, dB}
	},
	Eval:      func(c *graph.Call) { fusedProduct(c.Node).eval(c) },
	Fast:      func(c *graph.Call) { fusedProduct(c.Node).fast(c) },
	Flops:     func(n *graph.Node) graph.Dim { return fusedProduct(n).flops(n) },
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[3,4], f32[4,5]; alpha=0.5",
		"f32[4,3], f32[4,5]; transA=1",
		"f32[2,3,4], f32[5,4]; transB=1",
		"f32[2,4,3], f32[2,5,4]; transA=1 transB=1 alpha=-2.0",
		"f32[2,4,3], f32[4,5]; transA=1",
		"f32[2,1,4,3], f32[3,4,2]; transA=1",
		"f32[4], f32[2,4,3]; transA=1",
		"f32[2,3,4], f32[4]; transB=1",
		"f32[2,13], f32[33,2]; transA=1 transB=1",
	},
})
