package kernels

import (
	"fmt"
	"strings"
	"testing"

	"memopt/memopt/graph"
)

// counted is the work of every operator, counted by walking over the elements of
// a sample's tensors. What an element takes is stated by family; which elements
// it is taken for is what is easily wrong: a reduction works on what it reads, a
// broadcast on what it writes.
var counted = []struct {
	ops  string
	work func(c sampled) int64
}{
	// Nothing is computed: bytes stay where they are, or move.
	{"Flatten Identity MemcpyFromHost MemcpyToHost Reshape Squeeze Unsqueeze memopt.StopGradient", none},
	{"Concat ConstantOfShape DepthToSpace Expand Gather GatherElements GatherND NonZero OneHot Pad Shape Size Slice " +
		"SpaceToDepth Split Tile Transpose Trilu com.microsoft.BroadcastGradientArgs com.microsoft.ConcatTraining " +
		"com.microsoft.FlattenAndUnpad com.microsoft.PadAndUnflatten com.microsoft.SliceGrad com.microsoft.YieldOp", none},
	// A few numbers, whatever the size.
	{"memopt.Count memopt.LossSeed memopt.NextLossScale", none},

	// Each element of the output.
	{"Abs Add And Cast Ceil Div Equal Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Mul Neg Not Or PRelu " +
		"Reciprocal Round Sign Sub Where Xor com.microsoft.Scale memopt.Accumulate memopt.BandMask memopt.Scale", eachOut(1)},
	{"LeakyRelu Relu ThresholdedRelu", eachOut(1)},
	{"Clip DequantizeLinear Range Sqrt com.microsoft.BitmaskDropoutGrad com.microsoft.DropoutGrad memopt.ClipGrad", eachOut(2)},
	{"RotaryEmbedding Softsign com.microsoft.ReluGrad memopt.LeakyReluGrad memopt.ThresholdedReluGrad", eachOut(3)},
	{"HardSigmoid QuantizeLinear", eachOut(4)},
	{"HardSwish Mod RMSNormalization SimplifiedLayerNormalization memopt.SoftsignGrad", eachOut(5)},
	{"memopt.HardSigmoidGrad com.microsoft.SoftmaxDropoutGrad", eachOut(6)},
	{"memopt.HardSwishGrad", eachOut(7)},
	{"Gelu com.microsoft.Gelu LayerNormalization Resize", eachOut(8)},
	{"com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization", eachOut(9)},
	{"Celu Elu Exp Log Pow Selu", eachOut(10)},
	{"LogSoftmax Sigmoid Softmax Tanh memopt.CeluGrad memopt.EluGrad memopt.SafeSoftmax memopt.SeluGrad", eachOut(12)},
	{"com.microsoft.BiasSoftmax", eachOut(13)},
	{"Swish com.microsoft.QuickGelu com.microsoft.SigmoidGrad com.microsoft.TanhGrad", eachOut(14)},
	{"Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan", eachOut(15)},
	{"Dropout com.microsoft.FastGeluGrad com.microsoft.GeluGrad com.microsoft.QuickGeluGrad memopt.DropoutGrad " +
		"memopt.GeluGrad memopt.Random memopt.SwishGrad", eachOut(16)},
	{"com.microsoft.BiasFastGeluGrad_dX com.microsoft.BiasGeluGrad_dX memopt.AcosGrad memopt.AcoshGrad memopt.AsinGrad " +
		"memopt.AsinhGrad memopt.AtanGrad memopt.AtanhGrad memopt.CoshGrad memopt.SinhGrad memopt.TanGrad", eachOut(17)},
	{"com.microsoft.BiasDropout com.microsoft.BitmaskBiasDropout com.microsoft.BitmaskDropout", eachOut(18)},
	{"Erf Softplus", eachOut(20)},
	{"memopt.ErfGrad memopt.SoftplusGrad", eachOut(22)},
	{"Mish com.microsoft.BiasSoftmaxDropout", eachOut(30)},
	{"memopt.MishGrad", eachOut(32)},
	{"com.microsoft.LogSoftmaxGrad_13", eachOut(12)},
	{"com.microsoft.SoftmaxGrad_13", eachOut(4)},
	{"Max Mean Min Sum", func(c sampled) int64 { return int64(len(c.In)) * c.out(0) }},

	// Each element of an input.
	{"ArgMax ArgMin CumSum memopt.AboveZero memopt.FromFloat8Blocks ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum", eachIn(0, 1)},
	{"memopt.Float8Blocks", eachIn(0, 3)},
	{"ReduceL1 ReduceL2 ReduceSumSquare", eachIn(0, 2)},
	{"ReduceLogSumExp", eachIn(0, 10)},
	{"memopt.ReduceProdGrad", eachIn(1, 3)},
	{"DynamicQuantizeLinear", eachIn(0, 6)},
	{"memopt.DequantizeLinearGrad", eachIn(0, 3)},
	{"memopt.PowGrad", eachIn(0, 12)},
	{"memopt.KeepWhere memopt.PadGrad com.microsoft.GatherElementsGrad", eachIn(0, 1)},
	{"memopt.SegmentReduce", eachIn(0, 1)},
	{"memopt.SegmentReduceGrad", eachOut(1)},
	{"ScatterElements ScatterND com.microsoft.GatherGrad com.microsoft.GatherNDGrad", eachIn(2, 1)},
	{"TopK", func(c sampled) int64 { return c.in(0) + c.out(0) }},
	{"memopt.ClipNorm", func(c sampled) int64 { return 4 + 2*c.rest(1) }},
	{"memopt.Unscale", func(c sampled) int64 { return 1 + c.rest(2) }},
	{"memopt.ResizeGrad", eachIn(0, 8)}, // of dY: each is spread over its places

	// Normalizations: the gradients of inputs from dY and X.
	{"BatchNormalization com.microsoft.BatchNormInternal", func(c sampled) int64 {
		if c.Node.Int("training_mode") == 0 {
			return 2 * c.in(0) // a product and a sum
		}
		return 6 * c.in(0) // the mean, the differences, their squares and the sum too
	}},
	{"com.microsoft.BatchNormalizationGrad", eachIn(1, 8)},
	{"memopt.BatchNormalizationGrad", eachIn(1, 12)},
	{"com.microsoft.SimplifiedLayerNormalizationGrad", eachIn(1, 10)},
	{"com.microsoft.LayerNormalizationGrad", eachIn(1, 12)},
	{"com.microsoft.InvertibleLayerNormalizationGrad memopt.RMSNormalizationGrad", eachIn(1, 14)},
	{"memopt.LayerNormalizationGrad", eachIn(1, 20)},

	// Losses: each score.
	{"NegativeLogLikelihoodLoss", eachIn(1, 2)}, // of each label
	{"memopt.NegativeLogLikelihoodLossGrad", eachOut(1)},
	{"SoftmaxCrossEntropyLoss com.microsoft.SoftmaxCrossEntropyLossInternal", eachIn(0, 10)},
	{"memopt.SoftmaxCrossEntropyLossGrad", eachIn(1, 10)},
	{"com.microsoft.SoftmaxCrossEntropyLossGrad com.microsoft.SoftmaxCrossEntropyLossInternalGrad", eachIn(1, 6)},

	// Optimizers: each parameter.
	{"memopt.SGD", eachIn(0, 4)},
	{"memopt.Adagrad memopt.Momentum", eachIn(0, 8)},
	{"memopt.Adam memopt.AdamW", eachIn(0, 14)},
	{"memopt.Lamb", eachIn(0, 30)},

	// Products: two for each pair that meets.
	{"MatMul MatMulInteger", func(c sampled) int64 { return 2 * visits(append(c.outs(0), int(c.inner(false, false)))...) }},
	{"com.microsoft.FusedMatMul", func(c sampled) int64 {
		return 2 * visits(append(c.outs(0), int(c.inner(c.Node.Int("transA") != 0, c.Node.Int("transBatchA") != 0)))...)
	}},
	{"Gemm", func(c sampled) int64 {
		return 2 * visits(append(c.outs(0), int(c.inner(c.Node.Int("transA") != 0, false)))...)
	}},
	{"com.microsoft.FusedGemm", func(c sampled) int64 {
		return 2*visits(append(c.outs(0), int(c.inner(c.Node.Int("transA") != 0, false)))...) + 12*c.out(0)
	}},

	// Sums for each point, as long as the factors of the length; by a convolution there
	// are two transforms of more points.
	{"DFT", func(c sampled) int64 { return c.transforms(c.In[0].Shape, 1) }},
	{"memopt.DFTGrad", func(c sampled) int64 { return c.transforms(c.outs(0), 2) }},

	// A product and its scores; the gradients are products too.
	{"memopt.LinearCrossEntropy", func(c sampled) int64 { return c.scores(0) * (2*int64(c.In[0].Shape[1]) + 10) }},
	{"memopt.LinearCrossEntropyGrad", func(c sampled) int64 {
		products := int64(1)
		for i := range 2 {
			if c.Node.Output(i) != nil {
				products++
			}
		}
		return c.scores(1) * (2*products*int64(c.In[1].Shape[1]) + 10)
	}},

	// Scores, twelve each for the softmax, and two products of them; backward five.
	{"memopt.FlashAttention memopt.AttentionInRows", func(c sampled) int64 { return c.attends(0, 1, 1) }},
	{"memopt.FlashAttentionGrad memopt.AttentionInRowsGrad", func(c sampled) int64 { return c.attends(1, 3, 2) }},

	// Windows: two for each element of a window and each place of it.
	{"Conv ConvInteger", func(c sampled) int64 { return 2 * c.out(0) * visits(c.In[1].Shape[1:]...) }},
	{"com.microsoft.FusedConv", func(c sampled) int64 { return c.out(0) * (2*visits(c.In[1].Shape[1:]...) + 12) }},
	{"ConvTranspose", func(c sampled) int64 { return 2 * c.in(0) * visits(c.In[1].Shape[1:]...) }},
	{"memopt.ConvGradX", func(c sampled) int64 { return 2 * c.in(0) * visits(c.In[1].Shape[1:]...) }},
	{"memopt.ConvGradW", func(c sampled) int64 { return 2 * c.in(0) * visits(c.outs(0)[1:]...) }},
	{"com.microsoft.ConvGrad", func(c sampled) int64 {
		wanted := int64(0) // of dX and dW; dB is sums
		for i := range 2 {
			if c.Node.Output(i) != nil {
				wanted++
			}
		}
		return 2 * wanted * c.in(0) * visits(c.In[2].Shape[1:]...)
	}},
	{"AveragePool MaxPool memopt.MaxPoolGradAt memopt.MaxPoolWhere", func(c sampled) int64 { return c.out(0) * c.window() }},
	{"memopt.AveragePoolGrad memopt.MaxPoolGrad", func(c sampled) int64 { return c.in(0) * c.window() }},

	// Taps of each point, for each channel.
	{"GridSample", func(c sampled) int64 { return 2 * c.out(0) * c.taps(1) }},
	{"memopt.GridSampleGrad", func(c sampled) int64 {
		each := int64(0)
		if c.Node.Output(0) != nil {
			each += 2
		}
		if c.Node.Output(1) != nil {
			each += 2 * int64(len(c.In[1].Shape)-2)
		}
		return each * c.in(0) * c.taps(2)
	}},

	// Steps of a recurrent layer: a product with R for each gate, and the gates'
	// functions. The way back runs forward again and has two products more.
	{"memopt.Recurrence", eachStep(2)},
	{"memopt.RecurrenceGrad", eachStep(6)},
	{"org.pytorch.aten.ATen", func(c sampled) int64 {
		switch c.Node.Str("operator") {
		case "embedding":
			return 0
		case "max_pool2d_with_indices":
			window := c.In[1]
			return c.out(0) * visits(window.Int(0), window.Int(window.Len()-1))
		case "embedding_backward", "_adaptive_avg_pool2d":
			return c.in(0)
		default:
			return c.in(1)
		}
	}},
}

