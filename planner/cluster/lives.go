package cluster

import (
	"slices"

	"memopt/internal/graph"
)

// Lives is the memory that a program needs in a given order if every value computed by a node has
// its own storage from its node to its last reader: nothing is in place and nothing is shared.
// Weights, values that the program returns, and values of unknown size do not count.
type Lives struct {
	Peak   int64
	At     int   // the node where the peak is reached first
	Border bool  // the program has a border between the passes
	Stored int64 // bytes alive at the border
}

// Simulate computes Lives for the given order and sizes of dims.
func Simulate(o *graph.Outline, order []int, sizes map[string]int64) (Lives, error) {
	binding, err := graph.Bind(sizes)
	if err != nil {
		return Lives{}, err
	}
	returned := map[string]bool{}
	for _, name := range o.Outputs {
		returned[name] = true
	}
	last := map[string]int{} // by value: position of its last reader
	for at, i := range order {
		for _, name := range o.Nodes[i].Inputs {
			last[name] = at
		}
	}
	freed := make([]int64, len(order)+1) // by position: bytes freed after it
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
