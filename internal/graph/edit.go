package graph

import (
	"context"
	"slices"

	"memopt/internal/stop"
)

// edit is one pass over the nodes, in order, that replaces their outputs by other values.
// Later nodes read the replacements at once; what is no longer read is removed at the end.
type edit struct {
	g       *Graph
	b       *Builder
	to      []*Value        // by ID of an original value, its replacement
	result  map[*Value]bool // visible from outside: keeps its name
	assumed map[[2]string]bool
	order   []*Node
	// made counts the operators of new nodes.
	made map[string]int
	// changed counts the nodes that were replaced.
	changed int
}

func newEdit(ctx context.Context, g *Graph) *edit {
	e := &edit{g: g, b: &Builder{Graph: g, Context: ctx}, to: make([]*Value, len(g.Values)), result: g.results(), assumed: map[[2]string]bool{}, made: map[string]int{}}
	for _, a := range g.Assumed {
		e.assumed[[2]string{a.A.String(), a.B.String()}] = true
		e.assumed[[2]string{a.B.String(), a.A.String()}] = true
	}
	return e
}

// results returns the values that are visible from outside the graph.
func (g *Graph) results() map[*Value]bool {
	seen := map[*Value]bool{}
	for _, v := range g.Outputs {
		seen[v] = true
	}
	if g.Loss != nil {
		seen[g.Loss] = true
	}
	for _, u := range g.Updates {
		seen[u.New] = true
	}
	for _, d := range g.Grads {
		seen[d.Grad] = true
	}
	return seen
}

// replaced returns the values that a step updates.
func (g *Graph) replaced() map[*Value]bool {
	changed := map[*Value]bool{}
	for _, u := range g.Updates {
		changed[u.State] = true
	}
	return changed
}

// each calls f for every node to get replacements of its outputs; nil keeps the node. What f
// built is removed if the replacements do not fit.
func (e *edit) each(f func(n *Node) []*Value) {
	g := e.g
	all := g.Nodes // new nodes are appended
	e.order = make([]*Node, 0, len(all)+len(all)/16)
	for _, n := range all {
		stop.Poll(e.b.Context)
		for i, v := range n.Inputs {
			n.Inputs[i] = e.now(v)
		}
		values, nodes, assumed := len(g.Values), len(g.Nodes), len(g.Assumed)
		e.b.Phase, e.b.Scope = n.Phase, n.Name
		var with []*Value
		err := Try(func() { with = f(n) })
		if err != nil || with == nil || !e.fits(n, with, values, assumed) {
			for _, v := range g.Values[values:] {
				delete(g.byName, v.Name)
			}
			g.Values, g.Nodes, g.Assumed = g.Values[:values], g.Nodes[:nodes], g.Assumed[:assumed]
			e.order = append(e.order, n)
			continue
		}
		g.Assumed = g.Assumed[:assumed]
		e.changed++
		e.order = append(e.order, g.Nodes[nodes:]...)
		for _, m := range g.Nodes[nodes:] {
			e.made[m.Op.FullName()]++
		}
		for i, v := range n.Outputs {
			if v != nil {
				e.replace(v, with[i], int(with[i].ID) >= values)
			}
		}
	}
	e.finish()
}

// now is a value's replacement, or the value itself.
func (e *edit) now(v *Value) *Value {
	if v != nil && int(v.ID) < len(e.to) && e.to[v.ID] != nil {
		return e.to[v.ID]
	}
	return v
}

// fits reports whether the values can replace n's outputs: they have the same types and shapes,
// add no assumption about dims, and no name that is visible from outside is lost.
func (e *edit) fits(n *Node, with []*Value, values, assumed int) bool {
	for _, a := range e.g.Assumed[assumed:] {
		if !e.assumed[[2]string{a.A.String(), a.B.String()}] {
			return false
		}
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if i >= len(with) || with[i] == nil {
			return false
		}
		w := with[i]
		if w.Type != v.Type || !w.Shape.Equal(v.Shape) || slices.Contains(with[:i], w) {
			return false
		}
		if e.result[v] && int(w.ID) < values && (w.Kind != Computed || e.result[w]) {
			return false
		}
	}
	return true
}

// replace replaces v by w. A new w takes v's name, and so does an existing one if v is visible
// from outside. A new node takes the name of the node that it replaces.
func (e *edit) replace(v, w *Value, isNew bool) {
	if isNew && v.Out == 0 && w.Out == 0 && w.Def != nil {
		w.Def.Name = v.Def.Name
	}
	if isNew || e.result[v] {
		name, def := v.Name, ""
		if w.Def != nil {
			def = w.Def.Name
		}
		e.b.Scope = ""
		e.g.Rename(v, e.b.Fresh(name))
		e.g.Rename(w, name)
		if w.Def != nil {
			w.Def.Name = def // an existing node keeps its name, on which random numbers depend
		}
	}
	if e.result[v] {
		delete(e.result, v)
		e.result[w] = true
	}
	if w.Ints == nil {
		w.Ints = v.Ints
	}
	e.to[v.ID] = w
}

// finish applies the edit to the graph.
func (e *edit) finish() {
	g := e.g
	g.Nodes = e.order
	if e.changed == 0 {
		return
	}
	for i, v := range g.Outputs {
		g.Outputs[i] = e.now(v)
	}
	g.Loss = e.now(g.Loss)
	for i, u := range g.Updates {
		g.Updates[i].New = e.now(u.New)
	}
	for i, d := range g.Grads {
		g.Grads[i].Grad = e.now(d.Grad)
	}
	g.Prune()
}
