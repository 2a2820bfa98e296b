package kernels

import "memopt/internal/graph"

// rowNormed is a matched decomposition of a row norm: (x − mean if centred)/√(mean square + eps).
type rowNormed struct {
	x   *graph.Value
	k   int // the last k dims are a row
	eps float64
}

// attrs returns the attributes of the fused operator.
func (r rowNormed) attrs() graph.A { return graph.A{"axis": -r.k, "epsilon": r.eps} }

// fits reports whether a scale or bias has the shape of a row.
func (r rowNormed) fits(v *graph.Value) bool {
	return r.k < r.x.Rank() && v.Shape.Equal(r.x.Shape[r.x.Rank()-r.k:])
}

// rowNorm matches v = x/√(mean(x²) + ε), in the ways that exporters write it.
func (p pieces) rowNorm(v *graph.Value, centred bool) (r rowNormed, ok bool) {
	norm := func(d, square *graph.Value) bool {
		if square == nil {
			return false
		}
		mean, eps := p.plus(square)
		if mean == nil {
			return false
		}
		of, k := p.rowMean(mean)
		if of == nil || p.square(of) != d {
			return false
		}
		r = rowNormed{d, k, eps}
		return !centred || p.centred(&r)
	}
	ok = p.Either(
		func() bool {
			n := p.Piece(v, "Div")
			return n != nil && norm(n.Inputs[0], p.radicand(n.Inputs[1]))
		},
		func() bool {
			n := p.Piece(v, "Mul")
			return n != nil && norm(n.Inputs[0], p.inverseRadicand(n.Inputs[1]))
		},
		func() bool {
			n := p.Piece(v, "Mul")
			return n != nil && norm(n.Inputs[1], p.inverseRadicand(n.Inputs[0]))
		})
	return r, ok && r.x.Shape.Equal(v.Shape)
}

// centred matches r.x = x − mean(x), and sets r.x to x.
func (p pieces) centred(r *rowNormed) bool {
	n := p.Piece(r.x, "Sub")
	if n == nil {
		return false
	}
	of, k := p.rowMean(n.Inputs[1])
	r.x = n.Inputs[0]
	return of == r.x && k == r.k
}

// rowMean matches v as the mean of x over the last k dims, with keepdims.
func (p pieces) rowMean(v *graph.Value) (x *graph.Value, k int) {
	n := p.Piece(v, "ReduceMean")
	if n == nil || n.Int("keepdims") == 0 {
		return nil, 0
	}
	axes := reducedAxes(n)
	k, rank := len(axes), n.Inputs[0].Rank()
	if k == 0 || axes[0] != rank-k {
		return nil, 0
	}
	return n.Inputs[0], k
}

// square matches v = x²; nil if it is not.
func (p pieces) square(v *graph.Value) *graph.Value {
	if x, e := p.power(v); e == 2 {
		return x
	}
	if n := p.Piece(v, "Mul"); n != nil && n.Inputs[0] == n.Inputs[1] {
		return n.Inputs[0]
	}
	return nil
}

// radicand matches v = √x.
func (p pieces) radicand(v *graph.Value) *graph.Value {
	if n := p.Piece(v, "Sqrt"); n != nil {
		return n.Inputs[0]
	}
	if x, e := p.power(v); e == 0.5 {
		return x
	}
	return nil
}

// inverseRadicand matches v = 1/√x.
func (p pieces) inverseRadicand(v *graph.Value) *graph.Value {
	if n := p.Piece(v, "Reciprocal"); n != nil {
		return p.radicand(n.Inputs[0])
	}
	if n := p.Maker(v, "Div"); n != nil && p.is(n.Inputs[0], 1) {
		p.Piece(v, "Div")
		return p.radicand(n.Inputs[1])
	}
	if x, e := p.power(v); e == -0.5 {
		return x
	}
	return nil
}

// scaledRow matches the last node as a row norm times a scale of the row's shape.
func (p pieces) scaledRow(centred bool) (r rowNormed, scale *graph.Value) {
	n := p.Node
	if n.Op.FullName() != "Mul" {
		return r, nil
	}
	for i, v := range n.Inputs {
		if p.Either(func() (ok bool) {
			r, ok = p.rowNorm(v, centred)
			return ok && r.fits(n.Inputs[1-i])
		}) {
			return r, n.Inputs[1-i]
		}
	}
	return r, nil
}
