package lower

import (
	"memopt/internal/graph"
)

// Pick selects a lowering by a key of the node.
func Pick[K comparable](forms map[K]func(*graph.Lowering), key func(l *graph.Lowering) K) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		f := forms[key(l)]
		if f == nil {
			l.Refuse("there is no kernel for %v", key(l))
			return
		}
		f(l)
	}
}

// Numberwise is an expression that floats and integers share.
func Numberwise(expr string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Float32, graph.Int64, graph.Int32} {
		forms[t] = PointwiseOf(expr, nil, t, t, t, t)
	}
	return ByType(forms)
}

// Integers is an expression of integers alone.
func Integers(expr string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Int64, graph.Int32} {
		forms[t] = PointwiseOf(expr, nil, t, t, t, t)
	}
	return ByType(forms)
}

// Many folds any number of inputs: the first two or three in one dispatch, then one more
// in each. The output may share memory with input 0. ints are the expressions for integers,
// if these are supported.
func Many(two, three string, ints ...string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){graph.Float32: manyOf(graph.Float32, two, three)}
	if ints != nil {
		for _, t := range []graph.DType{graph.Int64, graph.Int32} {
			forms[t] = manyOf(t, ints[0], ints[1])
		}
	}
	return ByType(forms)
}

func manyOf(t graph.DType, two, three string) func(*graph.Lowering) {
	form := FormOf(t, t, t, t)
	form.Exprs = append(form.Exprs, "a", two, three)
	return func(l *graph.Lowering) {
		switch n := len(l.In); n {
		case 1:
			form.Lower(l, "a", 0, []int{0})
		case 2:
			form.Lower(l, two, 0, []int{0, 1})
		default:
			form.Lower(l, three, 0, []int{0, 1, 2})
			for k := 3; k < n && l.Refused == ""; k++ {
				form.Append(l, two, l.Out[0], []*graph.Operand{l.Out[0], l.In[k]}, []graph.Buffer{Writes(0), Rereads(0), Reads(k)})
			}
		}
	}
}
