package kernels

import "memopt/internal/graph"

// ONNX Runtime's gradients of the softmax before opset 13, which is over all dims from axis on,
// are rewritten into the newer ones over rows.
func init() {
	for _, name := range []string{"SoftmaxGrad", "LogSoftmaxGrad"} {
		define(graph.Op{
			Name:    name,
			Domain:  microsoft,
			Doc:     name + "_13 over all dims from axis on",
			In:      "dY, Y",
			Out:     "dX",
			Attrs:   "axis int=1",
			Samples: []string{"f32[2,3], f32[2,3]"},
			Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
				shape := n.Inputs[0].Shape
				sameDims(n, n.Inputs[1].Shape, shape)
				axis := n.Int("axis")
				if axis != len(shape) { // axis = rank is valid: rows of one element
					axis = axisOf(n, axis, len(shape))
				}
				rows := graph.Shape{shape[:axis].Elems(), shape[axis:].Elems()}
				dx := b.Op(microsoft+"."+name+"_13", graph.A{"axis": -1}, reshape(b, n.Inputs[0], rows), reshape(b, n.Inputs[1], rows))
				return []*graph.Value{reshape(b, dx, shape)}
			},
		})
	}
}
