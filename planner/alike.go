package planner

import (
	"hash/maphash"

	"memopt/memopt/graph"
)

// alike tells equal values and equal nodes of a graph, of which a program of repeated layers has few: what follows from
// them alone, numbers of formulas and prices, is worked out for the first of each. They are told by hashes of 64 bits
// under a seed of this process, so that no file can make two that differ meet.
type alike struct {
	seed   maphash.Seed
	look   []int32          // by value: the number of its look
	looks  []*graph.Value   // the first value of each: of its type, kind, shape and known contents
	firsts map[uint64]int32 // the first node of each kind
}

func newAlike(g *graph.Graph) *alike {
	a := &alike{seed: maphash.MakeSeed(), look: make([]int32, len(g.Values)), firsts: map[uint64]int32{}}
	known := map[uint64]int32{}
	type slice struct {
		at  *graph.Dim
		len int
	}
	shapes := map[slice]uint64{} // many values have one slice
	for i, v := range g.Values {
		h := uint64(0)
		if len(v.Shape) > 0 {
			of, met := slice{&v.Shape[0], len(v.Shape)}, false
			if h, met = shapes[of]; !met {
				h = a.dims(v.Shape)
				shapes[of] = h
			}
		}
		h = mix(h, uint64(v.Type)<<8|uint64(v.Kind))
		if v.Ints != nil {
			h = mix(h, a.dims(v.Ints))
		}
		k, met := known[h]
		if !met {
			k = int32(len(a.looks))
			known[h], a.looks = k, append(a.looks, v)
		}
		a.look[i] = k
	}
	return a
}

func (a *alike) dims(dims []graph.Dim) uint64 {
	h := maphash.Comparable(a.seed, len(dims))
	for _, d := range dims {
		if n, ok := d.Const(); ok {
			h = mix(h, uint64(n))
		} else {
			h = mix(h, maphash.String(a.seed, d.String()))
		}
	}
	return h
}

// mix takes x into a hash.
func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// first is the first node that another is like: the same operator and attributes on values of the same looks.
func (a *alike) first(n *graph.Node) int32 {
	h := maphash.Comparable(a.seed, n.Op)
	for _, x := range n.Attrs {
		h = mix(h, maphash.String(a.seed, x.Name))
		switch v := x.Value.(type) {
		case int64, float64, string:
			h = mix(h, maphash.Comparable(a.seed, v))
		case []int64:
			for _, n := range v {
				h = mix(h, uint64(n))
			}
		default: // it is not told whether they are equal
			return n.ID
		}
	}
	for _, vs := range [...][]*graph.Value{n.Inputs, n.Outputs} {
		h = mix(h, uint64(len(vs)))
		for _, v := range vs {
			look := uint64(0)
			if v != nil {
				look = uint64(a.look[v.ID]) + 1
			}
			h = mix(h, look)
		}
	}
	k, met := a.firsts[h]
	if !met {
		k = n.ID
		a.firsts[h] = k
	}
	return k
}
