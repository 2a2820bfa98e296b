package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:  "Clip",
	Since: 11,
	Doc:   "y = min(max, max(min, x))",
	In:    "input, min?, max?",
	Out:   "output",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		sameTypes(n)
		wantOne(n, 1, "min")
		wantOne(n, 2, "max")
		sameShape(n)
		if lo, hi := n.In(1), n.In(2); (lo == nil || lo.Ints != nil) && (hi == nil || hi.Ints != nil) {
			foldOne(n, func(d graph.Dim) (graph.Dim, bool) {
				if lo != nil {
					d = d.Max(lo.Ints[0])
				}
				if hi != nil {
					d = d.Min(hi.Ints[0])
				}
				return d, true
			})
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		x, lo, hi := n.Inputs[0], n.In(1), n.In(2)
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op("memopt.ClipGrad", nil, dy[0], x, lo, hi)
		// The gradient of a bound is the sum of dy over the elements it replaces.
		of := func(replaced, bound *graph.Value) *graph.Value {
			part := b.Op("Where", nil, replaced, dy[0], num(b, dy[0], 0))
			return reshape(b, b.Op("ReduceSum", graph.A{"keepdims": 0}, part), bound.Shape)
		}
		if lo != nil && lo.Kind != graph.Const {
			replaced := b.Op("Less", nil, x, lo)
			if hi != nil {
				replaced = b.Op("And", nil, replaced, b.Op("LessOrEqual", nil, lo, hi))
			}
			dx[1] = of(replaced, lo)
		}
		if hi != nil && hi.Kind != graph.Const {
			before := x
			if lo != nil {
				before = b.Op("Max", nil, x, lo)
			}
			dx[2] = of(b.Op("Less", nil, hi, before), hi)
		}
		return dx
	},
	Eval: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		if x.Type.IsFloat() {
			lo, hi := floatBounds(c, 1)
			for i := range y.Len() {
				y.SetFloat(i, min(hi, max(lo, x.Float(i))))
			}
			return
		}
		for i := range y.Len() {
			v := x.Int(i)
			if lo := bound(c, 1); lo != nil && below(x.Type, v, lo.Int(0)) {
				v = lo.Int(0)
			}
			if hi := bound(c, 2); hi != nil && below(x.Type, hi.Int(0), v) {
				v = hi.Int(0)
			}
			y.SetInt(i, v)
		}
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		lo64, hi64 := floatBounds(c, 1)
		least, most := float32(lo64), float32(hi64)
		x, y := c.In[0].F32(), c.Out[0].F32()
		c.Parallel(len(y), f32.Grain, func(lo, hi int) {
			for i, v := range x[lo:hi] {
				y[lo+i] = min(most, max(least, v))
			}
		})
	},
	Lower:     lowerClip,
	Pointwise: true,
	Flops:     perElement(2),
	Tests:     graph.Tests{Work: eachOut(2)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,5], f32[]{-0.5}, f32[]{0.7}",
		"f32[2,5], f32[]>0",
		"f32[2,5], _, f32[1]",
		"f32[2,5], f32[], f32[]",
		"f32[2,5], f32[]{1}, f32[]{-1}",
		"f32[3]",
		"i64[7], i64[]{-2}, i64[]{2}",
		"i64{1,9}, i64[]{2}, i64[]{5}",
		"u64[3]>0, _, u64[]{2}",
		"f16[3], f16[]{0}",
		"f32[0], f32[]{0}",
	},
})

var _ = define(graph.Op{
	Name:   "ClipGrad",
	Domain: own,
	Doc:    "dx = dy where min < x < max, else 0; a single bound is inclusive",
	In:     "dY, X, min?, max?",
	Out:    "dX",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		sameTypes(n)
		sameDims(n, n.Inputs[1].Shape, n.Inputs[0].Shape)
		wantOne(n, 2, "min")
		wantOne(n, 3, "max")
		sameShape(n)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		least, most := passing(c)
		binary{f: func(dy, x float64) float64 {
			if x < least || x > most {
				return 0
			}
			return dy
		}}.eval(c)
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		lo64, hi64 := passing(c)
		least, most := float32(lo64), float32(hi64)
		dy, x, dx := c.In[0].F32(), c.In[1].F32(), c.Out[0].F32()
		c.Parallel(len(dx), f32.Grain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				dx[i] = f32.Choose(x[i] < least, 0, f32.Choose(x[i] > most, 0, dy[i]))
			}
		})
	},
	Lower:     lowerClipGrad,
	Flops:     perElement(2),
	Tests:     graph.Tests{Work: eachOut(2), NotPointwise: "bounds are no operands"},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,5], f32[2,5], f32[]{-0.5}, f32[]{0.7}",
		"f32[5], f32[5], _, f32[]{0}",
		"f16[5], f16[5], f16[]{0}",
		"f32[5], f32[5]",
	},
})

