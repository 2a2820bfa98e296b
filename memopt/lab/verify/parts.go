package verify

import (
	"slices"
	"strings"

	"memopt/internal/graph"
)

// part is a group of cases that are counted together.
type part struct {
	name string
	in   func(r Result) bool
}

func (p part) count(report *Report) (passed, loose, total int) {
	for _, r := range report.Results {
		if !p.in(r) {
			continue
		}
		total++
		if r.Outcome == Passed {
			passed++
		}
		if r.Loose {
			loose++
		}
	}
	return passed, loose, total
}

// parts are the groups of the report: single nodes of the operators needed for training common networks, by element
// types, and the same as graphs; then PyTorch's own cases.
var parts = []part{
	{"core types", func(r Result) bool { return single(r) && within(r, core) }},
	{"core types and small integers", func(r Result) bool { return single(r) && within(r, core, small) }},
	{"all of these and half floats", func(r Result) bool { return single(r) && within(r, core, small, half) }},
	{"8-bit floats", func(r Result) bool {
		return strings.HasPrefix(r.Case, "node/") && r.Op != "(expanded)" && slices.ContainsFunc(r.Types, graph.DType.IsFloat8)
	}},
	{"expanded graphs", func(r Result) bool { return r.Op == "(expanded)" && within(r, core) && among(r, asked, helpers) }},
	{"PyTorch's layers", func(r Result) bool { return strings.HasPrefix(r.Case, "pytorch-converted/") }},
	{"PyTorch's operators", func(r Result) bool { return strings.HasPrefix(r.Case, "pytorch-operator/") }},
	{"preview gradients", func(r Result) bool { return strings.HasPrefix(r.Case, "simple/test_gradient_of_") }},
}

func single(r Result) bool {
	return strings.HasPrefix(r.Case, "node/") && r.Op != "(expanded)" && len(r.Ops) == 1 && among(r, asked) && r.Reason != numpyMask
}

func among(r Result, lists ...[]string) bool {
	return !slices.ContainsFunc(r.Ops, func(op string) bool { return !slices.Contains(slices.Concat(lists...), op) })
}

func within(r Result, lists ...[]graph.DType) bool {
	return len(r.Types) > 0 && !slices.ContainsFunc(r.Types, func(t graph.DType) bool { return !slices.Contains(slices.Concat(lists...), t) })
}

var (
	core  = []graph.DType{graph.Float32, graph.Float64, graph.Int32, graph.Int64, graph.Bool}
	small = []graph.DType{graph.Int8, graph.Int16, graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64}
	half  = []graph.DType{graph.Float16, graph.BFloat16}

	asked = strings.Fields(`
		Add Sub Mul Div Pow Sqrt Exp Log Erf Tanh Sigmoid Relu Gelu Swish Softmax LogSoftmax LayerNormalization
		RMSNormalization GroupNormalization BatchNormalization MatMul Gemm Conv MaxPool AveragePool GlobalAveragePool
		Gather GatherND ScatterElements Slice Concat Split Transpose Reshape Squeeze Unsqueeze Expand Tile Where Cast
		ReduceSum ReduceMean ReduceMax Dropout SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss Attention
		RotaryEmbedding Trilu ConstantOfShape Range Shape Size ArgMax TopK CumSum Einsum Clip Mod Neg Abs Max Min Equal
		Greater Less And Or Not Identity IsNaN OneHot Pad Resize QuantizeLinear DequantizeLinear DynamicQuantizeLinear
		MatMulInteger ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum ai.onnx.preview.training.Adagrad`)
	helpers = strings.Fields(`
		Constant CastLike Reciprocal Flatten GatherElements LessOrEqual GreaterOrEqual Sum ReduceMin Cos Ceil`)
)
