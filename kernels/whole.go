package kernels

import (
	"fmt"
	"math"

	"memopt/memopt/graph"
)

// What operators say of the numbers of whole values: see graph.Whole. Integers
// that leave their type wrap round, and floats lose digits, so nothing is said of
// numbers that a type does not hold.

type wholeOf = func(v *graph.Value) (graph.Whole, bool)

type wholeRule = func(n *graph.Node, output int, of wholeOf) (graph.Whole, bool)

// held is w, if the type of an output holds all of it.
func held(n *graph.Node, output int, w graph.Whole) (graph.Whole, bool) {
	v := n.Output(output)
	if v == nil {
		return w, false
	}
	least, most, ok := wholes(v.Type)
	return w, ok && least <= w.Lo && w.Hi <= most
}

// wholes is the whole numbers that a type has, all of those in between with them.
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

// sameNumbers: the output's elements are some of those inputs', or of all.
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

// wholeArithmetic is an operation on two inputs: the least and the greatest of
// its results are results of ends.
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

// far is what no end of an interval is worth more than: sums of such numbers, and
// products of small ones, stay in int64.
const far = 1 << 31

func bounded(x, y int64) bool { return -far <= x && x <= far && -far <= y && y <= far }

func wholeSum(x, y int64) (int64, bool)        { return x + y, bounded(x, y) }
func wholeDifference(x, y int64) (int64, bool) { return x - y, bounded(x, y) }

// wholeProduct says nothing of negative factors: as floats they make negative
// zeros.
func wholeProduct(x, y int64) (int64, bool) { return x * y, bounded(x, y) && x >= 0 && y >= 0 }

// wholeRemainder is that of integers by numbers above zero.
func wholeRemainder(n *graph.Node, output int, of wholeOf) (w graph.Whole, known bool) {
	by, ok := of(n.Inputs[1])
	if !ok || by.Lo <= 0 || n.Int("fmod") != 0 || !n.Inputs[0].Type.IsInt() {
		return w, false
	}
	return held(n, output, graph.Whole{Hi: by.Hi - 1, Why: fmt.Sprintf("remainders by at most %d", by.Hi)})
}

// wholeRange needs to know how many numbers there are.
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

// wholePlaces: an output is places along the axis of the input.
func wholePlaces(output int) wholeRule {
	return func(n *graph.Node, out int, _ wholeOf) (w graph.Whole, known bool) {
		size, ok := n.Inputs[0].Shape[axisOf(n, n.Int("axis"), n.Inputs[0].Rank())].Const()
		return graph.Whole{Hi: max(size, 1) - 1, Why: fmt.Sprintf("places along a dim of %d", size)}, ok && out == output
	}
}

// indexInto: an input is indices into so many rows, from the end if they are negative.
func indexInto(input int, rows func(n *graph.Node) graph.Dim) func(n *graph.Node, i int) (graph.Whole, bool) {
	return func(n *graph.Node, i int) (w graph.Whole, known bool) {
		size, ok := rows(n).Const()
		if i != input || !ok || size == 0 {
			return w, false
		}
		return graph.Whole{Lo: -size, Hi: size - 1, Why: fmt.Sprintf("node %q picks from %d rows by them", n.Name, size)}, true
	}
}

// Beyond says which nodes pick by numbers that count on beyond what they pick
// from: positions past the end of a table, say. Such a step can be planned, but
// not run.
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
				out = append(out, fmt.Sprintf("node %q picks row %d, and there are 0 to %d: the step can be planned, but not run", n.Name, last, rows.Hi))
			}
		}
	}
	return out
}

// lastCounted is the last of numbers that count up, if a value is those.
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
