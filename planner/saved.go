package planner

import "slices"

// Saved names the values whose bytes pass from the forward to the backward
// pass: what a framework that is given the plan must save, by the name of the
// storage. Parameters, states and inputs are there anyway and not among them.
func (p *Plan) Saved() []string {
	border := p.m.border(p.Steps)
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

// border is the first of some steps that is not forward: one of the backward pass,
// or one that runs again for it.
func (m *model) border(steps []Step) int {
	i := slices.IndexFunc(steps, func(s Step) bool { return s.Again || m.like.traits[s.Node]&isForward == 0 })
	if i < 0 {
		return len(steps)
	}
	return i
}
