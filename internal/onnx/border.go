package onnx

import (
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Files of ONNX Runtime's trainer have a forward and a backward pass, separated by a border: a
// node of an operator with Op.Border. The forward pass is the border and the nodes that it
// depends on; the rest is the backward pass. Nodes do not say which they are in, except for
// marks on some.

// gradSuffix is appended to an input's name to name its gradient.
const gradSuffix = "_grad"

// marks are attributes of exporters that no operator reads: the pass that made the node, and
// its PyTorch function.
var marks = []string{"__backwardpass", "operator", "overload_name"}

// withoutMarks drops the marks that the operator does not declare.
func withoutMarks(attrs []graph.Attr, op *graph.Op) []graph.Attr {
	if op == nil {
		return attrs
	}
	return slices.DeleteFunc(attrs, func(a graph.Attr) bool {
		return slices.Contains(marks, a.Name) &&
			!slices.ContainsFunc(op.AttrSpecs(), func(s graph.AttrSpec) bool { return s.Name == a.Name })
	})
}

// border is the node that ends the forward pass, or nil.
func (r *reader) border() *graph.Node {
	var border *graph.Node
	for _, n := range r.b.Graph.Nodes {
		if !n.Op.Border {
			continue
		}
		if border != nil {
			fail("nodes %s and %s (%s) both end the forward pass", quote(border.Name), quote(n.Name), n.Op.FullName())
		}
		border = n
	}
	return border
}

// borderFacts derives outputs, loss and gradients from a border. Its inputs are the results of
// the forward pass, and the first scalar one is the loss.
func (r *reader) borderFacts(top *scope) {
	border := r.border()
	if border == nil {
		return
	}
	g := r.b.Graph
	for i, name := range top.outputs {
		param, isGrad := strings.CutSuffix(name, gradSuffix)
		if v := top.values[param]; isGrad && v != nil && v.Kind != graph.Computed &&
			v.Type == g.Outputs[i].Type && v.Shape.Equal(g.Outputs[i].Shape) {
			g.Grads = append(g.Grads, graph.Grad{Param: v, Grad: g.Outputs[i]})
		}
	}
	g.Loss = nil
	for _, v := range border.Inputs {
		if v == nil || v.Kind != graph.Computed {
			continue
		}
		if !slices.Contains(g.Outputs, v) {
			g.Outputs = append(g.Outputs, v)
		}
		if g.Loss == nil && v.Type.IsFloat() && v.Shape.Elems().Is(1) {
			g.Loss = v
		}
	}
}

// part sets the phases of nodes by the border and moves the forward pass to the front. Files
// written by memopt have phases in their metadata.
func (r *reader) part() {
	border := r.border()
	if _, ours := r.model.metadata[metaLoss]; ours || border == nil {
		return
	}
	g := r.b.Graph
	forward := make([]bool, len(g.Nodes))
	forward[border.ID] = true
	for i, n := range slices.Backward(g.Nodes) {
		if n.Phase = graph.Backward; !forward[i] {
			continue
		}
		n.Phase = graph.Forward
		for _, v := range n.Inputs {
			if v != nil && v.Def != nil {
				forward[v.Def.ID] = true
			}
		}
	}
	slices.SortStableFunc(g.Nodes, func(a, b *graph.Node) int { return int(a.Phase) - int(b.Phase) })
	for i, n := range g.Nodes {
		n.ID = int32(i)
	}
}
