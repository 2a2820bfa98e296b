package kernels

import (
	"slices"

	"memopt/internal/graph"
)

// Gradient (ai.onnx.preview.training) is expanded into the nodes of the gradient rules while
// a file is read. It names y and xs; its inputs must be these values themselves, as
// gradients at other points are not supported.
var _ = define(graph.Op{
	Name:   "Gradient",
	Domain: previewTraining,
	Since:  1,
	Doc:    "the gradients of the sum of y with respect to each of xs",
	In:     "inputs...",
	Out:    "outputs...",
	Attrs:  "xs strings, y string, zs strings",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		xs, zs := stringsOf(n, "xs"), stringsOf(n, "zs")
		y := b.Graph.ByName(n.Str("y"))
		if y == nil {
			n.Fail("y %q is not computed before this node", n.Str("y"))
		}
		if !y.Type.IsFloat() {
			n.Fail("y %q is %s; floats expected", y.Name, y.Type)
		}
		if len(n.Inputs) != len(xs)+len(zs) {
			n.Fail("%d inputs for %d names in xs and zs", len(n.Inputs), len(xs)+len(zs))
		}
		for i, name := range slices.Concat(xs, zs) {
			if n.Inputs[i] == nil || n.Inputs[i].Name != name {
				n.Fail("input %d is not %q; gradients at other values than the graph's are not supported", i, name)
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

// maxReverse bounds the graph that is walked: nested Gradient nodes grow it exponentially,
// so a small file could otherwise take all memory.
const maxReverse = 1 << 14

// reverse differentiates the graph so far from y back to xs, which count as independent:
// gradients do not propagate through one of xs to another.
func reverse(b *graph.Builder, n *graph.Node, y *graph.Value, xs []*graph.Value) []*graph.Value {
	nodes := slices.Clip(b.Graph.Nodes)
	if len(nodes) > maxReverse {
		n.Fail("the graph has %d nodes; Gradient supports at most %d", len(nodes), maxReverse)
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
