package kernels

import (
	"math"

	"memopt/internal/graph"
)

// scatterings are the reductions of ScatterElements and ScatterND, of a value and an update.
var scatterings = map[string]struct {
	f func(x, u float64) float64
	i func(x, u int64) int64
	u func(x, u uint64) uint64 // for uint64; nil: i is correct for it, too
}{
	"none": {},
	"add":  {f: func(x, u float64) float64 { return x + u }, i: func(x, u int64) int64 { return x + u }},
	"mul":  {f: func(x, u float64) float64 { return x * u }, i: func(x, u int64) int64 { return x * u }},
	"max": {
		f: math.Max,
		i: func(x, u int64) int64 { return max(x, u) },
		u: func(x, u uint64) uint64 { return max(x, u) },
	},
	"min": {
		f: math.Min,
		i: func(x, u int64) int64 { return min(x, u) },
		u: func(x, u uint64) uint64 { return min(x, u) },
	},
}

// scatterType checks the reduction, and the types of data and updates.
func scatterType(n *graph.Node) {
	r := n.Str("reduction")
	if _, ok := scatterings[r]; !ok {
		n.Fail("reduction is %q, not none, add, mul, max or min", r)
	}
	if r != "none" && !isNumber(n.Inputs[0].Type) {
		n.Fail("reduction %s does not take %s data", r, n.Inputs[0].Type)
	}
	if n.Inputs[2].Type != n.Inputs[0].Type {
		n.Fail("updates are %s, but the data is %s", n.Inputs[2].Type, n.Inputs[0].Type)
	}
}

// put returns a function that applies update i to element at, for the given types and
// reduction.
func put(y, updates *graph.Tensor, reduction string) func(at, i int) {
	size, how := int(y.Type.Size()), scatterings[reduction]
	switch {
	case reduction == "none":
		return func(at, i int) { copy(y.Bytes[at*size:(at+1)*size], updates.Bytes[i*size:]) }
	case y.Type == graph.Float32 && reduction == "add":
		to, from := y.F32(), updates.F32()
		return func(at, i int) { to[at] += from[i] }
	case y.Type.IsFloat():
		return func(at, i int) { y.SetFloat(at, how.f(y.Float(at), updates.Float(i))) }
	case y.Type == graph.Uint64 && how.u != nil:
		return func(at, i int) { y.SetInt(at, int64(how.u(uint64(y.Int(at)), uint64(updates.Int(i))))) }
	}
	return func(at, i int) { y.SetInt(at, how.i(y.Int(at), updates.Int(i))) }
}

// scatterGrad is the gradient of both operators. pick gathers, and scatter scatters, with the
// node's indices.
func scatterGrad(b *graph.Builder, n *graph.Node, dy *graph.Value,
	pick func(v *graph.Value) *graph.Value,
	scatter func(reduction string, data, updates *graph.Value) *graph.Value,
) []*graph.Value {
	x, u, y := n.Inputs[0], n.Inputs[2], n.Outputs[0]
	switch n.Str("reduction") {
	case "none":
		return []*graph.Value{scatter("none", dy, zerosLike(b, u)), nil, pick(dy)}
	case "add":
		return []*graph.Value{dy, nil, pick(dy)}
	case "mul":
		return []*graph.Value{scatter("mul", dy, u), nil, b.Op("Div", nil, pick(b.Op("Mul", nil, dy, y)), u)}
	}
	// max and min: equal elements share the gradient.
	winsX := cast(b, b.Op("Equal", nil, x, y), x.Type)
	winsU := cast(b, b.Op("Equal", nil, u, pick(y)), x.Type)
	share := b.Op("Div", nil, dy, scatter("add", winsX, winsU))
	return []*graph.Value{b.Op("Mul", nil, winsX, share), nil, b.Op("Mul", nil, winsU, pick(share))}
}
