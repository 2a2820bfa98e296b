package kernels

import "memopt/memopt/graph"

// Operators whose expression depends on the node.

// pick declares several forms at once and picks by node; "" is none.
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

func approximation(l *graph.Lowering) string { return l.Node.Str("approximate") }

var (
	lowerGelu = pick(map[string]func(*graph.Lowering){
		"none": pointwise("a * normal(a)"), "tanh": pointwise("tanhGelu(a)"),
	}, approximation)
	lowerGeluGrad = pick(map[string]func(*graph.Lowering){
		"none": pointwise("a * geluSlope(b)"), "tanh": pointwise("a * tanhGeluSlope(b)"),
	}, approximation)
	lowerFastGelu = pick(map[bool]func(*graph.Lowering){
		false: pointwise("tanhGelu(a)"), true: pointwise("tanhGelu(a + b)"),
	}, func(l *graph.Lowering) bool { return loweredIn(l, 1) != nil })

	lowerScale = pick(map[bool]func(*graph.Lowering){
		false: pointwise("a * b"), true: pointwise("a / b"),
	}, func(l *graph.Lowering) bool { return l.Node.Int("scale_down") != 0 })

	lowerPow = pick(map[graph.DType]func(*graph.Lowering){
		graph.Float32: pointwise("powOf(a, b)"),
		graph.Int64:   pointwiseOf("powOf(a, float(b))", nil, graph.Float32, graph.Float32, graph.Int64, graph.Int64),
	}, func(l *graph.Lowering) graph.DType { return l.In[1].Type })
	lowerPowGrad = pick(map[graph.DType]func(*graph.Lowering){
		graph.Float32: pointwise("choose(eq(c, T(0)), T(0), a * c * powOf(b, c - T(1)))"),
		graph.Int64:   pointwiseOf("c == 0 ? 0.0 : a * float(c) * powOf(b, float(c) - 1.0)", nil, graph.Float32, graph.Float32, graph.Float32, graph.Int64),
	}, func(l *graph.Lowering) graph.DType { return l.In[2].Type })

	lowerWhere = pick(map[graph.DType]func(*graph.Lowering){
		graph.Float32: pointwiseOf("a != 0 ? b : c", nil, graph.Float32, graph.Bool, graph.Float32, graph.Float32),
		graph.Int64:   pointwiseOf("a != 0 ? b : c", nil, graph.Int64, graph.Bool, graph.Int64, graph.Int64),
		graph.Bool:    pointwiseOf("a != 0 ? b : c", nil, graph.Bool, graph.Bool, graph.Bool, graph.Bool),
	}, func(l *graph.Lowering) graph.DType { return l.In[1].Type })
)

// lowerCast by the types from and to.
var lowerCast = func() func(*graph.Lowering) {
	forms := map[[2]graph.DType]func(*graph.Lowering){}
	for from, to := range map[[2]graph.DType]string{
		{graph.Float32, graph.Float32}: "a",
		{graph.Int64, graph.Float32}:   "float(a)",
		{graph.Int32, graph.Float32}:   "float(a)",
		{graph.Bool, graph.Float32}:    "float(a)",
		{graph.Float32, graph.Bool}:    "uint(a != 0)",
		{graph.Int64, graph.Bool}:      "uint(a != 0)",
		{graph.Bool, graph.Int64}:      "int64_t(a)",
		{graph.Int32, graph.Int64}:     "int64_t(a)",
	} {
		forms[from] = pointwiseOf(to, nil, from[1], from[0], from[0], from[0])
	}
	return pick(forms, func(l *graph.Lowering) [2]graph.DType { return [2]graph.DType{l.In[0].Type, l.Out[0].Type} })
}()

// lowerComparison compares floats and integers.
func lowerComparison(k comparison) func(*graph.Lowering) {
	sign := map[[3]bool]string{
		{false, true, false}: "==", {true, false, false}: "<", {true, true, false}: "<=", {false, false, true}: ">", {false, true, true}: ">=",
	}[[3]bool{k.less, k.equal, k.greater}]
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Float32, graph.Int64, graph.Int32, graph.Bool} {
		forms[t] = pointwiseOf("uint(a "+sign+" b)", nil, graph.Bool, t, t, t)
	}
	return byType(forms)
}

// lowerLogic has a table of the four answers.
func lowerLogic(table [4]bool) func(*graph.Lowering) {
	expr := map[[4]bool]string{
		{false, false, false, true}: "a & b", {false, true, true, true}: "a | b", {false, true, true, false}: "a ^ b",
	}[table]
	return pointwiseOf(expr, nil, graph.Bool, graph.Bool, graph.Bool, graph.Bool)
}

// lowerMany folds any number of inputs: two, or three at once, then one more
// each time. What input 0 lies in may be the output.
func lowerMany(two, three string) func(*graph.Lowering) {
	f := graph.Float32
	form := formOf(f, f, f, f)
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

// lowerClip has either bound, both or none.
var lowerClip = func() func(*graph.Lowering) {
	f := graph.Float32
	form := formOf(f, f, f, f)
	const both, low, high = "least(c, greatest(b, a))", "greatest(b, a)", "least(b, a)"
	form.exprs = append(form.exprs, "a", both, low, high)
	return func(l *graph.Lowering) {
		switch lo, hi := loweredIn(l, 1) != nil, loweredIn(l, 2) != nil; {
		case lo && hi:
			form.lower(l, both, 0, []int{0, 1, 2})
		case lo:
			form.lower(l, low, 0, []int{0, 1})
		case hi:
			form.lower(l, high, 0, []int{0, 2})
		default:
			form.lower(l, "a", 0, []int{0})
		}
	}
}()
