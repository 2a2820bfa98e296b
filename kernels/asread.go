package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// intoOurs lists the ONNX operators that some attribute values rewrite into operators of
// domain memopt.
var intoOurs = []string{"Attention", "Bernoulli", "GRU", "LSTM", "RNN", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

// AsRead is the library without the rewrites into domain memopt: the operators of
// intoOurs stay as the file has them. It reads graphs that are written back for other
// runtimes; these nodes can be neither run nor differentiated.
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

// inferByRewrite infers types and shapes from the nodes that an operator is rewritten into.
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
