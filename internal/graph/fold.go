package graph

import "memopt/internal/stop"

// Limits of a fold: by how many bytes its results may exceed the constants that it replaces,
// their size, and the work.
const (
	foldGrowth = 1 << 10
	foldBytes  = 16 << 20
	foldFlops  = 1 << 23
)

// foldConstants evaluates nodes that depend only on constants, unless that costs memory: a
// constant is held all the time, a computed value only for a while. Parameters are not
// constants.
func foldConstants(g *Graph, o CleanOptions) map[string]int {
	readers := make([]int, len(g.Values))
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v != nil {
				readers[v.ID]++
			}
		}
	}
	f := &folder{readers: readers, kept: g.results(), changed: g.replaced(), binding: &Binding{memo: map[*poly]int64{}},
		made: map[*Value][]byte{}, spare: map[int][][]byte{}}
	order := g.Nodes[:0]
	for _, n := range g.Nodes {
		stop.Poll(o.Context)
		if !f.fold(n) {
			order = append(order, n)
		}
	}
	clear(g.Nodes[len(order):])
	g.Nodes = order
	g.Prune()
	return nil
}

type folder struct {
	readers []int // by value ID, how often remaining nodes read it
	kept    map[*Value]bool
	changed map[*Value]bool
	binding *Binding
	made    map[*Value][]byte // contents of constants that folds made
	spare   map[int][][]byte  // memory of unused ones by size, so that a chain of folds holds only two values
}

// tensor allocates a zeroed result, reusing spare memory.
func (f *folder) tensor(t DType, shape []int) *Tensor {
	x := &Tensor{Type: t, Shape: shape}
	size := x.Len() * int(t.Size())
	if have := f.spare[size]; len(have) > 0 {
		x.Bytes = have[len(have)-1]
		f.spare[size] = have[:len(have)-1]
		clear(x.Bytes)
		return x
	}
	return NewTensor(t, shape...)
}

// fold makes a node's outputs constants if possible and worthwhile.
func (f *folder) fold(n *Node) bool {
	if n.Op.Random || n.Op.Recompute == Never || n.Op.Overwrites != nil || n.Op.Eval == nil {
		return false
	}
	for _, v := range n.Inputs {
		if v != nil && (v.Kind != Const || f.kept[v] || f.changed[v]) {
			return false
		}
	}
	if flops, ok := n.Op.Flops(n).Const(); !ok || flops > foldFlops {
		return false
	}
	var in, dies, out int64
	times := map[*Value]int{} // a node may read a value twice
	for _, v := range n.Inputs {
		if v == nil {
			continue
		}
		size, ok := v.Bytes().Const()
		if !ok {
			return false
		}
		in += size
		if times[v]++; times[v] == f.readers[v.ID] {
			dies += size
		}
	}
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		size, ok := v.Bytes().Const()
		if !ok || f.kept[v] {
			return false
		}
		out += size
	}
	if out > dies+foldGrowth || in+out > foldBytes {
		return false
	}
	made := evaluate(n, f.binding, f.tensor, func(v *Value) *Tensor {
		x, err := v.Tensor(f.binding)
		if err != nil {
			return nil // contents are formulas, or a file cannot be read
		}
		return x
	})
	if made == nil {
		return false
	}
	for i, v := range n.Outputs {
		if v != nil {
			v.Kind, v.Def, v.Out = Const, nil, 0
			v.Data, v.Ints = Bytes(made[i].Bytes), IntsOf(made[i])
			f.made[v] = made[i].Bytes
		}
	}
	for _, v := range n.Inputs {
		if v != nil {
			f.readers[v.ID]--
			f.drop(v, made)
		}
	}
	return true
}

