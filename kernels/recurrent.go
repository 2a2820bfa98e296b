package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// ONNX's recurrent layers are rewritten into a product of all inputs with W and a Recurrence,
// for each direction.

const recurrentAttrs = "activation_alpha floats, activation_beta floats, activations strings, clip float=0, " +
	"direction string=forward, hidden_size int=0, layout int=0"

var _ = define(graph.Op{
	Name:    "RNN",
	Since:   7,
	Doc:     "h(t) = f(X(t)·Wᵀ + h(t−1)·Rᵀ + b)",
	In:      "X, W, R, B?, sequence_lens?, initial_h?",
	Out:     "Y?, Y_h?",
	Attrs:   recurrentAttrs,
	Samples: []string{"f32[2,3,4], f32[1,3,4], f32[1,3,3] -> y"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value { return recurrent(b, n, "rnn", nil) },
})

var _ = define(graph.Op{
	Name:    "GRU",
	Since:   7,
	Doc:     "a gated recurrent unit layer, with an update and a reset gate",
	In:      "X, W, R, B?, sequence_lens?, initial_h?",
	Out:     "Y?, Y_h?",
	Attrs:   recurrentAttrs + ", linear_before_reset int=0",
	Samples: []string{"f32[2,3,4], f32[1,9,4], f32[1,9,3] -> y"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return recurrent(b, n, "gru", graph.A{"linear_before_reset": n.Int("linear_before_reset")})
	},
})

var _ = define(graph.Op{
	Name:    "LSTM",
	Since:   7,
	Doc:     "a long short-term memory layer, with a cell, an input, an output and a forget gate",
	In:      "X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?",
	Out:     "Y?, Y_h?, Y_c?",
	Attrs:   recurrentAttrs + ", input_forget int=0",
	Samples: []string{"f32[2,3,4], f32[1,12,4], f32[1,12,3] -> y"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return recurrent(b, n, "lstm", graph.A{"input_forget": n.Int("input_forget")})
	},
})

var directions = map[string][]int{"forward": {0}, "reverse": {1}, "bidirectional": {0, 1}}

// recurrent builds the nodes of one of the three layers.
func recurrent(b *graph.Builder, n *graph.Node, cell string, attrs graph.A) []*graph.Value {
	reversed, ok := directions[n.Str("direction")]
	if !ok {
		n.Fail("direction is %q, not forward, reverse or bidirectional", n.Str("direction"))
	}
	x, w, r := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	if x.Rank() != 3 || w.Rank() != 3 || r.Rank() != 3 {
		n.Fail("X must be [seq, batch, inputs], W [directions, gates·hidden, inputs] and R [directions, gates·hidden, hidden], but they are %s, %s and %s",
			x.Shape, w.Shape, r.Shape)
	}
	for i, rank := range []int{3: 2, 5: 3, 6: 3, 7: 2} {
		if v := n.In(i); rank > 0 && v != nil && v.Rank() != rank {
			n.Fail("input %d has shape %s; %d dims expected", i, v.Shape, rank)
		}
	}
	if h := n.Int("hidden_size"); h != 0 {
		n.Same(r.Shape[2], graph.Num(int64(h)), "hidden sizes")
	}
	for _, v := range []*graph.Value{w, r} {
		n.Same(v.Shape[0], graph.Num(int64(len(reversed))), "directions")
	}
	batchFirst := n.Int("layout") != 0
	if batchFirst {
		x = transpose(b, x, 1, 0, 2)
	}
	rows := w.Shape[1]
	names, alpha, beta := perDirection(n, cell, len(reversed))
	var outs [3][]*graph.Value
	for i, back := range reversed {
		of := func(input int) *graph.Value { return direction(b, n.In(input), i, 0) }
		z := b.Op(microsoft+".FusedMatMul", graph.A{"transB": 1}, x, of(1))
		in := []*graph.Value{z, of(2), nil, n.In(4), nil, nil, nil}
		if bias := of(3); bias != nil {
			n.Same(bias.Shape[0], rows.Mul(graph.Num(2)), "biases")
			parts := b.Ops("Split", graph.A{"axis": 0}, 2, bias, b.Ints(rows, rows))
			in[0], in[2] = b.Op("Add", nil, z, parts[0]), parts[1]
		}
		stateAxis := 0
		if batchFirst {
			stateAxis = 1
		}
		in[4] = direction(b, n.In(5), i, stateAxis)
		if cell == "lstm" {
			in[5], in[6] = direction(b, n.In(6), i, stateAxis), of(7)
		}
		a := graph.A{"cell": cell, "reverse": back, "clip": n.Float("clip"), "activations": names[i]}
		if len(alpha[i]) > 0 {
			a["activation_alpha"] = alpha[i]
		}
		if len(beta[i]) > 0 {
			a["activation_beta"] = beta[i]
		}
		for k, v := range attrs {
			a[k] = v
		}
		for k, y := range b.Ops(own+".Recurrence", a, 2+cells[cell].states, in...) {
			axis := int64(0)
			if k == 0 || batchFirst {
				axis = 1
			}
			outs[k] = append(outs[k], b.Op("Unsqueeze", nil, y, b.Ints(graph.Num(axis))))
		}
	}
	made := make([]*graph.Value, len(n.Outputs))
	for k := range made {
		axis := 0
		if k == 0 || batchFirst {
			axis = 1
		}
		made[k] = outs[k][0]
		if len(outs[k]) > 1 {
			made[k] = b.Op("Concat", graph.A{"axis": axis}, outs[k]...)
		}
		if k == 0 && batchFirst {
			made[k] = transpose(b, made[k], 2, 0, 1, 3)
		}
	}
	return made
}

// direction is the part of an input for direction i, without the axis of directions.
func direction(b *graph.Builder, v *graph.Value, i, axis int) *graph.Value {
	if v == nil {
		return nil
	}
	at := b.Ints(graph.Num(int64(axis)))
	part := b.Op("Slice", nil, v, b.Ints(graph.Num(int64(i))), b.Ints(graph.Num(int64(i+1))), at)
	return b.Op("Squeeze", nil, part, at)
}

// perDirection splits the lists of activations and their parameters by direction.
func perDirection(n *graph.Node, cell string, directions int) (names [][]string, alpha, beta [][]float64) {
	given, _ := n.Attr("activations").([]string)
	if len(given) == 0 {
		for range directions {
			given = append(given, cells[cell].activations...)
		}
	}
	each := len(cells[cell].activations)
	if len(given) != each*directions {
		n.Fail("%d activations are given; %d expected", len(given), each*directions)
	}
	alphas, betas := n.Floats("activation_alpha"), n.Floats("activation_beta")
	takes := func(list *[]float64, does func(name string) bool, names []string) []float64 {
		count := 0
		for _, name := range names {
			if does(name) {
				count++
			}
		}
		count = min(count, len(*list))
		out := slices.Clone((*list)[:count])
		*list = (*list)[count:]
		return out
	}
	for d := range directions {
		mine := given[d*each : (d+1)*each]
		names = append(names, mine)
		alpha = append(alpha, takes(&alphas, func(s string) bool { return activationKinds[s].takesAlpha }, mine))
		beta = append(beta, takes(&betas, func(s string) bool { return activationKinds[s].takesBeta }, mine))
	}
	return names, alpha, beta
}
