package onnx

import (
	"memopt/internal/graph"
)

// testLibrary is a few operators, enough to test reading and writing without the
// real ones: their forms are the ONNX operators' of the same names.
var testLibrary = func() *graph.Library {
	lib := &graph.Library{}
	same := func(n *graph.Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape) }
	fold := func(name string, f func(a, b graph.Dim) graph.Dim) {
		lib.Define(graph.Op{Name: name, In: "A, B", Out: "C", Infer: func(n *graph.Node) {
			same(n)
			a, b := n.Inputs[0], n.Inputs[1]
			if len(b.Shape) > len(a.Shape) {
				n.Set(0, b.Type, b.Shape)
			} else if len(a.Shape) == len(b.Shape) {
				for i := range a.Shape {
					n.Same(a.Shape[i], b.Shape[i], "shapes cannot be added")
				}
			}
			if a.Ints == nil || b.Ints == nil || len(a.Ints) != len(b.Ints) {
				return
			}
			ds := make([]graph.Dim, len(a.Ints))
			for i := range ds {
				ds[i] = f(a.Ints[i], b.Ints[i])
			}
			n.SetInts(0, ds)
		}})
	}
	fold("Add", graph.Dim.Add)
	fold("Sub", graph.Dim.Sub)
	fold("Mul", graph.Dim.Mul)
	fold("Div", graph.Dim.FloorDiv)
	fold("Mod", graph.Dim.Mod)
	fold("Max", graph.Dim.Max)
	fold("Min", graph.Dim.Min)
	lib.Define(graph.Op{Name: "Relu", In: "X", Out: "Y", Infer: same})
	lib.Define(graph.Op{Name: "Scale", In: "X", Out: "Y", Attrs: "by float=1, note string, per floats, tags strings", Infer: same})
	lib.Define(graph.Op{Name: "Yield", In: "X...", Out: "Y...?", Attrs: "operator string", Border: true, Infer: func(n *graph.Node) {
		for i := range n.Outputs {
			n.Set(i, n.Inputs[i].Type, n.Inputs[i].Shape)
		}
	}})
	lib.Define(graph.Op{Name: "Total", In: "X", Out: "Y", Infer: func(n *graph.Node) { n.Set(0, n.Inputs[0].Type, graph.Shape{}) }})
	lib.Define(graph.Op{Name: "Late", Since: 22, In: "X", Out: "Y", Infer: same})
	lib.Define(graph.Op{Name: "Pair", In: "X, Y?", Out: "A, B?, C?", Infer: func(n *graph.Node) {
		for i := range n.Outputs {
			n.Set(i, n.Inputs[0].Type, n.Inputs[0].Shape)
		}
	}})
	lib.Define(graph.Op{Name: "Decay", Domain: "memopt", In: "P, G", Out: "Q", Attrs: "by float", Infer: same})
	lib.Define(graph.Op{Name: "Alias", In: "X", Out: "Y",
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value { return n.Inputs[:1] }})
	lib.Define(graph.Op{Name: "Twice", In: "X", Out: "Y",
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			return []*graph.Value{b.Op("Relu", nil, b.Op("Relu", nil, n.Inputs[0]))}
		}})
	lib.Define(graph.Op{Name: "Constant", Out: "Y", Attrs: "value tensor, value_float float, value_ints ints",
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			var x *graph.Tensor
			switch v := n.Attr("value").(type) {
			case *graph.Tensor:
				x = v
			default:
				if ints := n.Ints("value_ints"); ints != nil {
					x = graph.TensorOf(graph.Int64, ints, len(ints))
				} else {
					x = graph.TensorOf(graph.Float32, []float32{float32(n.Float("value_float"))})
				}
			}
			v, err := b.Const("", x)
			if err != nil {
				n.Fail("%v", err)
			}
			return []*graph.Value{v}
		}})
	lib.Define(graph.Op{Name: "Shape", In: "X", Out: "S", Attrs: "start int=0, end int", Infer: func(n *graph.Node) {
		s := n.Inputs[0].Shape
		end := len(s)
		if n.Has("end") {
			end = min(end, n.Int("end"))
		}
		start := min(n.Int("start"), end)
		if start < 0 {
			n.Fail("start %d", start)
		}
		n.Set(0, graph.Int64, graph.Dims(int64(end-start)))
		n.SetInts(0, s[start:end])
	}})
	lib.Define(graph.Op{Name: "Concat", In: "X...", Out: "Y", Attrs: "axis int", Infer: func(n *graph.Node) {
		total := graph.Num(0)
		ints := []graph.Dim{}
		for _, v := range n.Inputs {
			if v == nil || v.Rank() != 1 {
				n.Fail("lists only")
			}
			total = total.Add(v.Shape[0])
			if v.Ints == nil || ints == nil {
				ints = nil
			} else {
				ints = append(ints, v.Ints...)
			}
		}
		n.Set(0, n.Inputs[0].Type, graph.Shape{total})
		if ints != nil {
			n.SetInts(0, ints)
		}
	}})
	lib.Define(graph.Op{Name: "Reshape", In: "X, S", Out: "Y", Attrs: "allowzero int=0", Infer: func(n *graph.Node) {
		to := n.Inputs[1].Ints
		if to == nil {
			n.Fail("the shape is not known ahead")
		}
		n.Set(0, n.Inputs[0].Type, graph.Shape(to))
		if ints := n.Inputs[0].Ints; ints != nil {
			n.SetInts(0, ints)
		}
	}})
	lib.Define(graph.Op{Name: "Cast", In: "X", Out: "Y", Attrs: "to int", Infer: func(n *graph.Node) {
		if to := n.Int("to"); to < 1 || to > 16 {
			n.Fail("type %d", to)
		}
		n.Set(0, graph.DType(n.Int("to")), n.Inputs[0].Shape)
		if ints := n.Inputs[0].Ints; ints != nil && !n.Outputs[0].Type.IsFloat() {
			n.SetInts(0, ints)
		}
	}})
	return lib
}()
