package kernels

import (
	"memopt/internal/graph"
)

// pick selects a lowering by a key of the node.
func pick[K comparable](forms map[K]func(*graph.Lowering), key func(l *graph.Lowering) K) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		f := forms[key(l)]
		if f == nil {
			l.Refuse("there is no kernel for %v", key(l))
			return
		}
		f(l)
	}
}

// numberwise is an expression that floats and integers share.
func numberwise(expr string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Float32, graph.Int64, graph.Int32} {
		forms[t] = pointwiseOf(expr, nil, t, t, t, t)
	}
	return byType(forms)
}

func integers(expr string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Int64, graph.Int32} {
		forms[t] = pointwiseOf(expr, nil, t, t, t, t)
	}
	return byType(forms)
}

// lowerMany folds any number of inputs: the first two or three in one dispatch, then one more
// in each. The output may share memory with input 0. ints are the expressions for integers,
// if these are supported.
func lowerMany(two, three string, ints ...string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){graph.Float32: manyOf(graph.Float32, two, three)}
	if ints != nil {
		for _, t := range []graph.DType{graph.Int64, graph.Int32} {
			forms[t] = manyOf(t, ints[0], ints[1])
		}
	}
	return byType(forms)
}

func manyOf(t graph.DType, two, three string) func(*graph.Lowering) {
	form := formOf(t, t, t, t)
	form.exprs = append(form.exprs, "a", two, three)
	return func(l *graph.Lowering) {
		switch n := len(l.In); n {
		case 1:
			form.lower(l, "a", 0, []int{0})
		case 2:
			form.lower(l, two, 0, []int{0, 1})
		default:
			form.lower(l, three, 0, []int{0, 1, 2})
			for k := 3; k < n && l.Refused == ""; k++ {
				form.append(l, two, l.Out[0], []*graph.Operand{l.Out[0], l.In[k]}, []graph.Buffer{writes(0), rereads(0), reads(k)})
			}
		}
	}
}
