package planner

import (
	"hash/maphash"
	"slices"

	"memopt/memopt/graph"
)

// alike tells equal shapes and equal nodes of a graph, of which a program of
// repeated layers has few: what follows from them alone, numbers of formulas
// and prices, is worked out for the first of each.
type alike struct {
	g      *graph.Graph
	seed   maphash.Seed
	shape  []int32 // by value: the number of its shape
	shapes []graph.Shape
	known  map[uint64][]int32 // shapes by their hash
	nodes  map[uint64][]int32 // first nodes by their hash
}

func newAlike(g *graph.Graph) *alike {
	a := &alike{g: g, seed: maphash.MakeSeed(), shape: make([]int32, len(g.Values)), known: map[uint64][]int32{}, nodes: map[uint64][]int32{}}
	for i, v := range g.Values {
		a.shape[i] = a.number(v.Shape)
	}
	return a
}

// number is a shape's.
func (a *alike) number(s graph.Shape) int32 {
	h := uint64(len(s))
	for _, d := range s {
		h = a.mixDim(h, d)
	}
	for _, k := range a.known[h] {
		if a.shapes[k].Equal(s) {
			return k
		}
	}
	k := int32(len(a.shapes))
	a.shapes = append(a.shapes, s)
	a.known[h] = append(a.known[h], k)
	return k
}

func (a *alike) mixDim(h uint64, d graph.Dim) uint64 {
	if n, ok := d.Const(); ok {
		return mix(h, uint64(n))
	}
	return mix(h, maphash.String(a.seed, d.String()))
}

// mix takes x into a hash.
func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// first is the first node that another is like: the same operator and
// attributes on values of the same types, kinds, shapes and known contents.
func (a *alike) first(n *graph.Node) int32 {
	h := maphash.Comparable(a.seed, n.Op)
	h = mix(h, uint64(len(n.Attrs)))
	for _, x := range n.Attrs {
		if v, is := x.Value.(int64); is {
			h = mix(h, uint64(v))
		}
	}
	for _, vs := range [...][]*graph.Value{n.Inputs, n.Outputs} {
		h = mix(h, uint64(len(vs)))
		for _, v := range vs {
			if v != nil {
				h = mix(h, uint64(a.shape[v.ID])<<16|uint64(v.Type)<<8|uint64(len(v.Ints))&0xff)
			}
		}
	}
	for _, k := range a.nodes[h] {
		if a.same(n, a.g.Nodes[k]) {
			return k
		}
	}
	a.nodes[h] = append(a.nodes[h], n.ID)
	return n.ID
}

func (a *alike) same(n, k *graph.Node) bool {
	return n.Op == k.Op && slices.EqualFunc(n.Attrs, k.Attrs, sameAttr) &&
		slices.EqualFunc(n.Inputs, k.Inputs, a.sameValue) && slices.EqualFunc(n.Outputs, k.Outputs, a.sameValue)
}

func (a *alike) sameValue(v, w *graph.Value) bool {
	if v == nil || w == nil {
		return v == w
	}
	return a.shape[v.ID] == a.shape[w.ID] && v.Type == w.Type && v.Kind == w.Kind && (v.Ints == nil) == (w.Ints == nil) && slices.EqualFunc(v.Ints, w.Ints, graph.Dim.Equal)
}

// sameAttr reports whether attributes are known to be equal.
func sameAttr(x, y graph.Attr) bool {
	if x.Name != y.Name {
		return false
	}
	switch v := x.Value.(type) {
	case int64, float64, string:
		return x.Value == y.Value
	case []int64:
		w, is := y.Value.([]int64)
		return is && slices.Equal(v, w)
	}
	return false
}
