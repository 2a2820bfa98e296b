package rewrite

import (
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Outline is the graph as an edit of the file that a plan's graph was read from: the nodes of its outline and copies of
// some, in the plan's order. Nodes that reading has folded away come as soon as what they read is there, and what they
// are needed for waits for them. It is not ok where a node of the plan's graph is none of the file's, but a part of one.
func (r *Rewritten) Outline(old *graph.Graph, o *graph.Outline) (after *graph.Outline, order []int, ok bool) {
	g, of := r.Graph, r.of
	e := &outlineEditor{old: o, new: &graph.Outline{Nodes: slices.Clone(o.Nodes), Values: maps.Clone(o.Values), Inputs: o.Inputs, Outputs: o.Outputs},
		maker: map[string]int{}, readers: map[string][]int{}, waits: make([]int, len(o.Nodes)), placed: make([]bool, len(o.Nodes))}
	if !e.match(old) {
		return nil, nil, false
	}
	copied := map[*graph.Node]bool{}
	for i, n := range g.Nodes {
		copied[of[i]] = copied[of[i]] || n.Name != of[i].Name
	}
	var copies []int // in g
	for i, n := range g.Nodes {
		k, _ := e.of(of[i])
		x := edited(o.Nodes[k], n, of[i], copied[of[i]])
		if n.Name == of[i].Name {
			e.new.Nodes[k] = x
			continue
		}
		x.Of = k
		for j, name := range x.Outputs {
			if v, known := e.new.Values[o.Nodes[k].Outputs[j]]; known && name != "" {
				e.new.Values[name] = v
			}
		}
		e.new.Nodes = append(e.new.Nodes, x)
		copies = append(copies, i)
	}
	for i, lacks := range e.waits { // folded nodes that need nothing
		if lacks == 0 {
			e.place(i)
		}
	}
	for i := range g.Nodes {
		if len(copies) > 0 && copies[0] == i {
			at := len(e.new.Nodes) - len(copies)
			e.needs(at)
			e.order, copies = append(e.order, at), copies[1:]
			continue
		}
		k, _ := e.of(of[i])
		e.ensure(k)
	}
	for i := range o.Nodes { // what is not read
		e.ensure(i)
	}
	return e.new, e.order, true
}

// outlineEditor orders an outline by a rewritten graph.
type outlineEditor struct {
	old, new *graph.Outline
	maker    map[string]int   // by value: the old node
	readers  map[string][]int // by value: the folded nodes that read it
	waits    []int            // by old node: what a folded one still lacks; −1 for those of the graph
	placed   []bool           // by old node
	order    []int
}

// match tells the outline's nodes that the graph has from those that were folded away, and reports whether the graph
// has no others.
func (e *outlineEditor) match(g *graph.Graph) bool {
	for i, n := range e.old.Nodes {
		for _, name := range n.Outputs {
			if name != "" {
				e.maker[name] = i
			}
		}
	}
	for _, n := range g.Nodes {
		i, ok := e.of(n)
		if !ok || e.waits[i] < 0 || len(e.old.Nodes[i].Outputs) < len(n.Outputs) {
			return false
		}
		e.waits[i] = -1
	}
	for i, n := range e.old.Nodes {
		if e.waits[i] < 0 {
			continue
		}
		for _, name := range n.Inputs {
			if _, made := e.maker[name]; made {
				e.waits[i]++
				e.readers[name] = append(e.readers[name], i)
			}
		}
	}
	return true
}

// of is the outline's node for one of the graph.
func (e *outlineEditor) of(n *graph.Node) (i int, ok bool) {
	for _, v := range n.Outputs {
		if v != nil {
			i, ok = e.maker[v.Name]
			return i, ok
		}
	}
	return 0, false
}

// edited is an outline's node as a rewritten graph has it. What reading made of an input, as a constant of an
// attribute, stays as the file has it. Random nodes that are copied draw by a seed.
func edited(x graph.OutlineNode, n, of *graph.Node, copied bool) graph.OutlineNode {
	x.Inputs, x.Outputs = slices.Clone(x.Inputs), slices.Clone(x.Outputs)
	for k, name := range x.Inputs {
		if k < len(n.Inputs) && n.Inputs[k] != nil && of.Inputs[k].Name == name {
			x.Inputs[k] = n.Inputs[k].Name
		}
	}
	if copied && n.Op.Random && n.Has("seed") && !of.Has("seed") {
		x.Attrs = append(slices.Clone(x.Attrs), graph.Attr{Name: "seed", Value: n.Attr("seed")})
	}
	suffix := strings.TrimPrefix(n.Name, of.Name)
	if suffix == "" {
		return x
	}
	x.Name += suffix
	for k := range x.Outputs {
		if k < len(n.Outputs) && n.Outputs[k] != nil {
			x.Outputs[k] = n.Outputs[k].Name
		} else {
			x.Outputs[k] = ""
		}
	}
	return x
}

// ensure places an old node behind what it needs.
func (e *outlineEditor) ensure(i int) {
	if !e.placed[i] {
		e.needs(i)
		e.place(i)
	}
}

// needs places the old nodes whose results a node reads.
func (e *outlineEditor) needs(i int) {
	for _, name := range e.new.Nodes[i].Inputs {
		if k, made := e.maker[name]; made {
			e.ensure(k)
		}
	}
}

// place puts an old node next, and the folded ones that waited for it.
func (e *outlineEditor) place(i int) {
	work := []int{i}
	for len(work) > 0 {
		i, work = work[0], work[1:]
		if e.placed[i] {
			continue
		}
		e.placed[i] = true
		e.order = append(e.order, i)
		for _, name := range e.old.Nodes[i].Outputs {
			for _, reader := range e.readers[name] {
				if e.waits[reader]--; e.waits[reader] == 0 {
					work = append(work, reader)
				}
			}
		}
	}
}
