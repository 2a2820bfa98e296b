package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// The optimizers of ai.onnx.preview.training are rewritten into arithmetic. Inputs are the
// learning rate R, the update count T, then all tensors X, all their gradients G, and all states
// of each kind; outputs are the new X and states. Training uses memopt.Adam and the others
// instead, which work in place.
const previewTraining = "ai.onnx.preview.training"

// rule is an optimizer: step builds the new tensor and states from R, T and the old ones.
type rule struct {
	name, doc, attrs string
	states           int
	step             func(a arithmeticBuilder, rate, count, x, g *graph.Value, states []*graph.Value) []*graph.Value
	sample           string
}

var _ = [...]*graph.Op{
	definePreview(rule{"Adam", "Adam, with bias correction in the learning rate", "alpha float=0.9, beta float=0.999, epsilon float=1e-6, norm_coefficient float=0, norm_coefficient_post float=0", 2,
		func(a arithmeticBuilder, rate, count, x, g *graph.Value, s []*graph.Value) []*graph.Value {
			alpha, beta := a.n.Float("alpha"), a.n.Float("beta")
			g = a.regularized(x, g)
			v := a.add(a.times(alpha, s[0]), a.times(1-alpha, g))
			h := a.add(a.times(beta, s[1]), a.times(1-beta, a.mul(g, g)))
			t := a.b.Op("Cast", graph.A{"to": int64(rate.Type)}, count)
			left := func(f float64) *graph.Value { return a.op("Sub", a.num(1), a.op("Pow", a.num(f), t)) }
			corrected := a.op("Div", a.mul(rate, a.op("Sqrt", left(beta))), left(alpha))
			rate = a.op("Where", a.op("Greater", t, a.num(0)), corrected, rate)
			x = a.op("Sub", x, a.op("Div", a.mul(rate, v), a.add(a.op("Sqrt", h), a.num(a.n.Float("epsilon")))))
			return []*graph.Value{a.times(1-a.n.Float("norm_coefficient_post"), x), v, h}
		}, "f32[], i64[]{2}, f32[2,3], f32[2,3], f32[2,3], f32[2,3]>0 -> x, v, h"}),
	definePreview(rule{"Adagrad", "Adagrad, with a decaying learning rate", "decay_factor float=0, epsilon float=1e-6, norm_coefficient float=0", 1,
		func(a arithmeticBuilder, rate, count, x, g *graph.Value, s []*graph.Value) []*graph.Value {
			t := a.b.Op("Cast", graph.A{"to": int64(rate.Type)}, count)
			rate = a.op("Div", rate, a.add(a.num(1), a.times(a.n.Float("decay_factor"), t)))
			g = a.regularized(x, g)
			h := a.add(s[0], a.mul(g, g))
			x = a.op("Sub", x, a.op("Div", a.mul(rate, g), a.add(a.op("Sqrt", h), a.num(a.n.Float("epsilon")))))
			return []*graph.Value{x, h}
		}, "f32[], i64[]{2}, f32[2,3], f32[2,3], f32[2,3]>0 -> x, h"}),
	definePreview(rule{"Momentum", "gradient descent with momentum, standard or nesterov", "alpha float, beta float, mode string, norm_coefficient float", 1,
		func(a arithmeticBuilder, rate, count, x, g *graph.Value, s []*graph.Value) []*graph.Value {
			for _, name := range []string{"alpha", "beta", "mode", "norm_coefficient"} {
				if !a.n.Has(name) {
					a.n.Fail("attribute %s is missing", name)
				}
			}
			wantOneOf(a.n, "mode", "standard", "nesterov")
			first := a.op("Equal", count, a.b.Num(count.Type, 0))
			beta := a.op("Where", first, a.num(1), a.num(a.n.Float("beta")))
			g = a.regularized(x, g)
			v := a.add(a.times(a.n.Float("alpha"), s[0]), a.mul(beta, g))
			d := v
			if a.n.Str("mode") == "nesterov" {
				d = a.add(g, a.times(a.n.Float("alpha"), v))
			}
			return []*graph.Value{a.op("Sub", x, a.mul(rate, d)), v}
		}, "f32[], i64[]{0}, f32[2,3], f32[2,3], f32[2,3]; alpha=0.9 beta=0.5 mode=\"nesterov\" norm_coefficient=0.1 -> x, v"}),
}