func none(sampled) int64 { return 0 }

func eachOut(each int64) func(sampled) int64 {
	return func(c sampled) int64 { return each * c.out(0) }
}

func eachIn(input int, each int64) func(sampled) int64 {
	return func(c sampled) int64 { return each * c.in(input) }
}

func eachStep(each int64) func(sampled) int64 {
	return func(c sampled) int64 {
		z, hidden := c.In[0].Shape, c.In[1].Shape[1]
		return each*visits(z[0], z[1], z[2], hidden) + 20*visits(z...)
	}
}

// taps is how many elements of the data are read for each point of a grid.
func (c sampled) taps(grid int) int64 {
	n, each := int64(1), map[string]int64{"linear": 2, "nearest": 1, "cubic": 4}[c.Node.Str("mode")]
	for range c.In[grid].Shape[2:] {
		n *= each
	}
	return n
}

// transforms is the work of Fourier transforms along an axis of a signal; input at is
// their length, and the axis follows.
func (c sampled) transforms(signal []int, at int) int64 {
	axis := len(signal) - 2
	if len(c.In) > at+1 && c.In[at+1] != nil {
		axis = (int(c.In[at+1].Int(0)) + len(signal)) % len(signal)
	}
	points := signal[axis]
	switch {
	case len(c.In) > at && c.In[at] != nil:
		points = int(c.In[at].Int(0))
	case c.Node.Int("inverse") != 0 && c.Node.Int("onesided") != 0:
		points = 2*points - 2
	}
	lines := int64(1)
	for i, d := range signal[:len(signal)-1] {
		if i != axis {
			lines *= int64(d)
		}
	}
	count := func(points int) (terms int64, longest int) {
		terms = 1
		for ; points%4 == 0; points /= 4 {
			terms += 4
		}
		for p := 2; points > 1; p++ {
			for ; points%p == 0; points /= p {
				terms, longest = terms+int64(p), p
			}
		}
		return terms, longest
	}
	terms, longest := count(points)
	if longest > 61 {
		lines, points = 2*lines, 1<<len(fmt.Sprintf("%b", 2*points-2))
		terms, _ = count(points)
	}
	return lines * 8 * int64(points) * terms
}

