package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// mover describes an operator that only copies elements, of any type, as a list of boxes.
type mover func(c *graph.Call) []lower.Move

func (f mover) eval(c *graph.Call) {
	for _, m := range f(c) {
		x, y := c.In[m.In], c.Out[m.Out]
		size := int(y.Type.Size())
		index.Walk(m.Shape, 0, index.Elems(m.Shape), func(_ int, at []int) {
			from, to := (m.FromAt+at[0])*size, (m.ToAt+at[1])*size
			copy(y.Bytes[to:to+size], x.Bytes[from:])
		}, m.From, m.To)
	}
}

func (f mover) fast(c *graph.Call) {
	for _, m := range f(c) {
		x, y := c.In[m.In], c.Out[m.Out]
		switch y.Type.Size() {
		case 1:
			carry(c, m, graph.View[uint8](y), graph.View[uint8](x))
		case 2:
			carry(c, m, graph.View[uint16](y), graph.View[uint16](x))
		case 4:
			carry(c, m, graph.View[uint32](y), graph.View[uint32](x))
		case 8:
			carry(c, m, graph.View[uint64](y), graph.View[uint64](x))
		}
	}
}

type word interface {
	uint8 | uint16 | uint32 | uint64
}

// carry performs a move: by runs where both sides are contiguous, by tiles where input and
// output are contiguous in different dims.
func carry[E word](c *graph.Call, m lower.Move, y, x []E) {
	if index.Elems(m.Shape) == 0 {
		return
	}
	ds := m.Sides()
	inner := ds[len(ds)-1]
	outer := ds[:len(ds)-1]
	if inner.To == 1 && inner.From != 1 {
		if j := slices.IndexFunc(outer, func(d lower.Side) bool { return d.From == 1 }); j >= 0 {
			carryTiles(c, m, slices.Delete(slices.Clone(outer), j, j+1), outer[j], inner, y, x)
			return
		}
	}
	// Rows are split into pieces, so that a single long row occupies all workers.
	piece := min(inner.N, f32.Grain)
	pieces := (inner.N + piece - 1) / piece
	outer = append(slices.Clone(outer), lower.Side{N: pieces, From: piece * inner.From, To: piece * inner.To})
	shape, from, to := lower.Unzip(outer)
	c.Parallel(index.Elems(shape), max(1, f32.Grain/piece), func(lo, hi int) {
		index.Walk(shape, lo, hi, func(i int, at []int) {
			n := min(piece, inner.N-i%pieces*piece)
			f, t := m.FromAt+at[0], m.ToAt+at[1]
			switch {
			case inner.From == 1 && inner.To == 1:
				copy(y[t:t+n], x[f:f+n])
			case inner.From == 0 && inner.To == 1:
				row, v := y[t:t+n], x[f]
				for k := range row {
					row[k] = v
				}
			default:
				for range n {
					y[t] = x[f]
					f += inner.From
					t += inner.To
				}
			}
		}, from, to)
	})
}

// carryTiles transposes: across is contiguous in the input, along in the output. Each tile
// goes through a buffer, so that both sides are accessed in runs: with a power-of-two stride,
// rows of a matrix map to the same few cache sets.
func carryTiles[E word](c *graph.Call, m lower.Move, outer []lower.Side, across, along lower.Side, y, x []E) {
	const edge = 32
	blocks := (across.N + edge - 1) / edge
	shape, from, to := lower.Unzip(append(outer, lower.Side{N: blocks, From: edge * across.From, To: edge * across.To}))
	c.Parallel(index.Elems(shape), max(1, f32.Grain/(edge*along.N)), func(lo, hi int) {
		var tile [edge * edge]E
		index.Walk(shape, lo, hi, func(i int, at []int) {
			width := min(edge, across.N-i%blocks*edge)
			for a := 0; a < along.N; a += edge {
				height := min(edge, along.N-a)
				f, t := m.FromAt+at[0]+a*along.From, m.ToAt+at[1]+a
				for h := range height {
					copy(tile[h*edge:h*edge+width], x[f+h*along.From:])
				}
				for k := range width {
					row := y[t+k*across.To:][:height]
					for h := range row {
						row[h] = tile[(h*edge+k)%(edge*edge)]
					}
				}
			}
		}, from, to)
	})
}

// foldMoved folds an operator that only moves elements of its data inputs: it runs Eval on
// integers that are indices into a list of dims. Index 0 stands for the dim 0, so Eval may
// fill with zeros.
func foldMoved(n *graph.Node, data ...int) {
	if n.Inputs[data[0]].Type.IsReal() {
		return
	}
	c := &graph.Call{Node: n, Parallel: f32.Serial, In: make([]*graph.Tensor, len(n.Inputs)), Out: make([]*graph.Tensor, len(n.Outputs))}
	formulas := []graph.Dim{graph.Num(0)}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		shape, ok := numbers(v.Shape)
		if !ok || v.Ints == nil {
			return
		}
		if slices.Contains(data, i) {
			c.In[i] = graph.NewTensor(graph.Int64, shape...)
			for k, d := range v.Ints {
				c.In[i].SetInt(k, int64(len(formulas)))
				formulas = append(formulas, d)
			}
			continue
		}
		c.In[i] = graph.NewTensor(v.Type, shape...)
		for k, d := range v.Ints {
			x, ok := d.Const()
			if !ok {
				return
			}
			c.In[i].SetInt(k, x)
		}
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		// Elems fails if the product overflows.
		size, ok := v.Shape.Elems().Const()
		if !ok || size > graph.MaxInts {
			return
		}
		shape, ok := numbers(v.Shape)
		if !ok || slices.ContainsFunc(shape, func(d int) bool { return d < 0 }) {
			return // negative dims are reported after Infer
		}
		c.Out[i] = graph.NewTensor(graph.Int64, shape...)
	}
	n.Op.Eval(c)
	for i, y := range c.Out {
		if y == nil {
			continue
		}
		ds := make([]graph.Dim, y.Len())
		for k := range ds {
			ds[k] = formulas[y.Int(k)]
		}
		n.SetInts(i, ds)
	}
}

// numbers converts a shape without symbolic dims.
func numbers(s graph.Shape) ([]int, bool) {
	out := make([]int, len(s))
	for i, d := range s {
		x, ok := d.Const()
		if !ok {
			return nil, false
		}
		out[i] = int(x)
	}
	return out, true
}
