package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// BatchNormInternal is ONNX Runtime's training form of BatchNormalization: it also outputs
// the batch's statistics, for BatchNormalizationGrad to read.
var _ = define(graph.Op{
	Name:   "BatchNormInternal",
	Domain: microsoft,
	Doc:    "BatchNormalization, with the batch's mean and 1/√(var + ε) as outputs",
	In:     "X, scale, B, input_mean, input_var",
	Out:    "Y, running_mean?, running_var?, saved_mean?, saved_inv_std?",
	Attrs:  "epsilon float=1e-5, momentum float=0.9, training_mode int=0",
	Infer: func(n *graph.Node) {
		m := seenAs(n, "BatchNormalization", min(3, len(n.Outputs)))
		m.Op.Infer(m)
		if n.Int("training_mode") == 0 && (n.Output(3) != nil || n.Output(4) != nil) {
			n.Fail("the batch's statistics are outputs only with training_mode 1")
		}
		n.Set(3, n.Inputs[3].Type, n.Inputs[3].Shape)
		n.Set(4, n.Inputs[4].Type, n.Inputs[4].Shape)
	},
	// Our gradient is BatchNormalization's, which needs only x. Gradients of the batch's
	// statistics are added to those of the running statistics.
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		m := seenAs(n, "BatchNormalization", min(3, len(n.Outputs)))
		flow := make([]*graph.Value, 5)
		copy(flow, dy)
		if flow[3] == nil && flow[4] == nil {
			return m.Op.Grad(b, m, flow[:3])
		}
		if flow[0] == nil {
			flow[0] = zerosLike(b, n.Outputs[0])
		}
		momentum, dx := n.Float("momentum"), make([]*graph.Value, 5)
		into := func(running, batch *graph.Value, old int) *graph.Value {
			if running == nil {
				return batch
			}
			dx[old] = scaled(b, running, momentum)
			if running = scaled(b, running, 1-momentum); batch == nil {
				return running
			}
			return b.Op("Add", nil, running, batch)
		}
		if inv := flow[4]; inv != nil {
			// inv = (var + ε)^−½
			at := n.Outputs[4]
			flow[4] = scaled(b, b.Op("Mul", nil, inv, b.Op("Mul", nil, at, b.Op("Mul", nil, at, at))), -0.5)
		}
		mean, variance := into(flow[1], flow[3], 3), into(flow[2], flow[4], 4)
		attrs := graph.A{"epsilon": n.Float("epsilon"), "training_mode": 1}
		copy(dx, b.Ops(own+".BatchNormalizationGrad", attrs, 3, flow[0], n.Inputs[0], n.Inputs[1], nil, nil, mean, variance))
		return dx
	},
	Eval:  func(c *graph.Call) { newBatchNorm(c.Node, c.In[0]).run(c) },
	Fast:  func(c *graph.Call) { newBatchNorm(c.Node, c.In[0]).shared(c.Parallel, c.In[0]).run(c) },
	Lower: lower.BatchNorm,
	Flops: func(n *graph.Node) graph.Dim {
		return n.Inputs[0].Shape.Elems().Mul(graph.Num(2 + 4*int64(n.Int("training_mode"))))
	},
	Tests:     graph.Tests{Work: batchNormWork},
	Recompute: graph.Cheap,
	InPlace:   []int{0},
	Samples: []string{
		"f32[2,3,4], f32[3], f32[3], f32[3], f32[3]>0 -> y",
		"f32[2,3,2,2], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1 momentum=0.7 -> y, m, v",
		"f16[2,3,2], f16[3], f16[3], f32[3], f32[3]>0; training_mode=1 -> y, m, v, s, i",
		"f32[2,3,2], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1 -> y, m",
		"f32[2,3,5], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1 -> y, m, v, s, i",
		"f16[2,2,300], f16[2], f16[2], f16[2], f16[2]>0; training_mode=1 -> y, _, _, s, i",
		"f32[2,3,0], f32[3], f32[3], f32[3], f32[3]>0; training_mode=1 -> y, m, v",
		"f32[0,3,4], f32[3], f32[3], f32[3], f32[3]>0 -> y",
	},
})

var _ = define(graph.Op{
	Name:   "BatchNormalizationGrad",
	Domain: microsoft,
	Doc:    "dX, dscale and dB of BatchNormalization in training, from X and its kept statistics",
	In:     "dY, X, scale, mean, inv_std",
	Out:    "X_grad, scale_grad?, bias_grad?",
	Attrs:  "epsilon float=1e-5",
	Infer: func(n *graph.Node) {
		x, scale := n.Inputs[1], n.Inputs[2]
		sameDims(n, n.Inputs[0].Shape, x.Shape)
		if x.Rank() < 1 {
			n.Fail("the input is a scalar; [N, C, …] expected")
		}
		channels := graph.Num(1)
		if x.Rank() > 1 {
			channels = x.Shape[1]
		}
		for i, v := range n.Inputs {
			wantType(n, i, isFloat, "floats")
			if i > 1 {
				n.Same(v.Shape.Elems(), channels, "channels")
			}
		}
		if n.Inputs[0].Type != x.Type {
			n.Fail("dY is %s, but X is %s", n.Inputs[0].Type, x.Type)
		}
		n.Set(0, x.Type, x.Shape)
		n.Set(1, scale.Type, scale.Shape)
		n.Set(2, scale.Type, scale.Shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { newBatchNorm(c.Node, c.In[1]).keptGrad(c) },
	Fast:      func(c *graph.Call) { newBatchNorm(c.Node, c.In[1]).shared(c.Parallel, c.In[1]).keptGrad(c) },
	Lower:     lowerKeptBatchNormGrad,
	Flops:     scoresFlops(1, 8),
	Tests:     graph.Tests{Work: eachIn(1, 8)},
	Recompute: graph.Cheap,
	InPlace:   []int{0, 1},
	Samples: []string{
		"f32[2,3,4], f32[2,3,4], f32[3], f32[3], f32[3]>0",
		"f32[2,3,2,2], f32[2,3,2,2], f32[3], f32[3], f32[3]>0 -> x, _, b",
		"f32[2,2,300], f32[2,2,300], f32[2], f32[2], f32[2]>0",
		"f16[4,3], f16[4,3], f16[3], f32[3], f32[3]>0",
	},
})

// keptGrad is the training gradient with mean and 1/√(var + ε) from inputs 3 and 4.
func (bn batchNorm) keptGrad(c *graph.Call) {
	bn.grad(c, true, func(ch int) (mean, inv float64) { return c.In[3].Float(ch), c.In[4].Float(ch) })
}

func lowerKeptBatchNormGrad(l *graph.Lowering) {
	lower.Channels(l, true, lower.KeptStatistics, 1, lower.Reads(0))
}
