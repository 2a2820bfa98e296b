package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// BatchNormalization normalizes with the batch's statistics in training mode, else with
// the running ones. Training needs only X for the gradient: the statistics are computed
// again from it.
var _ = define(graph.Op{
	Name:  "BatchNormalization",
	Since: 15,
	Doc:   "y = (x − mean)/√(var + ε)·scale + B for each channel; in training with the batch's own mean and variance",
	In:    "X, scale, B, input_mean, input_var",
	Out:   "Y, running_mean?, running_var?",
	Attrs: "epsilon float=1e-5, momentum float=0.9, training_mode int=0",
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		if x.Rank() < 1 {
			n.Fail("the input is a scalar; [N, C, …] expected")
		}
		channels := graph.Num(1)
		if x.Rank() > 1 {
			channels = x.Shape[1]
		}
		for i, v := range n.Inputs {
			wantType(n, i, isFloat, "floats")
			if i == 0 {
				continue
			}
			if v.Rank() != 1 {
				n.Fail("input %d must be [C], but is %s", i, v.Shape)
			}
			n.Same(v.Shape[0], channels, "channels")
		}
		if n.Int("training_mode") == 0 && (n.Output(1) != nil || n.Output(2) != nil) {
			n.Fail("the running statistics are outputs only with training_mode 1")
		}
		n.Set(0, x.Type, x.Shape)
		n.Set(1, n.Inputs[3].Type, n.Inputs[3].Shape)
		n.Set(2, n.Inputs[4].Type, n.Inputs[4].Shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dY := dy[0]
		if dY == nil {
			dY = zerosLike(b, n.Outputs[0])
		}
		attrs := graph.A{"epsilon": n.Float("epsilon"), "training_mode": n.Int("training_mode")}
		in := []*graph.Value{dY, n.Inputs[0], n.Inputs[1]}
		if n.Int("training_mode") == 0 {
			in = append(in, n.Inputs[3], n.Inputs[4])
			dx := b.Ops(own+".BatchNormalizationGrad", attrs, 3, in...)
			dMean, dVar := statisticsGrads(b, n, dx[1], dx[2])
			return append(dx, dMean, dVar)
		}
		in = append(in, nil, nil)
		dx := make([]*graph.Value, 5)
		for i, d := range dy[1:] {
			if d != nil {
				in = append(in[:5+i], scaled(b, d, 1-n.Float("momentum")))
				dx[3+i] = scaled(b, d, n.Float("momentum"))
			} else {
				in = append(in[:5+i], nil)
			}
		}
		copy(dx, b.Ops(own+".BatchNormalizationGrad", attrs, 3, in...))
		return dx
	},
	Eval:  func(c *graph.Call) { newBatchNorm(c.Node, c.In[0]).run(c) },
	Fast:  func(c *graph.Call) { newBatchNorm(c.Node, c.In[0]).shared(c.Parallel, c.In[0]).run(c) },
	Lower: lower.BatchNorm,
	Flops: func(n *graph.Node) graph.Dim {
		return n.Outputs[0].Shape.Elems().Mul(graph.Num(2 + 4*int64(n.Int("training_mode"))))
	},
	Tests:       graph.Tests{Work: batchNormWork},
	Recompute:   graph.Cheap,
	InPlace:     []int{0},
	Running:     []graph.Running{{In: 3, Out: 1}, {In: 4, Out: 2, Sample: sampleVariance}},
	UsesRunning: func(n *graph.Node) bool { return n.Int("training_mode") == 0 },
	Samples: []string{
		"f32[2,3,4], f32[3], f32[3], f32[3], f32[3]>0 -> y",
		"f32[4,3], f32[3], f32[3], f32[3], f32[3]>0; epsilon=0.1 -> y",
		"f32[2,3,2,2], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1 -> y",
		"f32[2,3,2,2], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1 momentum=0.7",
		"f32[5,2], f32[2], f32[2], f32[2], f32[2]>0; training_mode=1 -> y, _, v",
		"f32[2,2,300], f32[2], f32[2], f32[2], f32[2]>0; training_mode=1",
		"f32[4], f32[1], f32[1], f32[1], f32[1]>0 -> y",
		"f16[2,3,2], f16[3], f16[3], f32[3], f32[3]>0; training_mode=1",
		"f32[0,3,4], f32[3], f32[3], f32[3], f32[3]>0 -> y",
		"f32[2,3,0], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1",
	},
})

var batchNormWork = counted(func(c sampled) int64 {
	if c.Node.Int("training_mode") == 0 {
		return 2 * c.in(0) // multiply, add
	}
	return 6 * c.in(0) // and the mean, differences, squares and their sum
})

