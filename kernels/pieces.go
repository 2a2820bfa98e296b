package kernels

import (
	"math"

	"memopt/internal/graph"
)

// Helpers of Fuse rules, which match an operator's decomposition.

// closeTo reports whether a constant got in a model is x, up to rounding to float32 or to v's
// type.
func closeTo(v *graph.Value, got, x float64) bool {
	tolerance := 1e-6
	switch v.Type {
	case graph.Float16:
		tolerance = 1e-3
	case graph.BFloat16:
		tolerance = 8e-3
	}
	return math.Abs(got-x) <= tolerance*math.Abs(x)
}

// is reports whether v is the constant x.
func (p pieces) is(v *graph.Value, x float64) bool {
	got, ok := p.Number(v)
	return ok && closeTo(v, got, x)
}

// pieces is a match with helpers that many rules use.
type pieces struct{ *graph.Match }

// scaled matches a node as x·c, c a constant that does not change the shape.
func (p pieces) scaled(n *graph.Node) (x *graph.Value, c float64, ok bool) {
	switch n.Op.FullName() {
	case "Mul":
		for i, v := range n.Inputs {
			if c, ok := p.Number(v); ok && n.Inputs[1-i].Shape.Equal(n.Outputs[0].Shape) {
				return n.Inputs[1-i], c, true
			}
		}
	case "Div":
		if c, ok := p.Number(n.Inputs[1]); ok && n.Inputs[0].Shape.Equal(n.Outputs[0].Shape) {
			return n.Inputs[0], 1 / c, true
		}
	}
	return nil, 0, false
}

// unscaled matches v = x·c, through several multiplications and divisions by constants if
// nothing else reads the values between.
func (p pieces) unscaled(v *graph.Value) (x *graph.Value, c float64) {
	c = 1
	for {
		var k float64
		if !p.Either(func() (ok bool) {
			n := p.Inner(v, "Mul")
			if n == nil {
				n = p.Inner(v, "Div")
			}
			if n != nil {
				x, k, ok = p.scaled(n)
			}
			return ok
		}) {
			return v, c
		}
		v, c = x, c*k
	}
}

// factors matches v as a constant times a product of values, if nothing else reads the values
// between; a square counts as two factors, a cube as three.
func (p pieces) factors(v *graph.Value) (c float64, xs []*graph.Value) {
	v, c = p.unscaled(v)
	if n := p.Inner(v, "Mul"); n != nil {
		for _, f := range n.Inputs {
			k, more := p.factors(f)
			c *= k
			xs = append(xs, more...)
		}
		return c, xs
	}
	if x, e := p.power(v); x != nil && e == math.Trunc(e) && e > 0 && e < 8 {
		for range int(e) {
			xs = append(xs, x)
		}
		return c, xs
	}
	return c, []*graph.Value{v}
}

// power matches v = xᵉ, e a constant.
func (p pieces) power(v *graph.Value) (x *graph.Value, e float64) {
	n := p.Maker(v, "Pow")
	if n == nil || !n.Inputs[0].Shape.Equal(v.Shape) {
		return nil, 0
	}
	e, ok := p.Number(n.Inputs[1])
	if !ok {
		return nil, 0
	}
	p.Piece(v, "Pow")
	return n.Inputs[0], e
}

// plus matches v = x + c, c a constant.
func (p pieces) plus(v *graph.Value) (x *graph.Value, c float64) {
	n := p.Maker(v, "Add")
	if n == nil {
		return nil, 0
	}
	for i, in := range n.Inputs {
		if c, ok := p.Number(in); ok && n.Inputs[1-i].Shape.Equal(v.Shape) {
			p.Piece(v, "Add")
			return n.Inputs[1-i], c
		}
	}
	return nil, 0
}

// biased matches v, which only one node reads, as x + bias, where bias is a stored vector
// along the last dim.
func (p pieces) biased(v *graph.Value) (x, bias *graph.Value) {
	n := p.Inner(v, "Add")
	if n == nil || v.Rank() == 0 {
		return nil, nil
	}
	for i, in := range n.Inputs {
		if in.Kind.Stored() && in.Rank() == 1 &&
			in.Shape[0].Equal(v.Shape[v.Rank()-1]) && n.Inputs[1-i].Shape.Equal(v.Shape) {
			return n.Inputs[1-i], in
		}
	}
	return nil, nil
}

// oneNumber returns the number of a constant of one element.
func oneNumber(v *graph.Value) (x float64, ok bool) {
	if v == nil || v.Kind != graph.Const || v.Data == nil || !v.Shape.Elems().Is(1) {
		return 0, false
	}
	b, err := v.Data.Bytes()
	if err != nil {
		return 0, false
	}
	return (&graph.Tensor{Type: v.Type, Bytes: b}).Float(0), true
}