// passing is the range of x in which dx = dy. At a bound the derivative is a convention:
// with two bounds the range is open, as in PyTorch's ReLU6 (a dead input is exactly 0 and
// must not get a gradient); with a single bound it is closed, as in torch.clamp.
func passing(c *graph.Call) (least, most float64) {
	least, most = floatBounds(c, 2)
	if bound(c, 2) == nil || bound(c, 3) == nil {
		return least, most
	}
	if c.In[1].Type == graph.Float64 {
		return math.Nextafter(least, math.Inf(1)), math.Nextafter(most, math.Inf(-1))
	}
	up, down := float32(math.Inf(1)), float32(math.Inf(-1))
	return float64(math.Nextafter32(float32(least), up)), float64(math.Nextafter32(float32(most), down))
}

// wantOne requires input i, if present, to have one element.
func wantOne(n *graph.Node, i int, what string) {
	if v := n.In(i); v != nil && !v.Shape.Elems().Is(1) {
		n.Fail("%s has shape %s; one number expected", what, v.Shape)
	}
}

// bound returns input i, or nil if it is omitted.
func bound(c *graph.Call, i int) *graph.Tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// floatBounds returns inputs i and i+1; ∓∞ where they are omitted.
func floatBounds(c *graph.Call, i int) (least, most float64) {
	least, most = math.Inf(-1), math.Inf(1)
	if lo := bound(c, i); lo != nil {
		least = lo.Float(0)
	}
	if hi := bound(c, i+1); hi != nil {
		most = hi.Float(0)
	}
	return least, most
}

// Before opset 11 the bounds are attributes. The defaults are the largest float32s, so
// infinities become finite.
var _ = define(graph.Op{
	Name:  "Clip",
	Doc:   "the form before opset 11, with bounds as attributes",
	In:    "input",
	Out:   "output",
	Attrs: "max float=3.4028234663852886e+38, min float=-3.4028234663852886e+38",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		x := n.Inputs[0]
		return []*graph.Value{b.Op("Clip", nil, x, num(b, x, n.Float("min")), num(b, x, n.Float("max")))}
	},
})

// lowerClipGrad passes the bounds as constants, so they must be known before the run. Two
// bounds are exclusive, a single one inclusive (see passing).
var lowerClipGrad = func() func(*graph.Lowering) {
	form := lower.FormOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	const open = "choose(le(b, T(p)), T(0), choose(ge(b, T(q)), T(0), a))"
	const closed = "choose(lt(b, T(p)), T(0), choose(gt(b, T(q)), T(0), a))"
	form.Exprs = append(form.Exprs, open, closed)
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
		form.Lower(l, expr, 0, []int{0, 1}, bounds[0], bounds[1])
	}
}()

// lowerClip takes its bounds as operands; either may be missing.
var lowerClip = lower.ByType(map[graph.DType]func(*graph.Lowering){
	graph.Float32: clipOf(graph.Float32, "least(c, greatest(b, a))", "greatest(b, a)", "least(b, a)"),
	graph.Int64:   clipOf(graph.Int64, "min(c, max(b, a))", "max(b, a)", "min(b, a)"),
	graph.Int32:   clipOf(graph.Int32, "min(c, max(b, a))", "max(b, a)", "min(b, a)"),
})

func clipOf(t graph.DType, both, low, high string) func(*graph.Lowering) {
	form := lower.FormOf(t, t, t, t)
	form.Exprs = append(form.Exprs, "a", both, low, high)
	return func(l *graph.Lowering) {
		switch lo, hi := lower.In(l, 1) != nil, lower.In(l, 2) != nil; {
		case lo && hi:
			form.Lower(l, both, 0, []int{0, 1, 2})
		case lo:
			form.Lower(l, low, 0, []int{0, 1})
		case hi:
			form.Lower(l, high, 0, []int{0, 2})
		default:
			form.Lower(l, "a", 0, []int{0})
		}
	}
}
