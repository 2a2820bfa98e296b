package kernels

import "memopt/internal/graph"

func fusedProduct(n *graph.Node) product {
	return product{TransA: n.Int("transA") != 0, TransB: n.Int("transB") != 0, Alpha: n.Float("alpha")}
}

// batchedProduct is fusedProduct with transBatchA and transBatchB: rows before batch dims.
func batchedProduct(n *graph.Node) product {
	p := fusedProduct(n)
	p.BatchA, p.BatchB = n.Int("transBatchA") != 0, n.Int("transBatchB") != 0
	return p
}

// isProduct reports whether a node has a product that productOfNode tells.
func isProduct(n *graph.Node) bool { return isOneOf(n, "MatMul", "Gemm", microsoft+".FusedMatMul") }

// productOfNode is the product of a MatMul, FusedMatMul or Gemm.
func productOfNode(n *graph.Node) product {
	switch n.Op.FullName() {
	case "MatMul":
		return plainProduct
	case "Gemm":
		return fusedProduct(n)
	}
	return batchedProduct(n)
}

// FusedMatMul (ONNX Runtime) reads transposed factors in place; gradients of products use it.
var _ = define(graph.Op{
	Name:   "FusedMatMul",
	Domain: microsoft,
	Doc:    "Y = alpha · op(A)·op(B), op transposes the last two dims or not; with transBatch the rows come before the batch dims",
	In:     "A, B",
	Out:    "Y",
	Attrs:  "alpha float=1, transA int=0, transB int=0, transBatchA int=0, transBatchB int=0",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		batchedProduct(n).infer(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dA, dB := batchedProduct(n).grads(b, n.Inputs[0], n.Inputs[1], dy[0])
		return []*graph.Value{dA, dB}
	},
	Fuse:    fuseFusedMatMul,
	Eval:    func(c *graph.Call) { batchedProduct(c.Node).eval(c) },
	Fast:    func(c *graph.Call) { batchedProduct(c.Node).fast(c) },
	Scratch: wideScratch,
	Lower:   lowerProduct(batchedProduct),
	Flops:   func(n *graph.Node) graph.Dim { return batchedProduct(n).flops(n) },
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 {
			return 2 * visits(append(c.outs(0), int(c.inner(c.Node.Int("transA") != 0, c.Node.Int("transBatchA") != 0)))...)
		}),
		Pieces: []string{
			"f32[200,10], f32[200,20]; transA=1",
			"f16[200,10], f16[30,10]; transB=1",
			"f32[200,10], f32[20,10]; transB=1",
		},
	},
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
		"f32[3,2,4], f32[2,4,5]; transBatchA=1",
		"f32[4,2,3], f32[4,2,5]; transA=1 transBatchA=1 transBatchB=1",
		"f32[3,2,2,4], f32[5,2,2,4]; transB=1 transBatchA=1 transBatchB=1 alpha=0.5",
		"f32[3,2,4], f32[4,5]; transBatchA=1",
		"f32[2,3,4], f32[4,2,33]; transBatchB=1",
		"f32[3,4], f32[4,5]; transBatchA=1 transBatchB=1",
		"f32[3,2,4], f32[4]; transBatchA=1",
		"f32[0,2,3], f32[0,3,4]",
		"f32[2,0], f32[0,4]; alpha=0.5",
	},
})

// fuseFusedMatMul fuses a product with transposes and scalings of its factors, and with a
// scaling of its result.
func fuseFusedMatMul(m *graph.Match) []*graph.Value {
	p := pieces{m}
	y, alpha := p.unscaled(m.Node.Outputs[0])
	n := p.product(y)
	if n == nil || !y.Type.IsFloat() {
		return nil
	}
	found := n != m.Node
	var trans [2]bool
	if n.Op.FullName() != "MatMul" {
		trans = [2]bool{n.Int("transA") != 0, n.Int("transB") != 0}
		alpha *= n.Float("alpha")
	}
	in := [2]*graph.Value{n.Inputs[0], n.Inputs[1]}
	for i := range in {
		for {
			x, c := p.unscaled(in[i])
			if x == in[i] {
				if x = p.untransposed(in[i]); x == nil {
					break
				}
				trans[i] = !trans[i]
			}
			in[i], alpha, found = x, alpha*c, true
		}
	}
	switch {
	case !found:
		return nil
	case alpha == 1 && trans == [2]bool{}:
		return []*graph.Value{m.Builder.Op("MatMul", nil, in[0], in[1])}
	}
	return []*graph.Value{m.Builder.Op("com.microsoft.FusedMatMul", graph.A{"alpha": alpha, "transA": trans[0], "transB": trans[1]}, in[0], in[1])}
}

// product is the MatMul or FusedMatMul that computes v, if only one node reads v; else nil.
func (p pieces) product(v *graph.Value) *graph.Node {
	if n := p.Inner(v, "MatMul"); n != nil {
		return n
	}
	return p.Inner(v, microsoft+".FusedMatMul")
}

// untransposed returns x if v is x with the last two dims swapped and only products read v,
// which can all transpose it themselves; else nil.
func (p pieces) untransposed(v *graph.Value) *graph.Value {
	n := p.Maker(v, "Transpose")
	if n == nil || !swapsLast(n) || p.IsResult(v) {
		return nil
	}
	for _, r := range p.Readers(v) {
		if name := r.Op.FullName(); name != "MatMul" && name != "com.microsoft.FusedMatMul" {
			return nil
		}
	}
	return n.Inputs[0]
}