// sampleVariance converts the next running variance from ONNX's definition to PyTorch's,
// which scales the batch's variance by n/(n − 1) (Bessel's correction).
func sampleVariance(b *graph.Builder, n *graph.Node) *graph.Value {
	x, old, next := n.Inputs[0], n.Inputs[4], n.Outputs[2]
	count := graph.Num(1)
	for i, d := range x.Shape {
		if i != 1 {
			count = count.Mul(d)
		}
	}
	others := cast(b, b.Int(count.Sub(graph.Num(1)).Max(graph.Num(1))), next.Type)
	share := b.Op("Sub", nil, next, b.Op("Mul", nil, old, num(b, old, n.Float("momentum"))))
	return b.Op("Add", nil, next, b.Op("Div", nil, share, others))
}

// statisticsGrads returns the gradients of mean and variance if nodes compute them
// (weight standardization does). Statistics that the model holds are running statistics
// and not trained. dmean and dvar equal dB and dscale up to a factor for each channel.
func statisticsGrads(b *graph.Builder, n *graph.Node, dScale, dB *graph.Value) (dMean, dVar *graph.Value) {
	mean, variance := n.Inputs[3], n.Inputs[4]
	held := func(v *graph.Value) bool {
		for v.Def != nil && (v.Def.Op.View || v.Def.Op.FullName() == "Cast") {
			v = v.Def.Inputs[0]
		}
		return v.Kind != graph.Computed && v.Kind != graph.Input
	}
	if held(mean) && held(variance) {
		return nil, nil
	}
	square := b.Op("Reciprocal", nil, b.Op("Add", nil, variance, num(b, variance, n.Float("epsilon"))))
	scale := cast(b, n.Inputs[1], variance.Type)
	if !held(mean) {
		slope := b.Op("Mul", nil, scale, b.Op("Sqrt", nil, square))
		dMean = cast(b, b.Op("Neg", nil, b.Op("Mul", nil, cast(b, dB, variance.Type), slope)), mean.Type)
	}
	if !held(variance) {
		slope := b.Op("Mul", nil, b.Op("Mul", nil, scale, square), num(b, variance, -0.5))
		dVar = b.Op("Mul", nil, cast(b, dScale, variance.Type), slope)
	}
	return dMean, dVar
}

// Opset 14 introduced training_mode; all statistics have one type.
var _ = define(graph.Op{
	Name:  "BatchNormalization",
	Since: 14,
	Doc:   "the form of opset 14, with fewer element types",
	In:    "X, scale, B, input_mean, input_var",
	Out:   "Y, running_mean?, running_var?",
	Attrs: "epsilon float=1e-5, momentum float=0.9, training_mode int=0",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		attrs := graph.A{"epsilon": n.Float("epsilon"), "momentum": n.Float("momentum"), "training_mode": n.Int("training_mode")}
		return b.Ops("BatchNormalization", attrs, len(n.Outputs), n.Inputs...)
	},
})

// Before opset 14, more than one output means training.
var _ = define(graph.Op{
	Name:  "BatchNormalization",
	Since: 9,
	Doc:   "the form of opset 9, which trains if it has more than one output",
	In:    "X, scale, B, mean, var",
	Out:   "Y, running_mean?, running_var?, saved_mean?, saved_var?",
	Attrs: "epsilon float=1e-5, momentum float=0.9",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return trainedByOutputs(b, n, len(n.Outputs) > 1)
	},
})

// Opset 7 has attribute spatial: 0 means statistics for every position of a channel.
var _ = define(graph.Op{
	Name:  "BatchNormalization",
	Since: 7,
	Doc:   "the form of opset 7; only spatial=1 is supported",
	In:    "X, scale, B, mean, var",
	Out:   "Y, running_mean?, running_var?, saved_mean?, saved_var?",
	Attrs: "epsilon float=1e-5, momentum float=0.9, spatial int=1",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		wantSpatial(n)
		return trainedByOutputs(b, n, len(n.Outputs) > 1)
	},
})

// Before opset 7, attribute is_test distinguishes inference from training.
var _ = define(graph.Op{
	Name:  "BatchNormalization",
	Since: 6,
	Doc:   "the form of opset 6; only spatial=1 is supported",
	In:    "X, scale, B, mean, var",
	Out:   "Y, running_mean?, running_var?, saved_mean?, saved_var?",
	Attrs: "epsilon float=1e-5, is_test int=0, momentum float=0.9, spatial int=1",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		wantSpatial(n)
		return trainedByOutputs(b, n, len(n.Outputs) > 1 && n.Int("is_test") == 0)
	},
})

