package cluster

import (
	"slices"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// Of is the outline of a graph, with a node for each node, including views.
func Of(g *graph.Graph) *graph.Outline {
	o := &graph.Outline{Nodes: make([]graph.OutlineNode, len(g.Nodes)), Values: make(map[string]graph.OutlineValue, len(g.Values))}
	count := len(g.Outputs)
	for _, n := range g.Nodes {
		count += len(n.Inputs) + len(n.Outputs)
	}
	room := make([]string, count) // for all names
	names := func(vs []*graph.Value) []string {
		out := room[:len(vs):len(vs)]
		room = room[len(vs):]
		for i, v := range vs {
			if v != nil {
				out[i] = v.Name
			}
		}
		return out
	}
	for _, v := range g.Values {
		o.Values[v.Name] = graph.OutlineValue{Type: v.Type, Shape: v.Shape, Known: true}
		if v.Kind != graph.Computed {
			o.Inputs = append(o.Inputs, v.Name)
		}
	}
	for i, n := range g.Nodes {
		o.Nodes[i] = graph.OutlineNode{Name: n.Name, Domain: n.Op.Domain, Op: n.Op.Name, Since: form(n.Op),
			Inputs: names(n.Inputs), Outputs: names(n.Outputs), Attrs: n.Attrs, Of: -1}
	}
	o.Outputs = names(g.Outputs)
	return o
}

// form is an operator's version in ONNX Runtime's table, if that has the operator: a graph's
// operators are of the newest version.
func form(op *graph.Op) int {
	newest := 0
	for _, row := range allowances[op.FullName()] {
		newest = max(newest, slices.Max(row.forms))
	}
	if newest > 0 && op.Since > newest || op.Since == 0 {
		return max(newest, 1)
	}
	return op.Since
}

// AnalyseGraph finds the clusters of a graph whose nodes have phases. o is its outline.
func AnalyseGraph(g *graph.Graph, o *graph.Outline, r Rules) (*Analysis, error) {
	b := passes{wiring: wireGraph(g, o), order: make([]int, len(g.Nodes)), yield: -1, weights: make([]bool, len(g.Values)), trained: make([]bool, len(g.Values)), known: true}
	for i := range b.order {
		b.order[i] = i
	}
	for i, n := range g.Nodes {
		if n.Phase != graph.Forward {
			b.yield = i - 1
			break
		}
	}
	for _, v := range g.Outputs {
		b.returned = append(b.returned, v.ID)
	}
	for _, u := range g.Updates {
		b.returned = append(b.returned, u.New.ID)
	}
	stop.Poll(r.Context)
	for i, v := range g.Values {
		b.weights[i] = v.Kind != graph.Computed && v.Kind != graph.Input
	}
	for _, d := range g.Grads {
		b.trained[d.Param.ID] = true
	}
	return analyse(o, r, b)
}
