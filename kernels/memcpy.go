package kernels

import "memopt/memopt/graph"

// Copies between host and device, as ONNX Runtime writes them into a graph. A
// value has one place here, so they are views.
func init() {
	for _, name := range []string{"MemcpyFromHost", "MemcpyToHost"} {
		define(graph.Op{
			Name: name,
			Doc:  "y = x; between the memories of ONNX Runtime, of which there is one here",
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
