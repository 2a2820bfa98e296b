package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// sameShape gives output 0 the type and shape of input 0.
func sameShape(n *graph.Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape) }

// sameTypes requires all inputs to have one element type.
func sameTypes(n *graph.Node) {
	for i, v := range n.Inputs {
		if v != nil && v.Type != n.Inputs[0].Type {
			n.Fail("input %d is %s, but input 0 is %s", i, v.Type, n.Inputs[0].Type)
		}
	}
}

// wantType requires the type of input i, if present, to satisfy ok; what names such types.
func wantType(n *graph.Node, i int, ok func(graph.DType) bool, what string) {
	if v := n.In(i); v != nil && !ok(v.Type) {
		n.Fail("input %d is %s; %s expected", i, v.Type, what)
	}
}

// broadcast is ONNX's multidirectional broadcasting. Two dims of which neither is known to be
// 1 are assumed equal; if that is not proven, the graph records it as a condition.
func broadcast(n *graph.Node, shapes ...graph.Shape) graph.Shape {
	var out graph.Shape
	for _, s := range shapes {
		if len(s) > len(out) {
			out = append(slices.Repeat(graph.Dims(1), len(s)-len(out)), out...)
		}
		for i, d := range s {
			at := &out[len(out)-len(s)+i]
			switch {
			case d.Is(1) || d.Equal(*at):
			case at.Is(1):
				*at = d
			default:
				n.Same(*at, d, "shapes cannot be broadcast")
				if _, isNum := d.Const(); isNum {
					*at = d
				}
			}
		}
	}
	return slices.Clip(out)
}

// inputShapes lists the shapes of the inputs that are present.
func inputShapes(n *graph.Node) []graph.Shape {
	var out []graph.Shape
	for _, v := range n.Inputs {
		if v != nil {
			out = append(out, v.Shape)
		}
	}
	return out
}

// axisOf normalizes an axis in [−rank, rank) to [0, rank).
func axisOf(n *graph.Node, axis, rank int) int {
	if axis < -rank || axis >= rank {
		n.Fail("axis %d is outside [%d, %d)", axis, -rank, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis
}

// axesOf normalizes and sorts a list of axes; a repeated axis is an error.
func axesOf(n *graph.Node, axes []int64, rank int) []int {
	out := make([]int, len(axes))
	for i, a := range axes {
		out[i] = axisOf(n, int(a), rank)
	}
	slices.Sort(out)
	for i := 1; i < len(out); i++ {
		if out[i] == out[i-1] {
			n.Fail("axis %d is given twice", out[i])
		}
	}
	return out
}

// knownInts returns the contents of an input that must be constant, such as axes, pads or
// split sizes. knownDims allows symbolic dims.
func knownInts(n *graph.Node, i int, what string) []int64 {
	out := make([]int64, 0, 8)
	for _, d := range knownDims(n, i, what) {
		x, ok := d.Const()
		if !ok {
			n.Fail("%s must be constant, not %s", what, d)
		}
		out = append(out, x)
	}
	return out
}

// knownDims returns the contents of an input as dims.
func knownDims(n *graph.Node, i int, what string) []graph.Dim {
	v := n.In(i)
	if v.Ints == nil {
		n.Fail("%s (%q) is not known before the step runs", what, v.Name)
	}
	return v.Ints
}

// perElement is the Flops of an elementwise operator.
func perElement(flops int64) func(*graph.Node) graph.Dim {
	return func(n *graph.Node) graph.Dim {
		return largest(n).Mul(graph.Num(flops))
	}
}

// largest is the number of elements of output 0, or of input 0 if that has a higher rank
// (reductions).
func largest(n *graph.Node) graph.Dim {
	out := n.Outputs[0]
	if out == nil || len(n.Inputs) > 0 && n.Inputs[0] != nil && n.Inputs[0].Rank() > out.Rank() {
		return n.Inputs[0].Shape.Elems()
	}
	return out.Shape.Elems()
}

// shapeOf is a value's shape as a constant of dims.
func shapeOf(b *graph.Builder, v *graph.Value) *graph.Value { return b.Ints(v.Shape...) }

// reshape views v under another shape; no node if it has that shape already.
func reshape(b *graph.Builder, v *graph.Value, s graph.Shape) *graph.Value {
	if v.Shape.Equal(s) {
		return v
	}
	return b.Op("Reshape", graph.A{"allowzero": 1}, v, b.Ints(s...))
}

// sumTo is the gradient of broadcasting shape s: it sums dy over the broadcast dims.
func sumTo(b *graph.Builder, dy *graph.Value, s graph.Shape) *graph.Value {
	var axes []graph.Dim
	lead := dy.Rank() - len(s)
	for i, d := range dy.Shape {
		if i < lead || s[i-lead].Is(1) && !d.Is(1) {
			axes = append(axes, graph.Num(int64(i)))
		}
	}
	if len(axes) > 0 {
		dy = b.Op("ReduceSum", graph.A{"keepdims": 1}, dy, b.Ints(axes...))
	}
	return reshape(b, dy, s)
}

// zerosLike is a tensor of zeros, for outputs without a gradient.
func zerosLike(b *graph.Builder, v *graph.Value) *graph.Value {
	return b.Op("ConstantOfShape", graph.A{"value": graph.NewTensor(v.Type, 1)}, shapeOf(b, v))
}

// num is a scalar of v's type.
func num(b *graph.Builder, v *graph.Value, x float64) *graph.Value { return b.Num(v.Type, x) }

func isFloat(t graph.DType) bool  { return t.IsFloat() }
func isNumber(t graph.DType) bool { return t != graph.Bool && !t.IsFloat8() }
func isBool(t graph.DType) bool   { return t == graph.Bool }
func isIndex(t graph.DType) bool  { return t == graph.Int64 || t == graph.Int32 }

// floatMap infers y = f(x) on floats.
func floatMap(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	sameShape(n)
}
