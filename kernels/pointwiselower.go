package kernels

import (
	"math"

	"memopt/memopt/graph"
)

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

	lowerScale = byScale(graph.Float32, pointwise("a * b"), pointwise("a / b"),
		byScale(graph.Int64, wholeScale("a * float(b)"), wholeScale("a / float(b)"), nil))

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
		graph.Int32:   pointwiseOf("a != 0 ? b : c", nil, graph.Int32, graph.Bool, graph.Int32, graph.Int32),
		graph.Bool:    pointwiseOf("a != 0 ? b : c", nil, graph.Bool, graph.Bool, graph.Bool, graph.Bool),
	}, func(l *graph.Lowering) graph.DType { return l.In[1].Type })
)

// byScale is a product with a scale of a type, or a quotient; other has other types.
func byScale(t graph.DType, up, down, other func(*graph.Lowering)) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		switch {
		case l.In[1].Type != t && other != nil:
			other(l)
		case l.Node.Int("scale_down") != 0:
			down(l)
		default:
			up(l)
		}
	}
}

func wholeScale(expr string) func(*graph.Lowering) {
	return pointwiseOf(expr, nil, graph.Float32, graph.Float32, graph.Int64, graph.Int64)
}

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
		{graph.Float32, graph.Int64}:   "isnan(a) ? int64_t(0) : a >= 9.223372e18 ? 0x7fffffffffffffffl : a <= -9.223372e18 ? -0x7fffffffffffffffl - 1l : int64_t(a)",
		{graph.Float32, graph.Int32}:   "isnan(a) ? 0 : a >= 2147483648.0 ? 0x7fffffff : a <= -2147483648.0 ? -0x7fffffff - 1 : int(a)",
		{graph.Float32, graph.Uint8}:   "isnan(a) ? 0u : uint(clamp(a, 0.0, 255.0))",
		{graph.Float32, graph.Int8}:    "isnan(a) ? 0 : int(clamp(a, -128.0, 127.0))",
		{graph.Uint8, graph.Float32}:   "float(a)",
		{graph.Int8, graph.Float32}:    "float(a)",
		{graph.Uint8, graph.Int64}:     "int64_t(a)",
		{graph.Uint8, graph.Int32}:     "int(a)",
		{graph.Int8, graph.Int32}:      "a",
		{graph.Bool, graph.Uint8}:      "a",
		{graph.Uint8, graph.Bool}:      "uint(a != 0)",
		{graph.Int32, graph.Bool}:      "uint(a != 0)",
		{graph.Int32, graph.Int32}:     "a",
		{graph.Int64, graph.Int64}:     "a",
		{graph.Int64, graph.Int32}:     "int(a)",
		{graph.Bool, graph.Bool}:       "a",
		{graph.Bool, graph.Int32}:      "int(a)",
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

// numberwise is an expression that floats and integers have alike.
func numberwise(expr string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Float32, graph.Int64, graph.Int32} {
		forms[t] = pointwiseOf(expr, nil, t, t, t, t)
	}
	return byType(forms)
}

var lowerDiv = pick(map[bool]func(*graph.Lowering){
	true: pointwise("a / b"), false: integers("b == 0 ? b : a / b"),
}, func(l *graph.Lowering) bool { return l.In[0].Type.IsFloat() })

// lowerMod is of integers: a float's quotient may be longer than a float.
var lowerMod = func() func(*graph.Lowering) {
	// Of a negative number GLSL's own is not defined.
	const cut = "(a - a / b * b)"
	return pick(map[bool]func(*graph.Lowering){
		true:  integers("b == 0 ? b : " + cut),
		false: integers("b == 0 ? b : " + cut + " != 0 && (" + cut + " < 0) != (b < 0) ? " + cut + " + b : " + cut),
	}, func(l *graph.Lowering) bool { return l.Node.Int("fmod") != 0 })
}()

func integers(expr string) func(*graph.Lowering) {
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Int64, graph.Int32} {
		forms[t] = pointwiseOf(expr, nil, t, t, t, t)
	}
	return byType(forms)
}

// lowerMany folds any number of inputs: two, or three at once, then one more
// each time. What input 0 lies in may be the output. ints are the expressions
// for integers, if they are taken.
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

// lowerMean is a sum, then parted in place.
var lowerMean = func() func(*graph.Lowering) {
	sum := lowerMany("a + b", "a + b + c")
	form := formOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	const part = "a / T(p)"
	form.exprs = append(form.exprs, part)
	return func(l *graph.Lowering) {
		if sum(l); l.Refused == "" && len(l.In) > 1 {
			form.append(l, part, l.Out[0], []*graph.Operand{l.Out[0]}, []graph.Buffer{writes(0), rereads(0)}, float64(len(l.In)))
		}
	}
}()

// lowerClipGrad has the bounds as numbers, which must be known: two are open, a
// single one is closed.
var lowerClipGrad = func() func(*graph.Lowering) {
	form := formOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	const open = "choose(le(b, T(p)), T(0), choose(ge(b, T(q)), T(0), a))"
	const closed = "choose(lt(b, T(p)), T(0), choose(gt(b, T(q)), T(0), a))"
	form.exprs = append(form.exprs, open, closed)
	return func(l *graph.Lowering) {
		bounds, given := [2]float64{math.Inf(-1), math.Inf(1)}, 0
		for i := range bounds {
			v := l.Node.In(2 + i)
			if v == nil {
				continue
			}
			x, known := oneNumber(v)
			if !known {
				l.Refuse("input %d is only known when the step runs", 2+i)
				return
			}
			bounds[i], given = x, given+1
		}
		expr := closed
		if given == 2 {
			expr = open
		}
		form.lower(l, expr, 0, []int{0, 1}, bounds[0], bounds[1])
	}
}()

// lowerClip has either bound, both or none.
var lowerClip = byType(map[graph.DType]func(*graph.Lowering){
	graph.Float32: clipOf(graph.Float32, "least(c, greatest(b, a))", "greatest(b, a)", "least(b, a)"),
	graph.Int64:   clipOf(graph.Int64, "min(c, max(b, a))", "max(b, a)", "min(b, a)"),
	graph.Int32:   clipOf(graph.Int32, "min(c, max(b, a))", "max(b, a)", "min(b, a)"),
})

func clipOf(t graph.DType, both, low, high string) func(*graph.Lowering) {
	form := formOf(t, t, t, t)
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
}

const plusTerm = "a + b"

// activationForm is for what is done to a result in place.
var (
	activationForm  = formOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	activationExprs = func() map[string]string {
		exprs := map[string]string{"Relu": "greatest(a, T(0))", "Sigmoid": "sigmoidOf(a)", "Tanh": "tanhOf(a)"}
		for _, e := range exprs {
			activationForm.exprs = append(activationForm.exprs, e)
		}
		activationForm.exprs = append(activationForm.exprs, plusTerm)
		return exprs
	}()
)

// lowerActivation is the activation of a fused operator.
func lowerActivation(l *graph.Lowering) {
	if op := fusedActivation(l.Node); op != nil && l.Refused == "" {
		activationForm.append(l, activationExprs[op.Name], l.Out[0], []*graph.Operand{l.Out[0]}, []graph.Buffer{writes(0), rereads(0)})
	}
}
