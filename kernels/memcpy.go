package kernels

import "memopt/internal/graph"

// ONNX Runtime's copies between host and device are views: a value has one place here.
func init() {
	for _, name := range []string{"MemcpyFromHost", "MemcpyToHost"} {
		define(graph.Op{
			Name: name,
			Doc:  "y = x; a copy between host and device in ONNX Runtime",
			In:   "X",
			Out:  "Y",
			Infer: func(n *graph.Node) {
				sameShape(n)
				foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d, true })
			},
			Grad:      viewGrad,
			Eval:      copyBytes,
			Flops:     noFlops,
			Tests:     graph.Tests{Work: noWork},
			Recompute: graph.Cheap,
			View:      true,
			Samples:   []string{"f32[2,3]", "bool[4]", "i64[]", "f32[0,3]"},
		})
	}
}
