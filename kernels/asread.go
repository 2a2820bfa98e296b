package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// intoOurs lists operators of ONNX that are rewritten into operators of our own, at
// least for some attributes.
var intoOurs = []string{"Attention", "Bernoulli", "GRU", "LSTM", "RNN", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

// AsRead is the library in which operators that would be rewritten into some of our
// own stand as a file has them. A graph that is written for other runtimes is read by
// it; such nodes are neither run nor differentiated.
func AsRead() *graph.Library {
	var forms []graph.Op
	for _, op := range Library.All() {
		if op.Domain == "" && op.Rewrite != nil && slices.Contains(intoOurs, op.Name) {
			form := *op
			form.Rewrite, form.Infer = nil, inferByRewrite(op)
			forms = append(forms, form)
		}
	}
	return Library.With(forms...)
}

// inferByRewrite takes types and shapes from what an operator is rewritten into.
func inferByRewrite(op *graph.Op) func(n *graph.Node) {
	return func(n *graph.Node) {
		b := graph.NewBuilder(graph.New(Library, ""))
		m, made := *n, map[*graph.Value]*graph.Value{}
		m.Inputs = slices.Clone(n.Inputs)
		for i, v := range n.Inputs {
			if v == nil {
				continue
			}
			if made[v] == nil {
				in, err := b.Define(graph.Input, v.Name, v.Type, v.Shape)
				if err != nil {
					n.Fail("input %d: %v", i, err)
				}
				in.Ints = v.Ints
				made[v] = in
			}
			m.Inputs[i] = made[v]
		}
		for i, v := range op.Rewrite(b, &m) {
			n.Set(i, v.Type, v.Shape)
		}
		for _, a := range b.Graph.Assumed {
			n.Same(a.A, a.B, "sizes")
		}
	}
}
