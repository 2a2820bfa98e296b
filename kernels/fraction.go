package kernels

import (
	"math"

	"memopt/internal/graph"
)

// fraction is a float as a quotient of dims: exporters compute sizes in floats and cast the
// result to an integer.
type fraction struct{ num, den graph.Dim } // den is above 0

// fractionOf returns a float scalar that is computed from dims and short constants. That
// arithmetic is exact in float32 for dims up to 2²⁴; with constants of many binary digits,
// such as 0.1, it would not be.
func fractionOf(v *graph.Value) (f fraction, ok bool) {
	err := graph.Try(func() { f, ok = fractionFrom(v, 32) })
	return f, ok && err == nil
}

func fractionFrom(v *graph.Value, depth int) (fraction, bool) {
	switch {
	case v == nil || depth == 0 || !v.Shape.Elems().Is(1):
		return fraction{}, false
	case len(v.Ints) == 1:
		return fraction{v.Ints[0], graph.Num(1)}, true
	case !v.Type.IsFloat():
		return fraction{}, false // an integer without known contents has no formula
	case v.Def == nil:
		return shortNumber(v)
	}
	rule, ok := fractionRules[v.Def.Op.FullName()]
	if !ok {
		return fraction{}, false
	}
	var in [2]fraction
	for i := range rule.inputs {
		if in[i], ok = fractionFrom(v.Def.Inputs[i], depth-1); !ok {
			return fraction{}, false
		}
	}
	return rule.make(in[0], in[1])
}

// fractionRules evaluates operators on fractions.
var fractionRules = map[string]struct {
	inputs int
	make   func(a, b fraction) (fraction, bool)
}{
	"Cast":      {1, same},
	"Identity":  {1, same},
	"Reshape":   {1, same},
	"Squeeze":   {1, same},
	"Unsqueeze": {1, same},
	"Neg":       {1, func(a, _ fraction) (fraction, bool) { return fraction{a.num.Neg(), a.den}, true }},
	"Floor":     {1, func(a, _ fraction) (fraction, bool) { return fraction{a.num.FloorDiv(a.den), graph.Num(1)}, true }},
	"Ceil":      {1, func(a, _ fraction) (fraction, bool) { return fraction{a.num.CeilDiv(a.den), graph.Num(1)}, true }},
	"Add": {2, func(a, b fraction) (fraction, bool) {
		return fraction{a.num.Mul(b.den).Add(b.num.Mul(a.den)), a.den.Mul(b.den)}, true
	}},
	"Sub": {2, func(a, b fraction) (fraction, bool) {
		return fraction{a.num.Mul(b.den).Sub(b.num.Mul(a.den)), a.den.Mul(b.den)}, true
	}},
	"Mul": {2, func(a, b fraction) (fraction, bool) { return fraction{a.num.Mul(b.num), a.den.Mul(b.den)}, true }},
	"Div": {2, func(a, b fraction) (fraction, bool) {
		sign, known := b.num.Compare(graph.Num(0))
		if sign < 0 {
			a.num, b.num = a.num.Neg(), b.num.Neg()
		}
		return fraction{a.num.Mul(b.den), a.den.Mul(b.num)}, known && sign != 0
	}},
}

func same(a, _ fraction) (fraction, bool) { return a, true }

// shortNumber reads a stored float that is a multiple of 1/1024. A parameter may be read,
// too: a size has no gradient, so training does not change it.
func shortNumber(v *graph.Value) (fraction, bool) {
	const digits = 1 << 10
	if !v.Kind.Stored() || v.Data == nil {
		return fraction{}, false
	}
	data, err := v.Data.Bytes()
	if err != nil {
		return fraction{}, false
	}
	x := digits * (&graph.Tensor{Type: v.Type, Bytes: data}).Float(0)
	if x != math.Trunc(x) || math.Abs(x) >= 1<<53 {
		return fraction{}, false
	}
	num, den := int64(x), int64(digits)
	for den > 1 && num%2 == 0 {
		num, den = num/2, den/2
	}
	return fraction{graph.Num(num), graph.Num(den)}, true
}

// whole truncates the fraction toward zero, if its sign is known.
func (f fraction) whole() (graph.Dim, bool) {
	if f.den.Is(1) {
		return f.num, true
	}
	sign, known := f.num.Compare(graph.Num(0))
	if sign < 0 {
		return f.num.CeilDiv(f.den), known
	}
	return f.num.FloorDiv(f.den), known || atLeast(f.num, 0)
}
