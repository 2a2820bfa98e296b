package kernels

import "memopt/memopt/graph"

// Before opset 13 softmax was over all dims from axis on, seen as one. ONNX
// Runtime's gradients of that form are the newer ones of rows.
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
				if axis != len(shape) { // a whole tensor of rows of one
					axis = axisOf(n, axis, len(shape))
				}
				rows := graph.Shape{shape[:axis].Elems(), shape[axis:].Elems()}
				dx := b.Op(microsoft+"."+name+"_13", graph.A{"axis": -1}, reshape(b, n.Inputs[0], rows), reshape(b, n.Inputs[1], rows))
				return []*graph.Value{reshape(b, dx, shape)}
			},
		})
	}
}
