package kernels

import (
	"fmt"
	"math"

	"memopt/internal/graph"
)

// Integer ranges of values: see graph.Whole. Integers wrap around on overflow and floats round,
// so a range is unknown if the type does not represent all of it exactly.

type wholeOf = func(v *graph.Value) (graph.Whole, bool)

type wholeRule = func(n *graph.Node, output int, of wholeOf) (graph.Whole, bool)

// held is w, if the type of an output represents all of it.
func held(n *graph.Node, output int, w graph.Whole) (graph.Whole, bool) {
	v := n.Output(output)
	if v == nil {
		return w, false
	}
	least, most, ok := wholes(v.Type)
	return w, ok && least <= w.Lo && w.Hi <= most
}

// wholes is the range in which a type represents every integer.
func wholes(t graph.DType) (least, most int64, ok bool) {
	switch {
	case t.IsFloat():
		most = 1 << digits[t]
		return -most, most, true
	case t.IsInt() || t == graph.Bool:
		least, most = intRange(t)
		return least, most, true
	}
	return 0, 0, false
}

// sameNumbers is the rule of operators whose output elements are elements of the listed inputs,
// or of any input if none are listed.
func sameNumbers(inputs ...int) wholeRule {
	return func(n *graph.Node, output int, of wholeOf) (all graph.Whole, known bool) {
		from := n.Inputs
		if len(inputs) > 0 {
			from = nil
			for _, i := range inputs {
				from = append(from, n.In(i))
			}
		}
		for i, v := range from {
			if v == nil {
				return all, false
			}
			w, ok := of(v)
			if !ok {
				return all, false
			}
			if i == 0 {
				all = w
				continue
			}
			if w.Why != all.Why && v.Kind != graph.Const {
				all.Why += " and " + w.Why
			}
			all.Lo, all.Hi = min(all.Lo, w.Lo), max(all.Hi, w.Hi)
		}
		return held(n, output, all)
	}
}

// wholeArithmetic is interval arithmetic on two inputs, for operations whose extremes are at
// ends of the intervals.
func wholeArithmetic(f func(a, b int64) (int64, bool)) wholeRule {
	return func(n *graph.Node, output int, of wholeOf) (w graph.Whole, known bool) {
		a, ok := of(n.Inputs[0])
		b, also := of(n.Inputs[1])
		if !ok || !also {
			return w, false
		}
		w = graph.Whole{Lo: math.MaxInt64, Hi: math.MinInt64, Why: a.Why}
		if n.Inputs[0].Kind == graph.Const {
			w.Why = b.Why
		} else if n.Inputs[1].Kind != graph.Const && a.Why != b.Why {
			w.Why += " and " + b.Why
		}
		for _, x := range []int64{a.Lo, a.Hi} {
			for _, y := range []int64{b.Lo, b.Hi} {
				z, ok := f(x, y)
				if !ok {
					return w, false
				}
				w.Lo, w.Hi = min(w.Lo, z), max(w.Hi, z)
			}
		}
		return held(n, output, w)
	}
}

// far bounds the ends of intervals, so that their sums and products do not overflow int64.
const far = 1 << 31

func bounded(x, y int64) bool { return -far <= x && x <= far && -far <= y && y <= far }

func wholeSum(x, y int64) (int64, bool)        { return x + y, bounded(x, y) }
func wholeDifference(x, y int64) (int64, bool) { return x - y, bounded(x, y) }

// wholeProduct does not support negative factors: floats would give negative zeros.
func wholeProduct(x, y int64) (int64, bool) { return x * y, bounded(x, y) && x >= 0 && y >= 0 }

// wholeRemainder is the range of Mod of integers by positive divisors.
func wholeRemainder(n *graph.Node, output int, of wholeOf) (w graph.Whole, known bool) {
	by, ok := of(n.Inputs[1])
	if !ok || by.Lo <= 0 || n.Int("fmod") != 0 || !n.Inputs[0].Type.IsInt() {
		return w, false
	}
	return held(n, output, graph.Whole{Hi: by.Hi - 1, Why: fmt.Sprintf("remainders by at most %d", by.Hi)})
}

// wholeRange is the range of Range, if its size is constant.
func wholeRange(n *graph.Node, output int, of wholeOf) (w graph.Whole, known bool) {
	start, ok := of(n.Inputs[0])
	step, also := of(n.Inputs[2])
	size, sized := n.Outputs[0].Shape[0].Const()
	if !ok || !also || !sized || size == 0 || start.Lo != start.Hi || step.Lo != step.Hi || !bounded(size, step.Lo) || !bounded(start.Lo, 0) {
		return w, false
	}
	last := start.Lo + (size-1)*step.Lo
	return held(n, output, graph.Whole{Lo: min(start.Lo, last), Hi: max(start.Lo, last), Why: fmt.Sprintf("%d numbers from %d on", size, start.Lo)})
}

// wholePlaces is the rule of an output that has indices along the axis of the input.
func wholePlaces(output int) wholeRule {
	return func(n *graph.Node, out int, _ wholeOf) (w graph.Whole, known bool) {
		size, ok := n.Inputs[0].Shape[axisOf(n, n.Int("axis"), n.Inputs[0].Rank())].Const()
		return graph.Whole{Hi: max(size, 1) - 1, Why: fmt.Sprintf("places along a dim of %d", size)}, ok && out == output
	}
}

// indexInto is the range that an input of indices must be in; negative indices count from the end.
func indexInto(input int, rows func(n *graph.Node) graph.Dim) func(n *graph.Node, i int) (graph.Whole, bool) {
	return func(n *graph.Node, i int) (w graph.Whole, known bool) {
		size, ok := rows(n).Const()
		if i != input || !ok || size == 0 {
			return w, false
		}
		return graph.Whole{Lo: -size, Hi: size - 1, Why: fmt.Sprintf("node %q picks from %d rows by them", n.Name, size)}, true
	}
}

// Beyond lists nodes whose indices are a Range that exceeds the data, such as positions past the
// end of an embedding table. Such a step can be planned, but not run.
func Beyond(g *graph.Graph, dims map[string]int64) (out []string) {
	b, err := graph.Bind(dims)
	if err != nil {
		return nil
	}
	for _, n := range g.Nodes {
		if n.Op.Index == nil || n.Phase != graph.Forward {
			continue
		}
		for i, v := range n.Inputs {
			if v == nil {
				continue
			}
			rows, ok := n.Op.Index(n, i)
			last, counts := lastCounted(v, b)
			if ok && counts && last > rows.Hi {
				out = append(out, fmt.Sprintf("node %q reads row %d of rows 0 to %d: the step can be planned, but not run", n.Name, last, rows.Hi))
			}
		}
	}
	return out
}

// lastCounted is the last element of a value that is a Range, or a view of one.
func lastCounted(v *graph.Value, b *graph.Binding) (last int64, ok bool) {
	for v.Def != nil && v.Def.Op.View {
		v = v.Def.Inputs[0]
	}
	if v.Def == nil || v.Def.Op != counting || v.Def.Inputs[0].Ints == nil || v.Def.Inputs[2].Ints == nil {
		return 0, false
	}
	size, err := b.Eval(v.Shape[0])
	start, fixed := v.Def.Inputs[0].Ints[0].Const()
	step, also := v.Def.Inputs[2].Ints[0].Const()
	if err != nil || !fixed || !also || step < 1 || size < 1 || !bounded(size, step) || !bounded(start, 0) {
		return 0, false
	}
	return start + (size-1)*step, true
}
