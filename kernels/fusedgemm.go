package kernels

import "memopt/internal/graph"

// FusedGemm is ONNX Runtime's fusion of Gemm and an activation. Only activations whose
// gradient needs just y are supported, as the Gemm's own result is not kept.
var _ = define(graph.Op{
	Name:   "FusedGemm",
	Domain: microsoft,
	Doc:    "Y = activation(alpha · op(A)·op(B) + beta · C)",
	In:     "A, B, C?",
	Out:    "Y",
	Attrs:  "activation string, activation_alpha float, activation_beta float, activation_gamma float, alpha float=1, beta float=1, transA int=0, transB int=0",
	Infer: func(n *graph.Node) {
		fusedActivation(n)
		wantType(n, 0, isFloat, "floats")
		m := seenAs(n, "Gemm", 1)
		m.Op.Infer(m)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		m := seenAs(n, "Gemm", 1)
		if op := fusedActivation(n); op != nil {
			dy = []*graph.Value{b.Op(microsoft+"."+op.Name+"Grad", nil, dy[0], n.Outputs[0])}
		}
		return m.Op.Grad(b, m, dy)
	},
	Eval: func(c *graph.Call) {
		d := callAs(c, "Gemm", 1)
		d.Node.Op.Eval(d)
		activate(c, plainForm)
	},
	Fast: func(c *graph.Call) {
		d := callAs(c, "Gemm", 1)
		d.Node.Op.Fast(d)
		activate(c, fastForm)
	},
	Lower: lowerFusedGemm,
	Flops: func(n *graph.Node) graph.Dim { return fusedProduct(n).flops(n).Add(perElement(12)(n)) },
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 {
			return 2*visits(append(c.outs(0), int(c.inner(c.Node.Int("transA") != 0, false)))...) + 12*c.out(0)
		}),
	},
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[3,4], f32[4,5], f32[5]; activation=\"Relu\"",
		"f32[3,4], f32[5,4], f32[5]; activation=\"Tanh\" transB=1",
		"f32[4,3], f32[4,5], f32[3,1]; activation=\"Sigmoid\" transA=1 alpha=0.5 beta=2.0",
		"f32[3,4], f32[4,5]",
		"f16[3,4], f16[4,5], f16[5]; activation=\"Tanh\"",
		"f32[0,4], f32[4,5], f32[5]; activation=\"Relu\"",
	},
})

// lowerFusedGemm is Gemm, then the activation in place.
func lowerFusedGemm(l *graph.Lowering) {
	lowerGemm(l)
	lowerActivation(l)
}