func wantSpatial(n *graph.Node) {
	if n.Int("spatial") != 1 {
		n.Fail("spatial is %d; only statistics for whole channels (spatial=1) are supported", n.Int("spatial"))
	}
}

func trainedByOutputs(b *graph.Builder, n *graph.Node, trains bool) []*graph.Value {
	if len(n.Outputs) > 3 {
		n.Fail("outputs saved_mean and saved_var are not supported")
	}
	attrs := graph.A{"epsilon": n.Float("epsilon"), "momentum": n.Float("momentum"), "training_mode": trains}
	return b.Ops("BatchNormalization", attrs, len(n.Outputs), n.Inputs...)
}

// batchNorm views x as [n, channels, inner]. Each channel is computed by one worker.
type batchNorm struct {
	n, channels, inner int
	eps                float64
	par                f32.Parallel
	quick              bool // x is float32: use the f32 loops
}

func newBatchNorm(n *graph.Node, x *graph.Tensor) batchNorm {
	bn := batchNorm{n: x.Shape[0], channels: 1, inner: 1, eps: n.Float("epsilon"), par: f32.Serial}
	if len(x.Shape) > 1 {
		bn.channels, bn.inner = x.Shape[1], index.Elems(x.Shape[2:])
	}
	return bn
}

// shared returns bn with all workers and, for float32, the quick loops.
func (bn batchNorm) shared(par f32.Parallel, x *graph.Tensor) batchNorm {
	bn.par, bn.quick = par, x.Type == graph.Float32
	return bn
}

// eachPart calls f with the element bounds of a channel in each sample.
func (bn batchNorm) eachPart(channel int, f func(lo, hi int)) {
	for i := range bn.n {
		lo := (i*bn.channels + channel) * bn.inner
		f(lo, lo+bn.inner)
	}
}

// stats returns a channel's mean and population variance.
func (bn batchNorm) stats(x *graph.Tensor, channel int) (mean, variance float64) {
	count := float64(bn.n * bn.inner)
	sum := 0.0
	bn.eachPart(channel, func(lo, hi int) {
		if bn.quick {
			sum += f32.SumNear(x.F32()[lo:hi])
			return
		}
		for i := lo; i < hi; i++ {
			sum += x.Float(i)
		}
	})
	mean = sum / count
	sum = 0
	bn.eachPart(channel, func(lo, hi int) {
		if bn.quick {
			sum += f32.Spread(x.F32()[lo:hi], mean)
			return
		}
		for i := lo; i < hi; i++ {
			d := x.Float(i) - mean
			sum += d * d
		}
	})
	return mean, sum / count
}

// grain is the least number of channels worth a worker.
func (bn batchNorm) grain() int { return 1 + f32.Grain/4/max(1, bn.n*bn.inner) }

func (bn batchNorm) run(c *graph.Call) {
	x, y := c.In[0], c.Out[0]
	training, momentum := c.Node.Int("training_mode") != 0, c.Node.Float("momentum")
	bn.par(bn.channels, bn.grain(), func(first, last int) {
		for ch := first; ch < last; ch++ {
			mean, variance := c.In[3].Float(ch), c.In[4].Float(ch)
			if training {
				m, v := bn.stats(x, ch)
				if out := output(c, 1); out != nil {
					out.SetFloat(ch, mean*momentum+m*(1-momentum))
				}
				if out := output(c, 2); out != nil {
					out.SetFloat(ch, variance*momentum+v*(1-momentum))
				}
				mean, variance = m, v
				if out := output(c, 3); out != nil {
					out.SetFloat(ch, m)
				}
				if out := output(c, 4); out != nil {
					out.SetFloat(ch, 1/math.Sqrt(v+bn.eps))
				}
			}
			gain, bias := c.In[1].Float(ch)/math.Sqrt(variance+bn.eps), c.In[2].Float(ch)
			bn.eachPart(ch, func(lo, hi int) {
				if bn.quick {
					x, y := x.F32()[lo:hi], y.F32()[lo:hi]
					f32.Shift(y, x, float32(mean), float32(gain), float32(bias))
					return
				}
				for i := lo; i < hi; i++ {
					y.SetFloat(i, (x.Float(i)-mean)*gain+bias)
				}
			})
		}
	})
}

