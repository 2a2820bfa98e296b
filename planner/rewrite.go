package planner

import (
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Rewrite is the plan as a graph of its own: what runs again is a copy of its node, named NAME_recompute or, if that is
// taken, NAME_recompute_2, and later readers read the copy. Any runtime that keeps the order of the nodes then needs no
// more than the plan's peak.
func (p *Plan) Rewrite() (*graph.Graph, error) {
	g, _, err := p.rewrite()
	return g, err
}

// rewrite is Rewrite; of is, by node of the new graph, the old one.
func (p *Plan) rewrite() (g *graph.Graph, of []*graph.Node, err error) {
	if len(p.Moves) > 0 {
		return nil, nil, fmt.Errorf("the plan moves %d values to the %s and back, which no graph can say: plan without offload to export it", len(p.Moves), p.Moved.Place)
	}
	r := &rewriter{old: p.Graph, b: graph.NewBuilder(graph.New(p.Graph.Lib, p.Graph.Name)), now: make([]*graph.Value, len(p.Graph.Values)),
		m: p.m, ran: make([]bool, len(p.m.nodes))}
	r.b.Context = p.m.ctx
	r.views, r.first = make([][]*graph.Node, len(p.Graph.Values)), make([]*graph.Node, len(p.Graph.Nodes))
	for _, n := range p.Graph.Nodes {
		if n.Op.View {
			in := n.Inputs[0].ID
			r.views[in] = append(r.views[in], n)
		}
	}
	err = graph.Try(func() {
		for _, v := range p.Graph.Values {
			if v.Kind != graph.Computed {
				r.define(v)
			}
		}
		forward := -1 // the last step of the forward pass
		for i, s := range p.Steps {
			if !s.Again && p.Graph.Nodes[s.Node].Phase == graph.Forward {
				forward = i
			}
		}
		for i, s := range p.Steps {
			n := p.Graph.Nodes[s.Node]
			if r.b.Phase = n.Phase; s.Again && i > forward {
				r.b.Phase = graph.Backward
			}
			r.node(n)
			r.ran[p.m.op[s.Node]] = true
		}
	})
	if err != nil {
		return nil, nil, err
	}
	g = r.b.Graph
	g.Recorded = slices.Clone(p.Graph.Recorded)
	for _, v := range p.Graph.Outputs {
		g.Outputs = append(g.Outputs, r.value(v))
	}
	for _, h := range p.Graph.Holds {
		held := h.Value
		for held.Def != nil && held.Def.Op.View {
			held = held.Def.Inputs[0] // which runs, as a view need not
		}
		v := r.now[held.ID]
		if held.Def != nil {
			v = r.first[held.Def.ID].Outputs[held.Out]
		}
		g.Holds = append(g.Holds, graph.Hold{Value: v, Until: r.first[h.Until.ID]})
	}
	if p.Graph.Loss != nil {
		g.Loss = r.value(p.Graph.Loss)
	}
	for _, u := range p.Graph.Updates {
		g.Updates = append(g.Updates, graph.Update{State: r.value(u.State), New: r.value(u.New)})
	}
	for _, d := range p.Graph.Grads {
		g.Grads = append(g.Grads, graph.Grad{Param: r.value(d.Param), Grad: r.value(d.Grad)})
	}
	return g, r.of, g.Check()
}

type rewriter struct {
	old   *graph.Graph
	b     *graph.Builder
	now   []*graph.Value  // by old value: what readers read at this step
	views [][]*graph.Node // by old value: the views of it
	first []*graph.Node   // by old node: what it became when it was copied first
	m     *model
	ran   []bool        // by operator
	of    []*graph.Node // by new node: the old one
}

func (r *rewriter) define(v *graph.Value) {
	c, err := r.b.Define(v.Kind, v.Name, v.Type, v.Shape)
	if err != nil {
		panic(err) // names were unique in the old graph
	}
	c.Ints, c.Data = v.Ints, v.Data
	r.now[v.ID] = c
}

// value is the new value for an old one. Views are no steps; each is placed before its first reader.
func (r *rewriter) value(v *graph.Value) *graph.Value {
	if v != nil && r.now[v.ID] == nil {
		r.node(v.Def)
	}
	if v == nil {
		return nil
	}
	return r.now[v.ID]
}

// node copies a node, under its own name the first time. Views of what it makes anew are to be placed anew.
func (r *rewriter) node(n *graph.Node) {
	in := make([]*graph.Value, len(n.Inputs))
	for i, v := range n.Inputs {
		in[i] = r.value(v)
	}
	again, suffix := r.first[n.ID] != nil, ""
	if again {
		suffix = r.suffix(n)
	}
	outs := make([]string, len(n.Outputs))
	for i, v := range n.Outputs {
		if v != nil {
			outs[i] = v.Name + suffix
		}
	}
	made, err := r.b.Node(n.Op, n.Name+suffix, seeded(n), in, outs)
	if err != nil {
		panic(fmt.Sprintf("planner: a node that was valid is not: %v", err))
	}
	r.of = append(r.of, n)
	if !again {
		r.first[n.ID] = r.b.Graph.Nodes[len(r.b.Graph.Nodes)-1]
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if k := r.m.number[v.ID]; again && k >= 0 && r.m.stays(k, r.ran) {
			continue // what lasts, or is held, is read where it was made first
		}
		r.now[v.ID] = made[i]
		if again {
			r.forget(v)
		}
	}
}

// suffix sets a copy's names apart from all others: the old graph may have been rewritten before.
func (r *rewriter) suffix(n *graph.Node) string {
	taken := func(suffix string) bool {
		return slices.ContainsFunc(n.Outputs, func(v *graph.Value) bool {
			return v != nil && (r.old.ByName(v.Name+suffix) != nil || r.b.Graph.ByName(v.Name+suffix) != nil)
		})
	}
	suffix := "_recompute"
	for i := 2; taken(suffix); i++ {
		suffix = fmt.Sprintf("_recompute_%d", i)
	}
	return suffix
}

// seeded is a node's attributes, with what it draws under its own name said as its seed: a copy has another name and
// must draw the same.
func seeded(n *graph.Node) []graph.Attr {
	if !n.Op.Random || n.Has("seed") {
		return n.Attrs
	}
	attrs := append(slices.Clone(n.Attrs), graph.Attr{Name: "seed", Value: int64(n.Identity())})
	slices.SortFunc(attrs, func(a, b graph.Attr) int { return strings.Compare(a.Name, b.Name) })
	return attrs
}

func (r *rewriter) forget(v *graph.Value) {
	for _, view := range r.views[v.ID] {
		out := view.Outputs[0]
		r.now[out.ID] = nil
		r.forget(out)
	}
}
