package planner

import (
	"slices"

	"memopt/memopt/graph"
)

// Saved names the values whose bytes pass from the forward to the backward
// pass: what a framework that is given the plan must save, by the name of the
// storage. Parameters, states and inputs are there anyway and not among them.
func (p *Plan) Saved() []string {
	border := p.border()
	holds := make([]int32, len(p.t.lives)) // by life: what was written there last
	instance := 0
	for _, s := range p.Steps[:border] {
		for _, o := range p.m.outputs.Of(s.Node) {
			holds[p.t.buffer[instance]] = o
			instance++
		}
	}
	names := []string{}
	for i, l := range p.t.lives {
		if !l.scratch && int(l.first) < border && int(l.last) > border {
			names = append(names, p.Graph.Values[holds[i]].Name)
		}
	}
	slices.Sort(names)
	return names
}

// border is the first step that is not forward: one of the backward pass, or
// one that runs again for it.
func (p *Plan) border() int {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Again || p.Graph.Nodes[s.Node].Phase != 0 })
	if i < 0 {
		return len(p.Steps)
	}
	return i
}

// forward is how many nodes the forward pass has. They stand first.
func (p *Plan) forward() int {
	i := slices.IndexFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Phase != graph.Forward })
	if i < 0 {
		return len(p.Graph.Nodes)
	}
	return i
}
