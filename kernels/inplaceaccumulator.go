package kernels

import "memopt/internal/graph"

// ONNX Runtime's gradient accumulators, which write into their first input. Here they are
// rewritten into sums; the graph's Updates say which input the result replaces.
var _ = define(graph.Op{
	Name:    "InPlaceAccumulator",
	Domain:  microsoft,
	Doc:     "old_sum + value, or old_sum if update_signal is false",
	In:      "old_sum, value, update_signal?",
	Out:     "new_sum",
	Samples: []string{"f32[2,3], f16[2,3], bool[1]", "f32[2,3], f32[2,3]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		old, sum := n.Inputs[0], accumulated(b, n)
		if on := n.In(2); on != nil {
			sum = b.Op("Where", nil, oneTruth(b, n, on), sum, old)
		}
		return []*graph.Value{sum}
	},
})

var _ = define(graph.Op{
	Name:    "InPlaceAccumulatorV2",
	Domain:  microsoft,
	Doc:     "accumulation_buffer + value, or value alone if overwrite_flag is true",
	In:      "accumulation_buffer, value, overwrite_flag?",
	Out:     "updated_flag, accumulation_buffer_out?",
	Samples: []string{"f32[2,3], f16[2,3], bool[1]", "f32[2,3], f32[2,3]"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		sum := accumulated(b, n)
		if over := n.In(2); over != nil {
			value := b.Op("Cast", graph.A{"to": int64(sum.Type)}, n.Inputs[1])
			sum = b.Op("Where", nil, oneTruth(b, n, over), value, sum)
		}
		done := graph.NewTensor(graph.Bool, 1)
		done.SetInt(0, 1)
		updated := b.Op("ConstantOfShape", graph.A{"value": done}, b.Ints(graph.Num(1)))
		return []*graph.Value{updated, sum}[:len(n.Outputs)]
	},
})

// accumulated is input 0 + input 1 in the type of input 0.
func accumulated(b *graph.Builder, n *graph.Node) *graph.Value {
	old, value := n.Inputs[0], n.Inputs[1]
	wantType(n, 0, isFloat, "floats")
	wantType(n, 1, isFloat, "floats")
	sameDims(n, value.Shape, old.Shape)
	return b.Op("Add", nil, old, b.Op("Cast", graph.A{"to": int64(old.Type)}, value))
}

// oneTruth reshapes a flag to a scalar, so that broadcasting it does not add dims.
func oneTruth(b *graph.Builder, n *graph.Node, flag *graph.Value) *graph.Value {
	if flag.Type != graph.Bool || !flag.Shape.Elems().Is(1) {
		n.Fail("the flag is %s%s; one bool expected", flag.Type, flag.Shape)
	}
	return reshape(b, flag, graph.Shape{})
}
