package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// FusedConv is ONNX Runtime's fusion of Conv, Add and an activation.
var _ = define(graph.Op{
	Name:   "FusedConv",
	Domain: microsoft,
	Doc:    "Y = activation(W convolved with X, + B for each channel, + Z)",
	In:     "X, W, B?, Z?",
	Out:    "Y",
	Attrs:  convAttrs + ", activation string, activation_params floats",
	Infer: func(n *graph.Node) {
		fusedActivation(n)
		m := convOnly(n)
		m.Op.Infer(m)
		if z := n.In(3); z != nil {
			wantType(n, 3, func(t graph.DType) bool { return t == n.Inputs[0].Type }, "the type of X")
			sameDims(n, z.Shape, n.Outputs[0].Shape)
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		if op := fusedActivation(n); op != nil {
			dy = []*graph.Value{b.Op(microsoft+"."+op.Name+"Grad", nil, dy[0], n.Outputs[0])}
		}
		m := convOnly(n)
		dx := make([]*graph.Value, len(n.Inputs))
		copy(dx, m.Op.Grad(b, m, dy))
		if n.In(3) != nil {
			dx[3] = dy[0]
		}
		return dx
	},
	Eval:  func(c *graph.Call) { fusedConv(c, plainForm) },
	Fast:  func(c *graph.Call) { fusedConv(c, fastForm) },
	Lower: lowerFusedConv,
	Flops: func(n *graph.Node) graph.Dim {
		return convFlops(n.Outputs[0].Shape, n.Inputs[1].Shape).Add(perElement(12)(n))
	},
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 { return c.out(0) * (2*visits(c.In[1].Shape[1:]...) + 12) }),
		Pieces: []string{
			"f32[20,2,8,8], f32[4,2,3,3], f32[4], f32[20,4,8,8]; pads=[1, 1, 1, 1] activation=\"Relu\"",
		},
	},
	Recompute: graph.Heavy,
	Kernel:    graph.ConvolutionKernel,
	Samples: []string{
		`f32[2,3,7], f32[4,3,3], f32[4]; activation="Relu"`,
		`f32[1,4,6,6], f32[4,2,3,3]; group=2 pads=[1, 0, 2, 1] activation="Tanh"`,
		`f32[2,2,5,5], f32[2,2,3,3], f32[2], f32[2,2,3,3]; activation="Sigmoid"`,
		"f32[1,2,4,9], f32[3,2,1,1], _, f32[1,3,4,9]",
		`f16[1,2,4,4], f16[2,2,3,3], f16[2]; activation="Relu"`,
		"f32[0,3,7], f32[4,3,3], f32[4]; activation=\"Relu\"",
	},
})

// convOnly is the node without Z and the activation, as a Conv.
func convOnly(n *graph.Node) *graph.Node {
	m := seenAs(n, "Conv", 1)
	m.Inputs, m.Attrs = n.Inputs[:min(3, len(n.Inputs))], nil
	for len(m.Inputs) > 2 && m.Inputs[len(m.Inputs)-1] == nil {
		m.Inputs = m.Inputs[:len(m.Inputs)-1]
	}
	for _, a := range n.Attrs {
		if a.Name != "activation" && a.Name != "activation_params" {
			m.Attrs = append(m.Attrs, a)
		}
	}
	return m
}

func fusedConv(c *graph.Call, form func(*graph.Op) func(*graph.Call)) {
	d := *c
	d.Node, d.In = convOnly(c.Node), c.In[:min(3, len(c.In))]
	form(d.Node.Op)(&d)
	if z := input(c, 3); z != nil {
		// y + z, over y.
		sum := *c
		m := *c.Node
		m.Op, m.Attrs = Library.Find("", "Add", 0), nil
		sum.Node, sum.In = &m, []*graph.Tensor{c.Out[0], z}
		form(m.Op)(&sum)
	}
	activate(c, form)
}

// lowerFusedConv is Conv, then Add and the activation in place.
func lowerFusedConv(l *graph.Lowering) {
	if !lower.OnlyF32(l) {
		return
	}
	convOf(convOnly(l.Node), l.In[0].Shape, l.In[1].Shape, l.Out[0].Shape).Append(l, lower.ConvOut, 0, lower.Reads(0), lower.Reads(1), lower.Present(l, 2))
	if z := lower.In(l, 3); z != nil {
		activationForm.Append(l, plusTerm, l.Out[0], []*graph.Operand{l.Out[0], z}, []graph.Buffer{lower.Writes(0), lower.Rereads(0), lower.Reads(3)})
	}
	lowerActivation(l)
}
