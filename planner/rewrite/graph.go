// Package rewrite says a plan as a graph of its own, and as an edit of the file that its graph was read from.
package rewrite

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Plan is what is rewritten.
type Plan struct {
	Graph *graph.Graph
	// Steps are the nodes that run, in order, and whether each runs again.
	Steps iter.Seq2[*graph.Node, bool]
	// Stays reports whether a value that a step makes again is read where it was made first, before the step that was
	// yielded last.
	Stays   func(*graph.Value) bool
	Context context.Context
}

// Rewritten is a plan as a graph.
type Rewritten struct {
	Graph *graph.Graph
	of    []*graph.Node // by node: the one of the plan's graph
}

// Graph is the plan as a graph: what runs again is a copy of its node, named NAME_recompute or, if that is taken,
// NAME_recompute_2, and later readers read the copy. Any runtime that keeps the order of the nodes then needs no more
// than the plan's peak.
func Graph(p Plan) (*Rewritten, error) {
	old := p.Graph
	r := &rewriter{old: old, b: graph.NewBuilder(graph.New(old.Lib, old.Name)), now: make([]*graph.Value, len(old.Values)),
		stays: p.Stays, views: make([][]*graph.Node, len(old.Values)), first: make([]*graph.Node, len(old.Nodes))}
	r.b.Context = p.Context
	for _, n := range old.Nodes {
		if n.Op.View {
			in := n.Inputs[0].ID
			r.views[in] = append(r.views[in], n)
		}
	}
	err := graph.Try(func() {
		for _, v := range old.Values {
			if v.Kind != graph.Computed {
				r.define(v)
			}
		}
		forward, i := -1, 0 // the last step of the forward pass
		for n, again := range p.Steps {
			if !again && n.Phase == graph.Forward {
				forward = i
			}
			i++
		}
		i = 0
		for n, again := range p.Steps {
			if r.b.Phase = n.Phase; again && i > forward {
				r.b.Phase = graph.Backward
			}
			r.node(n)
			i++
		}
	})
	if err != nil {
		return nil, err
	}
	g := r.b.Graph
	g.Recorded = slices.Clone(old.Recorded)
	for _, v := range old.Outputs {
		g.Outputs = append(g.Outputs, r.value(v))
	}
	for _, h := range old.Holds {
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
	if old.Loss != nil {
		g.Loss = r.value(old.Loss)
	}
	for _, u := range old.Updates {
		g.Updates = append(g.Updates, graph.Update{State: r.value(u.State), New: r.value(u.New)})
	}
	for _, d := range old.Grads {
		g.Grads = append(g.Grads, graph.Grad{Param: r.value(d.Param), Grad: r.value(d.Grad)})
	}
	return &Rewritten{g, r.of}, g.Check()
}

type rewriter struct {
	old   *graph.Graph
	b     *graph.Builder
	now   []*graph.Value  // by old value: what readers read at this step
	views [][]*graph.Node // by old value: the views of it
	first []*graph.Node   // by old node: what it became when it was copied first
	stays func(*graph.Value) bool
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
		panic(fmt.Sprintf("rewrite: a node that was valid is not: %v", err))
	}
	r.of = append(r.of, n)
	if !again {
		r.first[n.ID] = r.b.Graph.Nodes[len(r.b.Graph.Nodes)-1]
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if again && r.stays(v) {
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
