package kernels

import "memopt/internal/graph"

// constants makes a tensor of each attribute of Constant.
var constants = []struct {
	attr   string
	tensor func(n *graph.Node) *graph.Tensor
}{
	{"value", func(n *graph.Node) *graph.Tensor { return n.Attr("value").(*graph.Tensor) }},
	{"value_float", func(n *graph.Node) *graph.Tensor {
		return graph.TensorOf(graph.Float32, []float32{float32(n.Float("value_float"))})
	}},
	{"value_floats", func(n *graph.Node) *graph.Tensor {
		list := n.Floats("value_floats")
		x := graph.NewTensor(graph.Float32, len(list))
		for i, v := range list {
			x.SetFloat(i, v)
		}
		return x
	}},
	{"value_int", func(n *graph.Node) *graph.Tensor {
		return graph.TensorOf(graph.Int64, []int64{int64(n.Int("value_int"))})
	}},
	{"value_ints", func(n *graph.Node) *graph.Tensor {
		list := n.Ints("value_ints")
		return graph.TensorOf(graph.Int64, list, len(list))
	}},
}

var _ = define(graph.Op{
	Name:  "Constant",
	Doc:   "numbers written in the model",
	Out:   "output",
	Attrs: "value tensor, value_float float, value_floats floats, value_int int, value_ints ints",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		if len(n.Attrs) != 1 {
			n.Fail("%d attributes are set; one expected", len(n.Attrs))
		}
		for _, k := range constants {
			if n.Has(k.attr) {
				v, err := b.Const("", k.tensor(n))
				if err != nil {
					n.Fail("%v", err)
				}
				return []*graph.Value{v}
			}
		}
		panic("kernels: Constant declares an attribute that constants lacks")
	},
})
