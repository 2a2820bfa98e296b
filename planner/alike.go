package planner

import (
	"hash/maphash"
	"slices"

	"memopt/memopt/graph"
	"memopt/planner/recompute"
)

// alike tells equal values and equal nodes of a graph, of which a program of repeated layers has few: what follows from
// them alone, numbers of formulas and prices, is worked out for the first of each. Layers come in the order of the
// layers before them, so what came last after the same is looked at first.
type alike struct {
	g      *graph.Graph
	seed   maphash.Seed
	look   []int32            // by value: the number of its look
	looks  []*graph.Value     // the first value of each: of its type, kind, shape and known contents
	latest []graph.Shape      // by look: the last shape that was found to be as its own
	known  map[uint64][]int32 // looks by their hash
	nodes  map[uint64][]int32 // first nodes
	values expected           // which look comes next
	firsts expected           // which first node
	// By node: the numbers of the values that it reads and makes, −1 where it omits one. In a long program each pointer
	// that is followed waits for memory.
	reads, makes recompute.Lists
	traits       []trait  // by node, for the same reason
	updates      []update // and of the graph's
}

// update is that a state is to be what was made for it: their values.
type update struct{ state, made int32 }

// trait is what is often asked of a node.
type trait uint8

const (
	isView     trait = 1 << iota // it shows what it reads
	isForward                    // it is of the forward pass
	overwrites                   // it writes over parameters or states
	repeats                      // running it again changes nothing
)

func newAlike(g *graph.Graph) *alike {
	a := &alike{g: g, seed: maphash.MakeSeed(), look: make([]int32, len(g.Values)),
		known: map[uint64][]int32{}, nodes: map[uint64][]int32{}}
	for i, v := range g.Values {
		a.look[i] = a.number(v)
	}
	a.wire()
	return a
}

// wire lists what nodes read and make, and their traits.
func (a *alike) wire() {
	nodes := a.g.Nodes
	a.traits = make([]trait, len(nodes))
	// Mostly a node makes one value, and reads no more than three.
	a.reads.Reserve(len(nodes), 3*len(nodes))
	a.makes.Reserve(len(nodes), len(a.g.Values))
	var wires []int32
	numbers := func(vs []*graph.Value) []int32 {
		wires = wires[:0]
		for _, v := range vs {
			id := int32(-1)
			if v != nil {
				id = v.ID
			}
			wires = append(wires, id)
		}
		return wires
	}
	for i, n := range nodes {
		a.traits[i] = traitsOf(n)
		a.reads.Add(numbers(n.Inputs)...)
		a.makes.Add(numbers(n.Outputs)...)
	}
	a.updates = make([]update, len(a.g.Updates))
	for i, u := range a.g.Updates {
		a.updates[i] = update{u.State.ID, u.New.ID}
	}
}

func traitsOf(n *graph.Node) (t trait) {
	if n.Op.View {
		t |= isView
	}
	if n.Phase == graph.Forward {
		t |= isForward
	}
	if n.Op.Overwrites != nil {
		t |= overwrites
	}
	if repeatable(n) {
		t |= repeats
	}
	return t
}

// number is that of a value's look.
func (a *alike) number(v *graph.Value) int32 {
	if k := a.values.guess(); k >= 0 && a.looksLike(v, k) {
		return a.values.is(k)
	}
	h := a.mixDims(a.mixDims(uint64(v.Type)<<8|uint64(v.Kind), v.Shape), v.Ints)
	for _, k := range a.known[h] {
		if a.looksLike(v, k) {
			return a.values.is(k)
		}
	}
	k := int32(len(a.looks))
	a.looks, a.latest = append(a.looks, v), append(a.latest, v.Shape)
	a.known[h] = append(a.known[h], k)
	return a.values.is(k)
}

// looksLike reports whether a value has a look. A shape often is the very slice that the last value of the look has,
// whose dims need not be waited for.
func (a *alike) looksLike(v *graph.Value, k int32) bool {
	w := a.looks[k]
	if v.Type != w.Type || v.Kind != w.Kind || (v.Ints == nil) != (w.Ints == nil) || !slices.EqualFunc(v.Ints, w.Ints, graph.Dim.Equal) {
		return false
	}
	if l := a.latest[k]; len(l) > 0 && len(l) == len(v.Shape) && &l[0] == &v.Shape[0] {
		return true
	}
	if !v.Shape.Equal(w.Shape) {
		return false
	}
	a.latest[k] = v.Shape
	return true
}

func (a *alike) mixDims(h uint64, dims []graph.Dim) uint64 {
	h = mix(h, uint64(len(dims)))
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
	if k := a.firsts.guess(); k >= 0 && a.same(n, a.g.Nodes[k]) {
		return a.firsts.is(k)
	}
	h := maphash.Comparable(a.seed, n.Op)
	h = mix(h, uint64(len(n.Attrs)))
	for _, x := range n.Attrs {
		if v, is := x.Value.(int64); is {
			h = mix(h, uint64(v))
		}
	}
	for _, ids := range [...][]int32{a.reads.Of(n.ID), a.makes.Of(n.ID)} {
		h = mix(h, uint64(len(ids)))
		for _, v := range ids {
			if v >= 0 {
				h = mix(h, uint64(a.look[v]))
			}
		}
	}
	for _, k := range a.nodes[h] {
		if a.same(n, a.g.Nodes[k]) {
			return a.firsts.is(k)
		}
	}
	a.nodes[h] = append(a.nodes[h], n.ID)
	return a.firsts.is(n.ID)
}

func (a *alike) same(n, k *graph.Node) bool {
	return n.Op == k.Op && a.sameLooks(a.reads.Of(n.ID), a.reads.Of(k.ID)) && a.sameLooks(a.makes.Of(n.ID), a.makes.Of(k.ID)) &&
		slices.EqualFunc(n.Attrs, k.Attrs, sameAttr)
}

func (a *alike) sameLooks(vs, ws []int32) bool {
	return slices.EqualFunc(vs, ws, func(v, w int32) bool {
		return v == w || v >= 0 && w >= 0 && a.look[v] == a.look[w]
	})
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

// expected tells from the last eight numbers of a list what the next may be: what it was when the same came last.
type expected struct {
	came uint64
	next [1 << 10]int32 // counted from 1, by a hash of what came
}

// guess is the number that may come, or −1.
func (e *expected) guess() int32 { return e.next[e.came>>54] - 1 }

// is takes in the number that came.
func (e *expected) is(k int32) int32 {
	e.next[e.came>>54] = k + 1
	e.came = e.came<<8 ^ uint64(k+1)*0x9e3779b97f4a7c15
	return k
}
