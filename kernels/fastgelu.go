package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

var _ = define(graph.Op{
	Name:   "FastGelu",
	Domain: microsoft,
	Doc:    "gelu by tanh of x + bias",
	In:     "X, bias?",
	Out:    "Y",
	Infer:  biasInfer,
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		if n.In(1) == nil {
			return []*graph.Value{b.Op("com.microsoft.FastGeluGrad", nil, dy[0], n.Inputs[0])}
		}
		return biasGrads(b, n, b.Op("com.microsoft.BiasFastGeluGrad_dX", nil, dy[0], n.Inputs[0], n.Inputs[1]))
	},
	Fuse:      func(m *graph.Match) []*graph.Value { return fuseBiasGelu(m, "tanh", "com.microsoft.FastGelu") },
	Eval:      tanhGelu.eval,
	Fast:      tanhGelu.fast,
	Lower:     lowerFastGelu,
	Pointwise: true,
	Flops:     perElement(9),
	Tests:     graph.Tests{Work: eachOut(9)},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,5]",
		"f32[2,5], f32[5]",
		"f32[2,3,300], f32[300]",
		"f32[2,3,4], f32[3,1]",
		"f32[3], f32[1]",
		"f16[2,7], f16[7]",
		"f32[0,3], f32[3]",
	},
})

// fuseBiasGelu fuses a bias with the Gelu (of the given form) after it.
func fuseBiasGelu(m *graph.Match, form, op string) []*graph.Value {
	if n := m.Node; n.Op.FullName() != "Gelu" || n.Str("approximate") != form {
		return nil
	}
	x, bias := pieces{m}.biased(m.Node.Inputs[0])
	if x == nil {
		return nil
	}
	return []*graph.Value{m.Builder.Op(op, nil, x, bias)}
}

var _ = define(graph.Op{
	Name:      "FastGeluGrad",
	Domain:    microsoft,
	Doc:       "dx of gelu by tanh",
	In:        "dY, X",
	Out:       "dX",
	Infer:     geluGradInfer,
	NoGrad:    true,
	Eval:      tanhGelu.evalGrad,
	Fast:      tanhGelu.fastGrad,
	Lower:     lower.Pointwise("a * tanhGeluSlope(b)"),
	Pointwise: true,
	Flops:     perElement(16),
	Tests:     graph.Tests{Work: eachOut(16)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   []string{"f32[2,5], f32[2,5]", "f32[300], f32[300]", "f16[7], f16[7]"},
})

var _ = define(graph.Op{
	Name:      "BiasFastGeluGrad_dX",
	Domain:    microsoft,
	Doc:       "dx of FastGelu with a bias; the bias's gradient is its sum",
	In:        "dY, X, B",
	Out:       "dX",
	Infer:     geluGradInfer,
	NoGrad:    true,
	Eval:      tanhGelu.evalGrad,
	Fast:      tanhGelu.fastGrad,
	Lower:     lower.Pointwise("a * tanhGeluSlope(b + c)"),
	Pointwise: true,
	Flops:     perElement(17),
	Tests:     graph.Tests{Work: eachOut(17)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples:   []string{"f32[2,5], f32[2,5], f32[5]", "f32[3,300], f32[3,300], f32[300]", "f16[7], f16[7], f16[7]"},
})

var lowerFastGelu = lower.Pick(map[bool]func(*graph.Lowering){
	false: lower.Pointwise("tanhGelu(a)"), true: lower.Pointwise("tanhGelu(a + b)"),
}, func(l *graph.Lowering) bool { return lower.In(l, 1) != nil })
