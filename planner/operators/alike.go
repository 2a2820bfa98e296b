package operators

import (
	"hash/maphash"
	"math"

	"memopt/internal/graph"
)

// Alike tells equal values and equal nodes of a graph, of which a program of repeated layers has few: what follows from
// them alone is worked out for the first of each. They are recognized by hashes of 64 bits under a seed of this process, so
// that no file can make two that differ meet.
type Alike struct {
	Look   []uint64         // by value: a hash of its type, kind, shape and known contents
	firsts map[uint64]int32 // the first node of each kind
}

// AlikeOf is the looks of a graph's values.
func AlikeOf(g *graph.Graph) *Alike {
	a := &Alike{Look: make([]uint64, len(g.Values)), firsts: map[uint64]int32{}}
	begin := maphash.Comparable(hashSeed, 0)
	for i, v := range g.Values {
		h := mix(begin, uint64(v.Type)<<8|uint64(v.Kind))
		for _, dims := range [...][]graph.Dim{v.Shape, v.Ints} {
			h = mix(h, uint64(len(dims)))
			for _, d := range dims {
				if n, ok := d.Const(); ok {
					h = mix(h, uint64(n))
				} else {
					h = mix(h, maphash.String(hashSeed, d.String()))
				}
			}
		}
		if v.Ints != nil {
			h = mix(h, 1)
		}
		a.Look[i] = h
	}
	return a
}

// hashSeed keys all hashes by which nodes and values are told apart.
var hashSeed = maphash.MakeSeed()

// mix takes x into a hash. It is keyed: of a fixed function, differences that cancel can be worked out.
func mix(h, x uint64) uint64 { return maphash.Comparable(hashSeed, [2]uint64{h, x}) }

// First is the first node that another is like: the same operator and attributes on values of the same looks.
func (a *Alike) First(n *graph.Node) int32 {
	h := maphash.Comparable(hashSeed, n.Op)
	for _, x := range n.Attrs {
		h = mix(h, maphash.String(hashSeed, x.Name))
		switch v := x.Value.(type) {
		case int64:
			h = mix(h, uint64(v))
		case float64:
			h = mix(h, math.Float64bits(v))
		case string:
			h = mix(h, maphash.String(hashSeed, v))
		case []int64:
			for _, n := range v {
				h = mix(h, uint64(n))
			}
		default: // it is not known whether they are equal
			return n.ID
		}
	}
	for _, vs := range [...][]*graph.Value{n.Inputs, n.Outputs} {
		h = mix(h, uint64(len(vs)))
		for _, v := range vs {
			if v == nil {
				h = mix(h, 0)
			} else {
				h = mix(h, a.Look[v.ID])
			}
		}
	}
	k, met := a.firsts[h]
	if !met {
		k = n.ID
		a.firsts[h] = k
	}
	return k
}
