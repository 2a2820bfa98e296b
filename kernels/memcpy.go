package kernels

import "memopt/internal/graph"

// ONNX Runtime's copies between host and device are views: a value has one place here.
func init() {
	for _, name := range []string{"MemcpyFromHost", "MemcpyToHost"} {
		defineView(graph.Op{
			Name: name,
			Doc:  "y = x; a copy between host and device in ONNX Runtime",
			In:   "X",
			Out:  "Y",
			Infer: func(n *graph.Node) {
				sameShape(n)
				foldOne(n, func(d graph.Dim) (graph.Dim, bool) { return d, true })
			},
			Samples: []string{"f32[2,3]", "bool[4]", "i64[]", "f32[0,3]"},
		})
	}
}
