package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/kernels"
)

// TestRandomGraphsCleaned: on any graph, the clean-up changes no bit, and
// fusions change numbers only by rounding, those of gradients too. A second
// time nothing is found.
func TestRandomGraphsCleaned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomForward(t)
		plain, fused := g.Clone(), g.Clone()
		sameProgram(t, g, cleaned(t, plain, graph.CleanOptions{}), 0)
		sameProgram(t, g, cleaned(t, fused, graph.CleanOptions{Fuse: func(*graph.Op) bool { return true }}), 1e-4)
	})
}

// randomForward draws a graph over [batch, seq, 4], of what exporters write:
// operators in pieces, pairs that undo each other, twins, constants.
func randomForward(t *rapid.T) *graph.Graph {
	g := graph.New(kernels.Library, "random")
	b := graph.NewBuilder(g)
	shape := graph.Shape{graph.Sym("batch"), graph.Sym("seq"), graph.Num(4)}
	define := func(kind graph.Kind, name string, s graph.Shape) *graph.Value {
		v, err := b.Define(kind, name, graph.Float32, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	values := []*graph.Value{define(graph.Input, "x", shape)}
	params := 0
	param := func(dims ...int64) *graph.Value {
		params++
		return define(graph.Param, fmt.Sprintf("p%d", params), graph.Dims(dims...))
	}
	values = append(values, b.Op("MatMul", nil, values[0], param(4, 4)))
	pick := func() *graph.Value { return rapid.SampledFrom(values).Draw(t, "input") }
	num := func(x float64) *graph.Value { return b.Num(graph.Float32, x) }
	// either puts operands in either order.
	either := func(op string, x, y *graph.Value) *graph.Value {
		if rapid.Bool().Draw(t, "swap") {
			x, y = y, x
		}
		return b.Op(op, nil, x, y)
	}
	ints := func(ns ...int64) *graph.Value { return b.Ints(graph.Dims(ns...)...) }
	flat := func() *graph.Value { return b.Ints(graph.Num(-1), graph.Num(4)) }
	menu := []func() *graph.Value{
		func() *graph.Value { return b.Op("MatMul", nil, pick(), param(4, 4)) },
		func() *graph.Value {
			return b.Op("MatMul", nil, pick(), b.Op("Transpose", nil, param(4, 4)))
		},
		func() *graph.Value { return either("Mul", pick(), num(0.5)) },
		func() *graph.Value { return either("Mul", pick(), num(1)) },
		func() *graph.Value { return either("Add", pick(), param(4)) },
		func() *graph.Value { return either("Add", pick(), pick()) },
		func() *graph.Value { return b.Op("Gelu", nil, pick()) },
		func() *graph.Value { return b.Op("Identity", nil, pick()) },
		func() *graph.Value { return b.Op("Tanh", nil, pick()) },
		func() *graph.Value { x := pick(); return either("Add", b.Op("Tanh", nil, x), b.Op("Tanh", nil, x)) },
		func() *graph.Value {
			return b.Op("Cast", graph.A{"to": 1}, b.Op("Cast", graph.A{"to": 11}, pick()))
		},
		func() *graph.Value {
			return b.Op("Reshape", nil, b.Op("Reshape", nil, pick(), flat()), b.Ints(shape...))
		},
		func() *graph.Value {
			swap := graph.A{"perm": []int64{0, 2, 1}}
			return b.Op("Transpose", swap, b.Op("Tanh", nil, b.Op("Transpose", swap, pick())))
		},
		func() *graph.Value { return b.Op("Slice", nil, pick(), ints(0), ints(math.MaxInt64), ints(2)) },
		func() *graph.Value {
			return b.Op("Mul", nil, pick(), b.Op("Sqrt", nil, b.Op("Add", nil, num(2), num(2))))
		},
		func() *graph.Value {
			return b.Op("Dropout", nil, pick(), num(0.5), b.Num(graph.Bool, float64(rapid.IntRange(0, 1).Draw(t, "training"))))
		},
		func() *graph.Value { // gelu in pieces
			x := pick()
			one := either("Add", b.Op("Erf", nil, b.Op("Div", nil, x, num(math.Sqrt2))), num(1))
			if rapid.Bool().Draw(t, "half first") {
				return either("Mul", either("Mul", x, num(0.5)), one)
			}
			return either("Mul", either("Mul", x, one), num(0.5))
		},
		func() *graph.Value { // by tanh
			x := pick()
			cube := b.Op("Pow", nil, x, num(3))
			if rapid.Bool().Draw(t, "products") {
				cube = either("Mul", x, either("Mul", x, x))
			}
			inner := either("Mul", either("Add", x, either("Mul", cube, num(0.044715))), num(math.Sqrt(2/math.Pi)))
			return either("Mul", either("Mul", x, num(0.5)), either("Add", b.Op("Tanh", nil, inner), num(1)))
		},
		func() *graph.Value { // a norm in pieces
			x := pick()
			d := b.Op("Sub", nil, x, b.Op("ReduceMean", nil, x, ints(-1)))
			v := b.Op("ReduceMean", nil, b.Op("Pow", nil, d, num(2)), ints(2))
			n := b.Op("Div", nil, d, b.Op("Sqrt", nil, either("Add", v, num(0.1))))
			return either("Add", either("Mul", n, param(4)), param(4))
		},
		func() *graph.Value { // a root mean square norm in pieces
			x := pick()
			v := b.Op("ReduceMean", nil, either("Mul", x, x), ints(-1))
			return either("Mul", either("Mul", x, b.Op("Reciprocal", nil, b.Op("Sqrt", nil, either("Add", v, num(0.1))))), param(4))
		},
		func() *graph.Value { // a residual and its norm
			x := b.Op("LayerNormalization", graph.A{"epsilon": 0.1}, pick(), param(4))
			h := either("Add", b.Op("MatMul", nil, x, param(4, 4)), param(4))
			return b.Op("LayerNormalization", graph.A{"epsilon": 0.1}, either("Add", h, x), param(4), param(4))
		},
		func() *graph.Value { // attention
			x := pick()
			k := b.Op("Transpose", graph.A{"perm": []int64{0, 2, 1}}, either("Mul", x, num(0.7)))
			p := b.Op("Softmax", nil, either("Add", b.Op("Div", nil, b.Op("MatMul", nil, x, k), num(2)), num(0.1)))
			if rapid.Bool().Draw(t, "safe") {
				p = b.Op("Where", nil, b.Op("IsNaN", nil, p), num(0), p)
			}
			return b.Op("MatMul", nil, p, x)
		},
		func() *graph.Value { // bias and softmax
			return b.Op("Softmax", nil, either("Add", pick(), param(4)))
		},
	}
	for range rapid.IntRange(1, 10).Draw(t, "nodes") {
		values = append(values, rapid.SampledFrom(menu).Draw(t, "op")())
	}
	g.Outputs = append(g.Outputs, values[len(values)-1])
	for _, v := range values[1 : len(values)-1] {
		if rapid.IntRange(0, 3).Draw(t, "output") == 0 {
			g.Outputs = append(g.Outputs, v)
		}
	}
	if rapid.Bool().Draw(t, "loss") {
		// Then values that no other node reads are no outputs either.
		g.Outputs = g.Outputs[:1]
	}
	g.Prune()
	return g
}