// drop reclaims the memory of a constant that no node reads any more, if a fold made it and no result shares its
// memory. Small values are not worth it.
func (f *folder) drop(v *Value, results []*Tensor) {
	b := f.made[v]
	if f.readers[v.ID] > 0 || len(b) <= foldGrowth {
		return
	}
	for _, x := range results {
		if x != nil && len(x.Bytes) > 0 && &x.Bytes[0] == &b[0] {
			return
		}
	}
	delete(f.made, v)
	v.Data = nil // reading it is an error from now on
	f.spare[len(b)] = append(f.spare[len(b)], b)
}

func newTensor(t DType, shape []int) *Tensor { return NewTensor(t, shape...) }

// evaluate runs a node on the contents of its inputs, with outputs allocated by room. It returns nil if contents does
// for an input, or if the node fails: errors such as an index out of range are reported when the step runs.
func evaluate(n *Node, b *Binding, room func(DType, []int) *Tensor, contents func(*Value) *Tensor) []*Tensor {
	c := &Call{Node: n, Parallel: func(n, _ int, f func(lo, hi int)) { f(0, n) },
		In: make([]*Tensor, len(n.Inputs)), Out: make([]*Tensor, len(n.Outputs))}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		x := contents(v)
		if x == nil {
			return nil
		}
		c.In[i] = x.Aligned()
	}
	for i, v := range n.Outputs {
		if v != nil {
			shape, err := b.Shape(v.Shape)
			if err != nil {
				return nil
			}
			c.Out[i] = room(v.Type, shape)
		}
	}
	if Try(func() { n.Op.Eval(c) }) != nil {
		return nil
	}
	return c.Out
}

// computedNow makes a node's outputs constants if its inputs are; ask may refuse their bytes.
func (n *Node) computedNow(ask func(bytes int64) error) bool {
	if n.Op.Random || n.Op.Eval == nil {
		return false
	}
	for _, v := range n.Inputs {
		if v != nil && v.Kind != Const {
			return false
		}
	}
	none, bytes := &Binding{memo: map[*poly]int64{}}, int64(0)
	for _, v := range n.Outputs {
		if v == nil {
			continue
		}
		size, known := v.Bytes().Const()
		if !known {
			return false
		}
		bytes += size
	}
	if err := ask(bytes); err != nil {
		n.Fail("%v", err)
	}
	made := evaluate(n, none, newTensor, func(v *Value) *Tensor {
		x, err := v.Tensor(none)
		if err != nil {
			return nil
		}
		return x
	})
	if made == nil {
		return false // errors are reported when it runs
	}
	for i, v := range n.Outputs {
		if v != nil {
			v.Kind, v.Def, v.Out = Const, nil, 0
			v.Data, v.Ints = Bytes(made[i].Bytes), IntsOf(made[i])
		}
	}
	return true
}

// Contents evaluates values of at most contentsElems elements with at most contentsNodes nodes,
// as a hostile file could ask for more.
const (
	contentsElems = 1 << 10
	contentsNodes = 1 << 8
)

// Contents is the contents of a small value that depends only on constants, or nil. Unlike
// Value.Ints it is not limited to integers.
func (v *Value) Contents() *Tensor {
	p := &peek{binding: &Binding{memo: map[*poly]int64{}}, left: contentsNodes}
	return p.contents(v)
}

type peek struct {
	binding *Binding
	left    int // nodes that may still run
}

func (p *peek) contents(v *Value) *Tensor {
	if v.Kind == Const || v.Kind == Param {
		if !small(v) {
			return nil
		}
		x, err := v.Tensor(p.binding)
		if err != nil {
			return nil
		}
		return x
	}
	n := v.Def
	if n == nil || n.Op.Random || n.Op.Eval == nil || n.Op.Recompute == Never {
		return nil
	}
	for _, out := range n.Outputs {
		if out != nil && !small(out) {
			return nil
		}
	}
	if p.left--; p.left < 0 {
		return nil
	}
	if out := evaluate(n, p.binding, newTensor, p.contents); out != nil {
		return out[v.Out]
	}
	return nil
}

func small(v *Value) bool {
	n, ok := v.Shape.Elems().Const()
	return ok && n <= contentsElems
}
