package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

// Gradient is written out as the nodes of the operators' gradient rules while a
// file is read. It names the values that it is of; what is fed for them must be
// those values themselves.
var _ = define(graph.Op{
	Name:   "Gradient",
	Domain: previewTraining,
	Since:  1,
	Doc:    "the gradients of y, as sums over its elements, for each of xs",
	In:     "inputs...",
	Out:    "outputs...",
	Attrs:  "xs strings, y string, zs strings",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		xs, zs := stringsOf(n, "xs"), stringsOf(n, "zs")
		y := b.Graph.ByName(n.Str("y"))
		if y == nil {
			n.Fail("y %q is made by no node before this one", n.Str("y"))
		}
		if !y.Type.IsFloat() {
			n.Fail("y %q is %s; floats expected", y.Name, y.Type)
		}
		if len(n.Inputs) != len(xs)+len(zs) {
			n.Fail("%d inputs for %d names in xs and zs", len(n.Inputs), len(xs)+len(zs))
		}
		for i, name := range slices.Concat(xs, zs) {
			if n.Inputs[i] == nil || n.Inputs[i].Name != name {
				n.Fail("input %d is not %q; other values than those of the graph cannot be fed", i, name)
			}
		}
		if len(n.Outputs) > len(xs) {
			n.Fail("%d outputs for %d names in xs", len(n.Outputs), len(xs))
		}
		return reverse(b, n, y, n.Inputs[:len(n.Outputs)])
	},
})

func stringsOf(n *graph.Node, name string) []string {
	s, _ := n.Attr(name).([]string)
	return s
}

// maxReverse bounds the graph that is walked, because gradients of gradients
// double what a few bytes of a file say.
const maxReverse = 1 << 14

// reverse walks the graph so far from y back to xs. These are independent of
// what made them.
func reverse(b *graph.Builder, n *graph.Node, y *graph.Value, xs []*graph.Value) []*graph.Value {
	nodes := slices.Clip(b.Graph.Nodes)
	if len(nodes) > maxReverse {
		n.Fail("the graph has %d nodes; gradients of at most %d are written out", len(nodes), maxReverse)
	}
	needs := make([]bool, len(b.Graph.Values)) // by value ID: depends on xs through floats
	isX := make([]bool, len(b.Graph.Values))
	for _, x := range xs {
		needs[x.ID], isX[x.ID] = true, true
	}
	needed := func(v *graph.Value) bool { return v != nil && needs[v.ID] }
	for _, m := range nodes {
		if m.Op.NoGrad || !slices.ContainsFunc(m.Inputs, needed) {
			continue
		}
		for _, v := range m.Outputs {
			if v != nil && v.Type.IsFloat() {
				needs[v.ID] = true
			}
		}
	}
	sum := make([]*graph.Value, len(needs)) // by value ID: the gradient so far
	flows := func(v, d *graph.Value) {
		if was := sum[v.ID]; was != nil {
			d = b.Op("Add", nil, was, d)
		}
		sum[v.ID] = d
	}
	one := graph.NewTensor(y.Type, 1)
	one.SetFloat(0, 1)
	flows(y, b.Op("ConstantOfShape", graph.A{"value": one}, shapeOf(b, y)))
	for _, m := range slices.Backward(nodes) {
		dy := make([]*graph.Value, len(m.Outputs))
		some := false
		for i, v := range m.Outputs {
			if needed(v) && sum[v.ID] != nil && !isX[v.ID] {
				dy[i], some = sum[v.ID], true
			}
		}
		if !some || !slices.ContainsFunc(m.Inputs, needed) {
			continue
		}
		if m.Op.Grad == nil {
			n.Fail("node %q (%s) has no gradient", m.Name, m.Op.FullName())
		}
		for i, d := range m.Op.Grad(b, m, dy) {
			if d != nil && needed(m.Inputs[i]) {
				flows(m.Inputs[i], d)
			}
		}
	}
	out := make([]*graph.Value, len(xs))
	for i, x := range xs {
		if out[i] = sum[x.ID]; out[i] == nil {
			out[i] = zerosLike(b, x)
		}
	}
	return out
}
