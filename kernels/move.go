package kernels

import (
	"cmp"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// move copies a box of elements from an input to an output. Strides and offsets count
// elements; a from stride of 0 repeats, a negative one reverses.
type move struct {
	in, out      int // numbers of the input and output
	shape        []int
	from, to     []int
	fromAt, toAt int
}

// mover describes an operator that only copies elements, of any type, as a list of boxes.
type mover func(c *graph.Call) []move

func (f mover) eval(c *graph.Call) {
	for _, m := range f(c) {
		x, y := c.In[m.in], c.Out[m.out]
		size := int(y.Type.Size())
		index.Walk(m.shape, 0, index.Elems(m.shape), func(_ int, at []int) {
			from, to := (m.fromAt+at[0])*size, (m.toAt+at[1])*size
			copy(y.Bytes[to:to+size], x.Bytes[from:])
		}, m.from, m.to)
	}
}

func (f mover) fast(c *graph.Call) {
	for _, m := range f(c) {
		x, y := c.In[m.in], c.Out[m.out]
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

// side is one dim of a box: its length and strides.
type side struct{ n, from, to int }

// sides returns the dims of the box sorted by the output's strides, innermost last, with
// adjacent dims merged where both sides are contiguous.
func (m *move) sides() []side {
	var ds []side
	for i, n := range m.shape {
		d := side{n, m.from[i], m.to[i]}
		if d.to < 0 {
			m.fromAt += (n - 1) * d.from
			m.toAt += (n - 1) * d.to
			d.from, d.to = -d.from, -d.to
		}
		if n != 1 {
			ds = append(ds, d)
		}
	}
	slices.SortStableFunc(ds, func(a, b side) int { return cmp.Compare(b.to, a.to) })
	out := ds[:0]
	for _, d := range ds {
		if k := len(out) - 1; k >= 0 && out[k].from == d.from*d.n && out[k].to == d.to*d.n {
			out[k] = side{out[k].n * d.n, d.from, d.to}
			continue
		}
		out = append(out, d)
	}
	if len(out) == 0 {
		out = append(out, side{1, 1, 1})
	}
	return out
}

type word interface {
	uint8 | uint16 | uint32 | uint64
}

// carry performs a move: by runs where both sides are contiguous, by tiles where input and
// output are contiguous in different dims.
func carry[E word](c *graph.Call, m move, y, x []E) {
	if index.Elems(m.shape) == 0 {
		return
	}
	ds := m.sides()
	inner := ds[len(ds)-1]
	outer := ds[:len(ds)-1]
	if inner.to == 1 && inner.from != 1 {
		if j := slices.IndexFunc(outer, func(d side) bool { return d.from == 1 }); j >= 0 {
			carryTiles(c, m, slices.Delete(slices.Clone(outer), j, j+1), outer[j], inner, y, x)
			return
		}
	}
	// Rows are split into pieces, so that a single long row occupies all workers.
	piece := min(inner.n, f32.Grain)
	pieces := (inner.n + piece - 1) / piece
	outer = append(slices.Clone(outer), side{pieces, piece * inner.from, piece * inner.to})
	shape, from, to := unzip(outer)
	c.Parallel(index.Elems(shape), max(1, f32.Grain/piece), func(lo, hi int) {
		index.Walk(shape, lo, hi, func(i int, at []int) {
			n := min(piece, inner.n-i%pieces*piece)
			f, t := m.fromAt+at[0], m.toAt+at[1]
			switch {
			case inner.from == 1 && inner.to == 1:
				copy(y[t:t+n], x[f:f+n])
			case inner.from == 0 && inner.to == 1:
				row, v := y[t:t+n], x[f]
				for k := range row {
					row[k] = v
				}
			default:
				for range n {
					y[t] = x[f]
					f += inner.from
					t += inner.to
				}
			}
		}, from, to)
	})
}

// carryTiles transposes: across is contiguous in the input, along in the output. Each tile
// goes through a buffer, so that both sides are accessed in runs: with a power-of-two stride,
// rows of a matrix map to the same few cache sets.
func carryTiles[E word](c *graph.Call, m move, outer []side, across, along side, y, x []E) {
	const edge = 32
	blocks := (across.n + edge - 1) / edge
	shape, from, to := unzip(append(outer, side{blocks, edge * across.from, edge * across.to}))
	c.Parallel(index.Elems(shape), max(1, f32.Grain/(edge*along.n)), func(lo, hi int) {
		var tile [edge * edge]E
		index.Walk(shape, lo, hi, func(i int, at []int) {
			width := min(edge, across.n-i%blocks*edge)
			for a := 0; a < along.n; a += edge {
				height := min(edge, along.n-a)
				f, t := m.fromAt+at[0]+a*along.from, m.toAt+at[1]+a
				for h := range height {
					copy(tile[h*edge:h*edge+width], x[f+h*along.from:])
				}
				for k := range width {
					row := y[t+k*across.to:][:height]
					for h := range row {
						row[h] = tile[(h*edge+k)%(edge*edge)]
					}
				}
			}
		}, from, to)
	})
}

func unzip(ds []side) (shape, from, to []int) {
	for _, d := range ds {
		shape, from, to = append(shape, d.n), append(from, d.from), append(to, d.to)
	}
	return shape, from, to
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
