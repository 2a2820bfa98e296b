package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// comparison is true if x < y and less, x = y and equal, or x > y and greater. NaN
// compares false.
type comparison struct {
	name, sign           string
	less, equal, greater bool
	since                int // opset from which it broadcasts like NumPy; 0: it always did
	types                func(graph.DType) bool
}

var _ = [...]*graph.Op{
	defineComparison(comparison{name: "Equal", sign: "=", equal: true, types: graph.DType.Valid, since: 7}),
	defineComparison(comparison{name: "Less", sign: "<", less: true, types: isNumber, since: 7}),
	defineComparison(comparison{name: "LessOrEqual", sign: "≤", less: true, equal: true, types: isNumber}),
	defineComparison(comparison{name: "Greater", sign: ">", greater: true, types: isNumber, since: 7}),
	defineComparison(comparison{name: "GreaterOrEqual", sign: "≥", greater: true, equal: true, types: isNumber}),
}

func defineComparison(k comparison) *graph.Op {
	samples := []string{
		"f32[2,3], f32[2,3]",
		"i64[4,2,3]<3, i64[3]<3",
		"i32[2,1]<3, i32[4,1,3]<3",
		"u64[5]<3, u64[5]<3",
		"f64[], f64[2]",
		"f16[3], f16[1]",
		"f32{1,2,3}, f32{1,3,2}",
		"i64{1,2,3}, i64[]{2}",
		"f32[0,3], f32[3]",
	}
	if k.types(graph.Bool) {
		samples = append(samples, "bool[5], bool[5]")
	}
	if k.since > 0 {
		alignAt(k.name)
	}
	return define(graph.Op{
		Name:  k.name,
		Since: k.since,
		Doc:   "z = (x " + k.sign + " y), broadcast",
		In:    "A, B",
		Out:   "C",
		Infer: func(n *graph.Node) {
			sameTypes(n)
			wantType(n, 0, k.types, "numbers")
			out := broadcast(n, n.Inputs[0].Shape, n.Inputs[1].Shape)
			n.Set(0, graph.Bool, out)
			foldPairs(n, out, func(a, b graph.Dim) (graph.Dim, bool) {
				// The answer is known if it is the same for every order that is possible.
				order, known := a.Compare(b)
				d := a.Sub(b)
				less := known && order < 0 || !known && !atLeast(d, 0)
				greater := known && order > 0 || !known && !atLeast(d.Neg(), 0)
				equal := !known || order == 0
				if !k.holds(less, equal, greater) {
					return bit(false), true
				}
				return bit(true), !comparison{less: !k.less, equal: !k.equal, greater: !k.greater}.holds(less, equal, greater)
			})
		},
		NoGrad: true,
		Eval: func(c *graph.Call) {
			x, y, z := c.In[0], c.In[1], c.Out[0]
			index.Walk(z.Shape, 0, z.Len(), func(i int, at []int) {
				var truth bool
				if x.Type.IsReal() {
					a, b := x.Float(at[0]), y.Float(at[1])
					truth = k.holds(a < b, a == b, a > b)
				} else {
					a, b := x.Int(at[0]), y.Int(at[1])
					truth = k.holds(below(x.Type, a, b), a == b, below(x.Type, b, a))
				}
				graph.View[bool](z)[i] = truth
			}, index.Broadcast(x.Shape, z.Shape), index.Broadcast(y.Shape, z.Shape))
		},
		Fast: func(c *graph.Call) {
			switch c.In[0].Type {
			case graph.Float32:
				compareRows[float32](c, k)
			case graph.Int64:
				compareRows[int64](c, k)
			case graph.Int32:
				compareRows[int32](c, k)
			default:
				c.Node.Op.Eval(c)
			}
		},
		Lower:       lowerComparison(k),
		Flops:       perElement(1),
		Tests:       graph.Tests{Work: eachOut(1)},
		Recompute:   graph.Cheap,
		Elementwise: true,
		Samples:     samples,
	})
}

func (k comparison) holds(less, equal, greater bool) bool {
	return k.less && less || k.equal && equal || k.greater && greater
}

func compareRows[E float32 | int64 | int32](c *graph.Call, k comparison) {
	x, y, z := graph.View[E](c.In[0]), graph.View[E](c.In[1]), graph.View[bool](c.Out[0])
	eachRow(c, func(lo, width int, at, step []int) {
		i, j := at[0], at[1]
		for n := range z[lo : lo+width] {
			a, b := x[i], y[j]
			z[lo+n] = k.less && a < b || k.equal && a == b || k.greater && a > b
			i, j = i+step[0], j+step[1]
		}
	})
}

// bit is a bool as a dim: 1 or 0.
func bit(b bool) graph.Dim {
	if b {
		return graph.Num(1)
	}
	return graph.Num(0)
}

// lowerComparison compares floats, integers and bools.
func lowerComparison(k comparison) func(*graph.Lowering) {
	sign := map[[3]bool]string{
		{false, true, false}: "==", {true, false, false}: "<", {true, true, false}: "<=", {false, false, true}: ">", {false, true, true}: ">=",
	}[[3]bool{k.less, k.equal, k.greater}]
	forms := map[graph.DType]func(*graph.Lowering){}
	for _, t := range []graph.DType{graph.Float32, graph.Int64, graph.Int32, graph.Bool} {
		forms[t] = lower.PointwiseOf("uint(a "+sign+" b)", nil, graph.Bool, t, t, t)
	}
	return lower.ByType(forms)
}
