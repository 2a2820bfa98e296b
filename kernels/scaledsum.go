package kernels

import (
	"fmt"

	"memopt/internal/graph"
)

// ScaledSum and BatchScale are fusions of ONNX Runtime, rewritten into Mul and Add.
var _ = define(graph.Op{
	Name:    "ScaledSum",
	Domain:  microsoft,
	Doc:     "scale_0·input_0 + scale_1·input_1 (+ scale_2·input_2)",
	In:      "input_0, input_1, input_2?",
	Out:     "output",
	Attrs:   "scale_0 float, scale_1 float, scale_2 float",
	Samples: []string{"f32[2,3], f32[2,3], f32[2,3]; scale_0=0.5 scale_1=2.0 scale_2=0.25"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		var sum *graph.Value
		for i, x := range n.Inputs {
			if x == nil {
				continue
			}
			part := scaledBy(b, n, x, fmt.Sprintf("scale_%d", i))
			if sum == nil {
				sum = part
			} else {
				sum = b.Op("Add", nil, sum, part)
			}
		}
		return []*graph.Value{sum}
	},
})

var _ = define(graph.Op{
	Name:    "BatchScale",
	Domain:  microsoft,
	Doc:     "the input times each of two or three numbers",
	In:      "input",
	Out:     "output_0, output_1, output_2?",
	Attrs:   "scale_0 float, scale_1 float, scale_2 float",
	Samples: []string{"f32[2,3]; scale_0=0.5 scale_1=2.0 -> a, b"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		out := make([]*graph.Value, len(n.Outputs))
		for i := range out {
			out[i] = scaledBy(b, n, n.Inputs[0], fmt.Sprintf("scale_%d", i))
		}
		return out
	},
})

// scaledBy is x times an attribute.
func scaledBy(b *graph.Builder, n *graph.Node, x *graph.Value, attr string) *graph.Value {
	if !n.Has(attr) {
		n.Fail("attribute %s is missing", attr)
	}
	wantType(n, 0, isFloat, "floats")
	return b.Op("Mul", nil, x, num(b, x, n.Float(attr)))
}
