package graph

// A fold may hold at most this many bytes more than the constants that die
// with it, and may take so much work.
const (
	foldGrowth = 1 << 10
	foldBytes  = 16 << 20
	foldFlops  = 1 << 23
)

// foldConstants computes what depends on constants alone, now and not in every
// step, where that does not cost memory: a constant is held all the time, what
// is computed only for a while. Parameters change and are no constants.
func foldConstants(g *Graph, _ CleanOptions) map[string]int {
	readers := make([]int, len(g.Values))
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v != nil {
				readers[v.ID]++
			}
		}
	}
	f := &folder{readers: readers, kept: g.results(), changed: g.replaced(), binding: &Binding{memo: map[*poly]int64{}}}
	order := g.Nodes[:0]
	for _, n := range g.Nodes {
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
	readers []int // how often nodes that are left read a value, by ID
	kept    map[*Value]bool
	changed map[*Value]bool
	binding *Binding
}

// fold makes a node's outputs constants, if it can be and pays.
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
	c := &Call{Node: n, Parallel: func(n, _ int, f func(lo, hi int)) { f(0, n) },
		In: make([]*Tensor, len(n.Inputs)), Out: make([]*Tensor, len(n.Outputs))}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		x, err := v.Tensor(f.binding)
		if err != nil {
			return false // contents that are formulas, or a file that cannot be read
		}
		c.In[i] = x
	}
	for i, v := range n.Outputs {
		if v != nil {
			shape, err := f.binding.Shape(v.Shape)
			if err != nil {
				return false
			}
			c.Out[i] = NewTensor(v.Type, shape...)
		}
	}
	if Try(func() { n.Op.Eval(c) }) != nil {
		return false // an index out of range is said when the step runs
	}
	for _, v := range n.Inputs {
		if v != nil {
			f.readers[v.ID]--
		}
	}
	for i, v := range n.Outputs {
		if v != nil {
			v.Kind, v.Def, v.Out = Const, nil, 0
			v.Data, v.Ints = Bytes(c.Out[i].Bytes), IntsOf(c.Out[i])
		}
	}
	return true
}