func definePreview(r rule) *graph.Op {
	return define(graph.Op{
		Name:    r.name,
		Domain:  previewTraining,
		Since:   1,
		Doc:     r.doc,
		In:      "R, T, inputs...",
		Out:     "outputs...",
		Attrs:   r.attrs,
		Samples: []string{r.sample},
		Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
			rate, count, rest := n.Inputs[0], n.Inputs[1], n.Inputs[2:]
			kinds := 2 + r.states
			if len(rest) == 0 || len(rest)%kinds != 0 {
				n.Fail("there are %d inputs after R and T; a multiple of %d expected", len(rest), kinds)
			}
			each := len(rest) / kinds
			if len(n.Outputs) > each*(kinds-1) {
				n.Fail("there are %d outputs; at most %d expected", len(n.Outputs), each*(kinds-1))
			}
			wantType(n, 0, isFloat, "floats")
			wantScalarShape(n, 0)
			wantType(n, 1, graph.DType.IsInt, "integers")
			wantScalarShape(n, 1)
			rate, count = reshape(b, rate, graph.Shape{}), reshape(b, count, graph.Shape{})
			a := arithmeticBuilder{b, n, rate.Type}
			out := make([]*graph.Value, each*(kinds-1))
			for i := range each {
				of := func(kind int) *graph.Value { return rest[kind*each+i] }
				x := of(0)
				states := make([]*graph.Value, r.states)
				for k := range kinds {
					if v := of(k); v.Type != x.Type || !v.Type.IsFloat() || !v.Shape.Equal(x.Shape) {
						n.Fail("%s does not have the type and shape of %s", v, x)
					}
				}
				for k := range states {
					states[k] = of(2 + k)
				}
				if rate.Type != x.Type {
					n.Fail("R is %s, but X is %s", rate.Type, x.Type)
				}
				for k, v := range r.step(a, rate, count, x, of(1), states) {
					out[k*each+i] = v
				}
			}
			return slices.Clip(out[:len(n.Outputs)])
		},
	})
}

// wantScalarShape requires input i to have one element.
func wantScalarShape(n *graph.Node, i int) {
	if v := n.Inputs[i]; !v.Shape.Elems().Is(1) {
		n.Fail("input %d has shape %s; one number expected", i, v.Shape)
	}
}

// arithmeticBuilder builds arithmetic on values of type t.
type arithmeticBuilder struct {
	b *graph.Builder
	n *graph.Node
	t graph.DType
}

func (a arithmeticBuilder) op(name string, in ...*graph.Value) *graph.Value {
	return a.b.Op(name, nil, in...)
}
func (a arithmeticBuilder) num(x float64) *graph.Value         { return a.b.Num(a.t, x) }
func (a arithmeticBuilder) add(x, y *graph.Value) *graph.Value { return a.op("Add", x, y) }
func (a arithmeticBuilder) mul(x, y *graph.Value) *graph.Value { return a.op("Mul", x, y) }
func (a arithmeticBuilder) times(f float64, x *graph.Value) *graph.Value {
	if f == 1 {
		return x
	}
	return a.mul(a.num(f), x)
}

// regularized is the gradient with L2 regularization: g + norm_coefficient·x.
func (a arithmeticBuilder) regularized(x, g *graph.Value) *graph.Value {
	if f := a.n.Float("norm_coefficient"); f != 0 {
		return a.add(a.times(f, x), g)
	}
	return g
}
