package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// wiring is the edges of an outline by node. Edges into a node are sorted by the node that they
// come from, edges out of it by the node that they lead to. Values are numbered, since looking up
// names is slow in long programs.
type wiring struct {
	o         *graph.Outline
	number    func(name string) int // of a value; −1: unknown name
	inputs    [][]int32             // by node: numbers of its inputs, −1 if omitted
	made      []place               // by value: the output that it is, or outside
	into, out [][]edge
}

// wire numbers the values of an outline and finds its edges. A value is the output of at most one
// node.
func wire(o *graph.Outline) (*wiring, error) {
	outs := 0
	for _, n := range o.Nodes {
		outs += len(n.Outputs)
	}
	numbers := make(map[string]int, outs)
	w := &wiring{o: o, made: make([]place, 0, outs)}
	w.number = func(name string) int {
		if id, known := numbers[name]; known {
			return id
		}
		return -1
	}
	for i, n := range o.Nodes {
		for k, name := range n.Outputs {
			if name == "" {
				continue
			}
			if first, ok := numbers[name]; ok {
				return nil, fmt.Errorf("nodes %q and %q both compute %q", o.Nodes[w.made[first].node].Name, n.Name, name)
			}
			numbers[name] = len(w.made)
			w.made = append(w.made, place{i, k})
		}
	}
	w.join(func(node, in int) int {
		name := o.Nodes[node].Inputs[in]
		if name == "" {
			return -1
		}
		id, known := numbers[name]
		if !known {
			id = len(w.made)
			numbers[name] = id
			w.made = append(w.made, outside)
		}
		return id
	})
	return w, nil
}

// wireGraph is the wiring of a graph's outline, with the graph's value IDs as numbers.
func wireGraph(g *graph.Graph, o *graph.Outline) *wiring {
	w := &wiring{o: o, made: make([]place, len(g.Values))}
	w.number = func(name string) int {
		if v := g.ByName(name); v != nil {
			return int(v.ID)
		}
		return -1
	}
	for i, v := range g.Values {
		if w.made[i] = outside; v.Def != nil {
			w.made[i] = place{int(v.Def.ID), int(v.Out)}
		}
	}
	w.join(func(node, in int) int {
		if v := g.Nodes[node].Inputs[in]; v != nil {
			return int(v.ID)
		}
		return -1
	})
	return w
}

// join makes the edges. read returns the number of an input, −1 if it is omitted.
func (w *wiring) join(read func(node, in int) int) {
	nodes := w.o.Nodes
	ins := 0
	for _, n := range nodes {
		ins += len(n.Inputs)
	}
	w.inputs, w.into, w.out = make([][]int32, len(nodes)), make([][]edge, len(nodes)), make([][]edge, len(nodes))
	numbers, edges, readers := make([]int32, 0, ins), make([]edge, 0, ins), make([]int, len(nodes))
	for i, n := range nodes {
		first, from := len(numbers), len(edges)
		for k := range n.Inputs {
			id := read(i, k)
			numbers = append(numbers, int32(id))
			if id < 0 || w.made[id] == outside {
				continue
			}
			p := w.made[id]
			edges = append(edges, edge{p.node, p.out, i, k})
			readers[p.node]++
		}
		w.inputs[i], w.into[i] = numbers[first:], edges[from:len(edges):len(edges)]
	}
	room := make([]edge, len(edges))
	for i, n := range readers {
		w.out[i], room = room[:0:n], room[n:]
	}
	for _, e := range edges {
		w.out[e.from] = append(w.out[e.from], e)
	}
	for i := range nodes {
		slices.SortFunc(w.into[i], func(a, b edge) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.out, b.out), cmp.Compare(a.in, b.in))
		})
		slices.SortFunc(w.out[i], func(a, b edge) int {
			return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.out, b.out), cmp.Compare(a.in, b.in))
		})
	}
}

// source is the output that an input of a node reads.
func (w *wiring) source(node, in int) (at place, made bool) {
	if in >= len(w.inputs[node]) || w.inputs[node][in] < 0 {
		return place{}, false
	}
	at = w.made[w.inputs[node][in]]
	return at, at != outside
}

// maker is the output that computes a value.
func (w *wiring) maker(name string) (at place, made bool) {
	id := w.number(name)
	if id < 0 {
		return place{}, false
	}
	at = w.made[id]
	return at, at != outside
}