// sampled is a case whose tensors are counted.
type sampled struct {
	Case
	t *testing.T
}

func (c sampled) in(i int) int64 { return visits(c.In[i].Shape...) }

func (c sampled) rest(from int) (n int64) {
	for i := range c.In[from:] {
		n += c.in(from + i)
	}
	return n
}

// scores counts those of rows x and the classes of a weight behind it.
// attends is what attention takes whose Q is input q: so many products by its
// width and by that of V.
func (c sampled) attends(q int, byWidth, byOut int64) int64 {
	queries, v := c.In[q].Shape, c.In[q+2].Shape
	last := len(queries) - 1
	n := int64(v[last-1])
	for _, d := range queries[:last] {
		n *= int64(d)
	}
	return n * (2*byWidth*int64(queries[last]) + 2*byOut*int64(v[last]) + 12)
}

func (c sampled) scores(x int) int64 {
	classes := c.In[x+1].Shape[1]
	if c.Node.Int("transB") != 0 {
		classes = c.In[x+1].Shape[0]
	}
	return visits(c.In[x].Shape[0], classes)
}

func (c sampled) outs(i int) []int {
	v := c.Node.Output(i)
	if v == nil {
		// Optional and left out: these have the shape of input 0.
		return append([]int{}, c.In[0].Shape...)
	}
	b, err := graph.Bind(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	shape, err := b.Shape(v.Shape)
	if err != nil {
		c.t.Fatal(err)
	}
	return append([]int{}, shape...)
}

func (c sampled) out(i int) int64 { return visits(c.outs(i)...) }

// inner is the dim over which a product sums.
func (c sampled) inner(transposed, batch bool) int {
	a := c.In[0].Shape
	last := len(a) - 1
	if len(a) < 2 || !transposed {
		return a[last]
	}
	if batch {
		return a[0]
	}
	return a[last-1]
}

func (c sampled) window() int64 {
	var sides []int
	for _, k := range c.Node.Ints("kernel_shape") {
		sides = append(sides, int(k))
	}
	return visits(sides...)
}

// TestEveryPrice: an operator says as many operations as are counted on each of
// its samples, and they have three shapes at least unless it computes nothing.
func TestEveryPrice(t *testing.T) {
	count := map[string]func(sampled) int64{}
	for _, row := range counted {
		for name := range strings.FieldsSeq(row.ops) {
			if count[name] != nil {
				t.Errorf("%s is counted twice", name)
			}
			count[name] = row.work
		}
	}
	for _, op := range Library.All() {
		if op.Rewrite != nil {
			continue
		}
		name := op.FullName()
		work := count[name]
		delete(count, name)
		if work == nil {
			t.Errorf("%s has a price that nothing counts: add it to the table", name)
			continue
		}
		cases, err := Cases(op)
		if err != nil {
			t.Fatal(err)
		}
		shapes, most := map[string]bool{}, int64(0)
		for _, c := range cases {
			got, _ := op.Flops(c.Node).Const()
			want := work(sampled{c, t})
			if got != want {
				t.Errorf("%s(%s): %d operations, counted %d", name, c.Text, got, want)
			}
			most = max(most, want)
			shapes[shapesOf(c)] = true
		}
		if most > 0 && len(shapes) < 3 {
			t.Errorf("%s is counted on %d shapes only", name, len(shapes))
		}
	}
	for name := range count {
		t.Errorf("%s is counted, but there is no such operator", name)
	}
}

// shapesOf tells the shapes of what a case reads and makes.
func shapesOf(c Case) string {
	var sb strings.Builder
	for _, x := range c.In {
		if x != nil {
			fmt.Fprint(&sb, x.Shape)
		}
	}
	for _, v := range c.Node.Outputs {
		if v != nil {
			fmt.Fprint(&sb, v.Shape)
		}
	}
	return sb.String()
}
