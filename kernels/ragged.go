package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// Ragged values have a number of rows that is only known when the step runs, such as the bags
// of an EmbeddingBag in a loop. They exist only while a file is read: a Slice with unknown
// bounds makes one, operators that treat rows independently are applied to all rows of the
// underlying value instead, and a reduction over the rows becomes SegmentReduce.

// ragged is the ragged value of rows [start, end) of a value.
func ragged(of, start, end *graph.Value) *graph.Value {
	return &graph.Value{Kind: graph.Ragged, Name: of.Name, Type: of.Type, Shape: of.Shape, Seq: []*graph.Value{of, start, end}}
}

func isRagged(v *graph.Value) bool { return v != nil && v.Kind == graph.Ragged }

// raggedSlice is a Slice along dim 0 whose start or end is only known when the step runs.
func raggedSlice(b *graph.Builder, n *graph.Node) []*graph.Value {
	x, start, end := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	one := graph.Dims(1)
	known := func(i int, want int64) bool {
		v := n.In(i)
		return v == nil || len(v.Ints) == 1 && v.Ints[0].Is(want)
	}
	if isRagged(x) || start.Ints != nil && end.Ints != nil || !start.Shape.Equal(one) || !end.Shape.Equal(one) ||
		start.Type != graph.Int64 || end.Type != graph.Int64 || !known(3, 0) || !known(4, 1) || x.Rank() == 0 {
		return nil
	}
	return []*graph.Value{ragged(x, start, end)}
}

// allRows applies an operator that treats rows independently to all rows of the values
// underlying its ragged inputs; the result is ragged with the same bounds.
func allRows(b *graph.Builder, n *graph.Node, first *graph.Value) []*graph.Value {
	in := slices.Clone(n.Inputs)
	for i, v := range in {
		if !isRagged(v) {
			continue
		}
		if !sameNumber(v.Seq[1], first.Seq[1]) || !sameNumber(v.Seq[2], first.Seq[2]) {
			n.Fail("inputs have different numbers of rows, which are only known when the step runs")
		}
		in[i] = v.Seq[0]
	}
	attrs := graph.A{}
	for _, a := range n.Attrs {
		attrs[a.Name] = a.Value
	}
	return []*graph.Value{ragged(b.Once(n.Op, attrs, in...), first.Seq[1], first.Seq[2])}
}

// sameNumber reports whether two scalars are known to be equal.
func sameNumber(a, b *graph.Value) bool {
	return a == b || len(a.Ints) == 1 && len(b.Ints) == 1 && a.Ints[0].Equal(b.Ints[0])
}

// raggedPointwise is the ragged rule of pointwise operators. Inputs that are not ragged must
// broadcast along the rows.
func raggedPointwise(b *graph.Builder, n *graph.Node) []*graph.Value {
	var first *graph.Value
	for _, v := range n.Inputs {
		if isRagged(v) && (first == nil || v.Rank() > first.Rank()) {
			first = v
		}
	}
	if first == nil {
		return nil
	}
	for i, v := range n.Inputs {
		switch {
		case v == nil || isRagged(v) && v.Rank() == first.Rank():
		case isRagged(v), v.Rank() > first.Rank(), v.Rank() == first.Rank() && !v.Shape[0].Is(1):
			n.Fail("input %d does not broadcast along rows whose number is only known when the step runs", i)
		}
	}
	return allRows(b, n, first)
}

// raggedAxes is the ragged rule of operators whose axes are input 1: axis 0 is not supported.
func raggedAxes(b *graph.Builder, n *graph.Node, more int) []*graph.Value {
	x := n.Inputs[0]
	if !isRagged(x) {
		return nil
	}
	if n.In(1) == nil {
		n.Fail("axes must be given, as the number of rows is only known when the step runs")
	}
	axes := knownInts(n, 1, "axes")
	if slices.Contains(axesOf(n, axes, x.Rank()+more*len(axes)), 0) {
		n.Fail("axis 0 is not supported: the number of rows is only known when the step runs")
	}
	return allRows(b, n, x)
}

// raggedGather is the ragged rule of Gather: data or indices may be ragged.
func raggedGather(b *graph.Builder, n *graph.Node) []*graph.Value {
	x, places := n.Inputs[0], n.Inputs[1]
	axis := axisOf(n, n.Int("axis"), x.Rank())
	switch {
	case isRagged(x) && !isRagged(places) && axis > 0:
		return allRows(b, n, x)
	case isRagged(places) && !isRagged(x) && axis == 0:
		return allRows(b, n, places)
	}
	return nil
}

// raggedReduce is the ragged rule of a reduction: over axis 0 it becomes SegmentReduce with
// the given mode.
func raggedReduce(mode string) func(b *graph.Builder, n *graph.Node) []*graph.Value {
	return func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x := n.Inputs[0]
		if !isRagged(x) {
			return nil
		}
		axes := reducedAxes(n)
		rest := slices.DeleteFunc(slices.Clone(axes), func(a int) bool { return a == 0 })
		all := x.Seq[0]
		if len(rest) > 0 {
			var ds []graph.Dim
			for _, a := range rest {
				ds = append(ds, graph.Num(int64(a)))
			}
			all = b.Once(n.Op, graph.A{"keepdims": 1}, all, b.Ints(ds...))
		}
		y := ragged(all, x.Seq[1], x.Seq[2])
		if len(rest) < len(axes) {
			if mode == "" {
				n.Fail("this reduction over rows is not supported: their number is only known when the step runs")
			}
			y = b.Op("memopt.SegmentReduce", graph.A{"mode": mode}, all, x.Seq[1], x.Seq[2])
		}
		if n.Int("keepdims") == 0 {
			var ds []graph.Dim
			for _, a := range axes {
				ds = append(ds, graph.Num(int64(a)))
			}
			y = b.Op("Squeeze", nil, y, b.Ints(ds...))
		}
		return []*graph.Value{y}
	}
}
