package cluster

import (
	"slices"

	"memopt/memopt/graph"
)

// Lives is what a program's order comes to in memory when every value that a
// node makes has its own place from there to its last reader: nothing is made
// in place and nothing is shared. Weights and what the program returns are not
// counted, nor what has no shape that is known at the given sizes.
type Lives struct {
	Peak   int64
	At     int   // the node where it is reached first
	Border bool  // there is one between the passes
	Stored int64 // alive while it runs
}

// Simulate runs a program in the given order with sizes for its dims.
func Simulate(o *graph.Outline, order []int, sizes map[string]int64) (Lives, error) {
	binding, err := graph.Bind(sizes)
	if err != nil {
		return Lives{}, err
	}
	returned := map[string]bool{}
	for _, name := range o.Outputs {
		returned[name] = true
	}
	last := map[string]int{} // by value: the place of its last reader
	for at, i := range order {
		for _, name := range o.Nodes[i].Inputs {
			last[name] = at
		}
	}
	freed := make([]int64, len(order)+1) // by place: what ends there
	live := int64(0)
	l := Lives{At: -1}
	for at, i := range order {
		for _, name := range o.Nodes[i].Outputs {
			v, ok := o.Values[name]
			if name == "" || returned[name] || !ok || !v.Known {
				continue
			}
			bytes := v.Shape.Elems().Mul(graph.Num(v.Type.Size()))
			if slices.ContainsFunc(bytes.Names(), func(dim string) bool { return sizes[dim] == 0 }) {
				continue
			}
			n, err := binding.Eval(bytes)
			if err != nil {
				return Lives{}, err
			}
			live += n
			freed[max(at, last[name])] += n
		}
		if live > l.Peak || l.At < 0 {
			l.Peak, l.At = live, i
		}
		if o.Nodes[i].Op == border {
			l.Border, l.Stored = true, live
		}
		live -= freed[at]
	}
	return l, nil
}
