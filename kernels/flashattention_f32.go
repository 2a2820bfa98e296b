package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// FlashAttention on the CPU for float32: the scores of a tile and its contributions to Y or
// to the gradients are matrix products.

// The size of a tile: large enough that its products amortize packing their factors, and
// small enough that the tile stays in a core's cache.
const tileQueries, tileKeys = 128, 256

// flashSlots is how many matrices of the batch are computed concurrently, each with work space.
const flashSlots = 8

// flashRoom is the work space of a slot: scores of a tile, their gradients, and statistics
// of each query.
type flashRoom struct {
	scores, flow []float32
	each         []float32 // for all queries that share one matrix of keys
}

// flashScratch is the work space of all slots.
func flashScratch(n *graph.Node, q int) graph.Dim {
	s, keys := n.Inputs[q].Shape, n.Inputs[q+2].Shape
	last := len(s) - 1
	tile := s[last-1].Min(graph.Num(tileQueries)).Mul(keys[last-1].Min(graph.Num(tileKeys)))
	queries := s[last-1]
	if last > 1 && keys[last-2].Is(1) {
		queries = queries.Mul(s[last-2])
	}
	slots := keys[:last-1].Elems().Min(graph.Num(flashSlots))
	return slots.Mul(tile.Mul(graph.Num(2)).Add(queries)).Mul(graph.Num(4))
}

func flashFast(at, bias int, fast func(f *flash, par f32.Parallel, zk int, room flashRoom)) func(c *graph.Call) {
	return func(c *graph.Call) {
		f := newFlash(c, at, bias)
		tile, rows := min(f.queries, tileQueries)*min(f.keys, tileKeys), f.share*f.queries
		f.slots(flashSlots, 2*tile+rows, func(par f32.Parallel, zk int, own []float32) {
			fast(f, par, zk, flashRoom{own[:tile], own[tile : 2*tile], own[2*tile:]})
		})
	}
}

// slots calls do for every matrix of K and V, up to most concurrently, each with each floats
// of work space. One worker computes a matrix; a single matrix is shared by all workers.
func (f *flash) slots(most, each int, do func(par f32.Parallel, zk int, room []float32)) {
	if f.q.Type != graph.Float32 || f.batch*f.queries*f.keys == 0 {
		f.c.Node.Op.Eval(f.c)
		return
	}
	matrices := f.batch / f.share
	slots, scratch := min(matrices, most), floats(f.c.Scratch)
	slot := func(par f32.Parallel, s int) {
		for zk := s; zk < matrices; zk += slots {
			do(par, zk, scratch[s*each:(s+1)*each])
		}
	}
	if slots == 1 {
		slot(f.c.Parallel, 0)
		return
	}
	f.c.Parallel(slots, 1, func(lo, hi int) {
		for s := lo; s < hi; s++ {
			slot(f32.Serial, s)
		}
	})
}

// rowsFrom is matrix z of x, from row from on, as an operand of a product; columnsFrom is its
// transpose.
func rowsFrom(x []float32, z, rows, from, width int, scale float64) f32.Operand {
	return f32.Dense(x[(z*rows+from)*width:], width, 1, float32(scale))
}

func columnsFrom(x []float32, z, rows, from, width int, scale float64) f32.Operand {
	return f32.Dense(x[(z*rows+from)*width:], 1, width, float32(scale))
}

// keysBy is Kᵀ from a key on, with the head width as the inner dim of the product; widthBy is
// K, with the keys as the inner dim.
func (f *flash) keysBy(zk, key int) f32.Operand {
	d := f32.Dense(f.k.F32()[f.atK(zk, key, 0):], f.width, 1, 1)
	if f.transK {
		d.I, d.P = 1, f.keys
	}
	return d
}

func (f *flash) widthBy(zk, key int) f32.Operand {
	d := f.keysBy(zk, key).(f32.Matrix)
	d.I, d.P = d.P, d.I
	return d
}

// reach returns the keys that any of the queries [from, from+rows) must read.
func (f *flash) reach(from, rows int) (lo, hi int) {
	if !f.skips() {
		return 0, f.keys
	}
	lo, _ = f.window(from)
	_, hi = f.window(from + rows - 1)
	return lo, hi
}

// tile fills s with the scores of a tile, and calls do for each row.
func (f *flash) tile(par f32.Parallel, z, from, rows, key, n int, s []float32, do func(r int, row []float32)) {
	f32.Multiply(par, rows, n, f.width, rowsFrom(f.q.F32(), z, f.queries, from, f.width, f.scale), f.keysBy(z/f.share, key), s, n, false)
	par(rows, 1+f32.Grain/(8*n), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := s[r*n : (r+1)*n]
			if f.bias != nil {
				bias, at, step := f.bias.F32(), (z*f.queries+from+r)*f.keys+key, f.biasAt[len(f.biasAt)-1]
				index.Walk(f.shape, at, at+1, func(_ int, b []int) {
					for j := range row {
						row[j] += bias[b[0]+j*step]
					}
				}, f.biasAt)
			}
			before, after := f.hidden(from+r, key, row)
			fill := float32(f.fillOf(from + r))
			f32.Fill(before, fill)
			f32.Fill(after, fill)
			f.masked(z, from+r, key, row, float32(f.fill))
			do(r, row)
		}
	})
}

// hidden returns the parts of a row of scores, which begins at key, whose keys the band hides.
func (f *flash) hidden(query, key int, row []float32) (before, after []float32) {
	lo, hi := f.window(query)
	return row[:max(0, min(lo-key, len(row)))], row[max(0, min(hi-key, len(row))):]
}