var _ = define(graph.Op{
	Name:   "BatchNormalizationGrad",
	Domain: own,
	Doc:    "dX, dscale and dB of BatchNormalization; in training from X alone",
	In:     "dY, X, scale, mean?, var?, dmean?, dvar?",
	Out:    "dX, dscale?, dB?",
	Attrs:  "epsilon float=1e-5, training_mode int=0",
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		if n.Int("training_mode") == 0 && (n.In(3) == nil || n.In(4) == nil) {
			n.Fail("mean and var are needed, unless training_mode is 1")
		}
		n.Set(0, n.Inputs[1].Type, n.Inputs[1].Shape)
		n.Set(1, n.Inputs[2].Type, n.Inputs[2].Shape)
		n.Set(2, n.Inputs[2].Type, n.Inputs[2].Shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { newBatchNorm(c.Node, c.In[1]).ownGrad(c) },
	Fast:      func(c *graph.Call) { newBatchNorm(c.Node, c.In[1]).shared(c.Parallel, c.In[1]).ownGrad(c) },
	Lower:     lowerBatchNormGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Outputs[0].Shape.Elems().Mul(graph.Num(12)) },
	Tests:     graph.Tests{Work: eachIn(1, 12)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3,4], f32[2,3,4], f32[3], f32[3], f32[3]>0",
		"f32[2,3,4], f32[2,3,4], f32[3]; training_mode=1",
		"f32[2,3,2,2], f32[2,3,2,2], f32[3], _, _, f32[3], f32[3]; training_mode=1",
		"f32[2,2,300], f32[2,2,300], f32[2]; training_mode=1 -> x, s",
		"f64[4,3], f64[4,3], f64[3]; training_mode=1",
	},
})

// ownGrad is the gradient that computes a training batch's statistics again from x.
func (bn batchNorm) ownGrad(c *graph.Call) {
	training := c.Node.Int("training_mode") != 0
	bn.grad(c, training, func(ch int) (mean, inv float64) {
		var variance float64
		if training {
			mean, variance = bn.stats(c.In[1], ch)
		} else {
			mean, variance = c.In[3].Float(ch), c.In[4].Float(ch)
		}
		return mean, 1 / math.Sqrt(variance+bn.eps)
	})
}

// grad computes, with x̂ = (x − mean)·inv and gain = scale·inv,
//
//	dx = gain·(dy − mean(dy) − x̂·mean(dy·x̂))   in training
//	dx = gain·dy                                otherwise
//
// Gradients of the batch's mean and variance add dmean/count + dvar·2(x − mean)/count.
func (bn batchNorm) grad(c *graph.Call, training bool, stats func(channel int) (mean, inv float64)) {
	dy, x, dx := c.In[0], c.In[1], c.Out[0]
	count := float64(bn.n * bn.inner)
	bn.par(bn.channels, bn.grain(), func(first, last int) {
		for ch := first; ch < last; ch++ {
			mean, inv := stats(ch)
			var sumD, sumDX float64
			bn.eachPart(ch, func(lo, hi int) {
				if bn.quick {
					dy, x := dy.F32()[lo:hi], x.F32()[lo:hi]
					d, dx := f32.ChannelDots(dy, x, mean)
					sumD, sumDX = sumD+d, sumDX+dx
					return
				}
				for i := lo; i < hi; i++ {
					sumD += dy.Float(i)
					sumDX += dy.Float(i) * (x.Float(i) - mean)
				}
			})
			gain := c.In[2].Float(ch) * inv
			if out := output(c, 1); out != nil {
				out.SetFloat(ch, sumDX*inv)
			}
			if out := output(c, 2); out != nil {
				out.SetFloat(ch, sumD)
			}
			// dx = gain·dy + slope·(x − mean) + more
			slope, more := 0.0, 0.0
			if training {
				slope, more = -gain*sumDX*inv*inv/count, -gain*sumD/count
				if d := input(c, 5); d != nil {
					more += d.Float(ch) / count
				}
				if d := input(c, 6); d != nil {
					slope += 2 * d.Float(ch) / count
				}
			}
			bn.eachPart(ch, func(lo, hi int) {
				if bn.quick {
					dy, x, dx := dy.F32()[lo:hi], x.F32()[lo:hi], dx.F32()[lo:hi]
					f32.ChannelSlope(dx, dy, x, float32(mean), float32(gain), float32(slope), float32(more))
					return
				}
				for i := lo; i < hi; i++ {
					dx.SetFloat(i, gain*dy.Float(i)+slope*(x.Float(i)-mean)+more)
				}
			})
		}
	})
}

func lowerBatchNormGrad(l *graph.Lowering) {
	if lower.In(l, 5) != nil || lower.In(l, 6) != nil {
		l.Refuse("there is no kernel for gradients of the batch's statistics")
		return
	}
	lower.Channels(l, true, lower.StatisticsOf(l.Node), 1, lower.Reads(0))
}