// masked sets the scores that the mask hides to fill, in a query's row that begins at key.
func (f *flash) masked(z, query, key int, row []float32, fill float32) {
	if f.mask == nil {
		return
	}
	hides := f.hides((z*f.queries + query) * f.keys)
	for j := range row {
		if hides(key + j) {
			row[j] = fill
		}
	}
}

func (f *flash) fast(par f32.Parallel, zk int, room flashRoom) {
	y, lse := f.c.Out[0].F32(), f.c.Out[1].F32()
	for at := 0; at < f.share*f.queries; {
		z, from := zk*f.share+at/f.queries, at%f.queries
		rows := min(tileQueries, f.queries-from)
		first, last := f.reach(from, rows)
		top, total := lse[z*f.queries+from:], room.each[at:]
		out := y[(z*f.queries+from)*f.out:]
		for key := first; key < last; key += tileKeys {
			n := min(tileKeys, last-key)
			s := room.scores[:rows*n]
			f.tile(par, z, from, rows, key, n, s, func(r int, row []float32) {
				now := f32.Max(row)
				if key > first {
					now = max(now, top[r])
				}
				shift := now
				if now == f32.MinusInf {
					shift = 0
				}
				sum := float32(f32.ExpSum(row, row, shift))
				if key > first {
					down := float32(math.Exp(float64(top[r] - shift)))
					f32.Scale(out[r*f.out:(r+1)*f.out], out[r*f.out:(r+1)*f.out], down)
					sum += total[r] * down
				}
				top[r], total[r] = now, sum
			})
			f32.Multiply(par, rows, f.out, n, rowsFrom(s, 0, rows, 0, n, 1), columnsFrom(f.v.F32(), zk, f.keys, key, f.out, 1), out, f.out, key > first)
		}
		for r := range rows {
			if f.safe && !(total[r] > 0) {
				clear(out[r*f.out : (r+1)*f.out])
				top[r] = float32(math.Inf(1))
				continue
			}
			f32.Scale(out[r*f.out:(r+1)*f.out], out[r*f.out:(r+1)*f.out], 1/total[r])
			top[r] += float32(math.Log(float64(total[r])))
		}
		at += rows
	}
}

func (f *flash) fastGrad(par f32.Parallel, zk int, room flashRoom) {
	dy, q, lse := f.c.In[0].F32(), f.q.F32(), f.lse.F32()
	dq, dk, dv := f.c.Out[0].F32(), f.c.Out[1].F32(), f.c.Out[2].F32()
	queries := f.share * f.queries
	for r := range queries {
		at := (zk*queries + r) * f.out
		room.each[r] = float32(f32.Dot(dy[at:at+f.out], f.y.F32()[at:at+f.out]))
		if f.dlse != nil {
			room.each[r] -= f.dlse.F32()[zk*queries+r]
		}
	}
	for key := 0; key < f.keys; key += tileKeys {
		n, begun := min(tileKeys, f.keys-key), false
		for at := 0; at < queries; {
			z, from := zk*f.share+at/f.queries, at%f.queries
			rows, dots := min(tileQueries, f.queries-from), room.each[at:]
			at += rows
			lo, hi := f.reach(from, rows)
			if hi <= key || lo >= key+n {
				continue
			}
			p, ds := room.scores[:rows*n], room.flow[:rows*n]
			f.tile(par, z, from, rows, key, n, p, func(r int, row []float32) { f32.ExpSum(row, row, lse[z*f.queries+from+r]) })
			f32.Multiply(par, n, f.out, rows, columnsFrom(p, 0, rows, 0, n, 1), columnsFrom(dy, z, f.queries, from, f.out, 1), dv[(zk*f.keys+key)*f.out:], f.out, begun)
			f32.Multiply(par, rows, n, f.out, rowsFrom(dy, z, f.queries, from, f.out, 1), rowsFrom(f.v.F32(), zk, f.keys, key, f.out, 1), ds, n, false)
			par(rows, 1+f32.Grain/(8*n), func(lo, hi int) {
				for r := lo; r < hi; r++ {
					row := ds[r*n : (r+1)*n]
					f32.SoftmaxSlopeBy(row, row, p[r*n:(r+1)*n], dots[r])
					before, after := f.hidden(from+r, key, row)
					clear(before)
					clear(after)
				}
			})
			f32.Multiply(par, rows, f.width, n, rowsFrom(ds, 0, rows, 0, n, f.scale), f.widthBy(zk, key), dq[(z*f.queries+from)*f.width:], f.width, key > lo)
			f.toKeys(par, zk, key, n, rows, columnsFrom(ds, 0, rows, 0, n, 1), columnsFrom(q, z, f.queries, from, f.width, f.scale), dk, begun)
			begun = true
		}
		if !begun {
			f.noneFor(par, zk, key, key+n, dk, dv)
		}
	}
}

// toKeys computes, or with add accumulates, dK of n keys from the score gradients of some
// queries, in the layout of K.
func (f *flash) toKeys(par f32.Parallel, zk, key, n, rows int, ds, q f32.Operand, dk []float32, add bool) {
	to := dk[f.atK(zk, key, 0):]
	if f.transK {
		f32.Multiply(par, f.width, n, rows, q, ds, to, f.keys, add)
		return
	}
	f32.Multiply(par, n, f.width, rows, ds, q, to, f.width, add)
}

// noneFor clears the gradients of keys [lo, hi), which no query sees.
func (f *flash) noneFor(par f32.Parallel, zk, lo, hi int, dk, dv []float32) {
	if lo < hi {
		clear(dv[(zk*f.keys+lo)*f.out:][:(hi-lo)*f.out])
		f.toKeys(par, zk, lo, hi-lo, 0, nil, nil, dk, false)
	}
}
