package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// rowNorm is shared by LayerNormalization (centred) and RMSNormalization. The dims of x from
// axis on are a row; each row is divided by its root mean square, if centred after subtracting
// its mean. Scale and bias broadcast to x.
type rowNorm struct {
	centred bool
	eps     float64
	shape   []int // of x
	axis    int
	rows    int
	width   int

	// Statistics of the rows if they are given: inv, and mean if centred. If they are nil,
	// they are computed from x.
	mean, inv *graph.Tensor
}

func newRowNorm(n *graph.Node, shape []int, centred bool) rowNorm {
	r := rowNorm{centred: centred, eps: n.Float("epsilon"), shape: shape, axis: n.Int("axis")}
	if r.axis < 0 {
		r.axis += len(shape)
	}
	r.rows, r.width = index.Elems(shape[:r.axis]), index.Elems(shape[r.axis:])
	return r
}

// inferRowNorm sets output 0, and the outputs of statistics listed in stats.
func inferRowNorm(n *graph.Node, x *graph.Value, stats ...int) {
	wantType(n, 0, isFloat, "floats")
	axis := axisOf(n, n.Int("axis"), x.Rank())
	for i, v := range n.Inputs {
		if v == nil || v == x {
			continue
		}
		if out := broadcast(n, x.Shape, v.Shape); !out.Equal(x.Shape) {
			n.Fail("input %d is %s, which does not broadcast to %s", i, v.Shape, x.Shape)
		}
	}
	stash := graph.DType(n.Int("stash_type"))
	if !stash.IsFloat() {
		n.Fail("stash_type is %d; 1 (float32), 11 (float64) and 16 (bfloat16) are floats", n.Int("stash_type"))
	}
	shape := append(graph.Shape{}, x.Shape...)
	for i := axis; i < len(shape); i++ {
		shape[i] = graph.Num(1)
	}
	for _, o := range stats {
		n.Set(o, stash, shape)
	}
}

// stats returns mean and inv of a row, for y = (x − mean)·inv.
func (r rowNorm) stats(x *graph.Tensor, row int) (mean, inv float64) {
	if r.inv != nil {
		return r.kept(row)
	}
	at, sum := row*r.width, 0.0
	if r.centred {
		for k := range r.width {
			mean += x.Float(at + k)
		}
		mean /= float64(r.width)
	}
	for k := range r.width {
		d := x.Float(at+k) - mean
		sum += d * d
	}
	return mean, 1 / math.Sqrt(sum/float64(r.width)+r.eps)
}

// kept returns the given statistics of a row.
func (r rowNorm) kept(row int) (mean, inv float64) {
	if r.mean != nil {
		mean = r.mean.Float(row)
	}
	return mean, r.inv.Float(row)
}

func (r rowNorm) stats32(x []float32) (mean, inv float64) {
	if !r.centred {
		return 0, 1 / math.Sqrt(f32.SumSquares(0, x)/float64(len(x))+r.eps)
	}
	mean, spread := f32.Moments(x)
	return mean, 1 / math.Sqrt(spread/float64(len(x))+r.eps)
}

// eval computes y, and mean and inv unless they are nil. bias may be nil.
func (r rowNorm) eval(x, scale, bias, y, mean, inv *graph.Tensor) {
	lists := [][]int{index.Broadcast(scale.Shape, r.shape)}
	if bias != nil {
		lists = append(lists, index.Broadcast(bias.Shape, r.shape))
	}
	for row := range r.rows {
		m, s := r.stats(x, row)
		index.Walk(r.shape, row*r.width, (row+1)*r.width, func(i int, at []int) {
			v := (x.Float(i) - m) * s * scale.Float(at[0])
			if bias != nil {
				v += bias.Float(at[1])
			}
			y.SetFloat(i, v)
		}, lists...)
		if mean != nil {
			mean.SetFloat(row, m)
		}
		if inv != nil {
			inv.SetFloat(row, s)
		}
	}
}

// affine is the layout of a scale or bias in the fast form: element j of a row uses
// data[start(row) + j/run].
type affine struct {
	data  []float32
	run   int
	lead  []int // strides of the dims before axis
	count int   // elements that a row uses
}

// newAffine determines the layout; ok is false for other broadcasts.
func (r rowNorm) newAffine(t *graph.Tensor) (a affine, ok bool) {
	if t.Type != graph.Float32 {
		return a, false
	}
	st := index.Broadcast(t.Shape, r.shape)
	a = affine{data: t.F32(), run: 1, lead: st[:r.axis], count: 1}
	for i := len(r.shape) - 1; i >= r.axis; i-- {
		switch d := r.shape[i]; {
		case d == 1:
		case st[i] == 0 && a.count == 1:
			a.run *= d
		case st[i] == a.count:
			a.count *= d
		default:
			return a, false
		}
	}
	return a, true
}

// fast is eval for float32; it returns false if types or broadcasts are not supported.
func (r rowNorm) fast(c *graph.Call, x, scale, bias, y, mean, inv *graph.Tensor) bool {
	w, ok := r.newAffine(scale)
	var b affine
	if bias != nil && ok {
		b, ok = r.newAffine(bias)
		ok = ok && b.run == w.run && b.count == w.count
	}
	if !ok || x.Type != graph.Float32 || y.Type != graph.Float32 || r.width == 0 {
		return false
	}
	in, out := x.F32(), y.F32()
	c.Parallel(r.rows, 1+f32.Grain/4/r.width, func(lo, hi int) {
		index.Walk(r.shape[:r.axis], lo, hi, func(row int, at []int) {
			x, y := in[row*r.width:(row+1)*r.width], out[row*r.width:(row+1)*r.width]
			m, s := r.stats32(x)
			scaleRow := w.data[at[0]:]
			var biasRow []float32
			if bias != nil {
				biasRow = b.data[at[1]:]
			}
			f32.Norm(y, x, float32(m), float32(s), scaleRow, biasRow, w.run)
			if mean != nil {
				mean.SetFloat(row, m)
			}
			if inv != nil {
				inv.SetFloat(row, s)
			}
		}, w.lead, orZeros(b.lead, r.axis))
	})
	return true
}

func orZeros(st []int, n int) []int {
	if st == nil {
		return make([]int, n)
	}
	return st
}

// The gradient of a row, with n = (x − mean)·inv and g = dy·scale:
//
//	dx = inv·(g − mean(g) − n·mean(g·n)) + dmean/width − dinv·inv²·n/width
//
// without mean(g) if the norm is not centred.

// evalGrad computes dx, and dscale and dbias unless they are nil. dmean and dinv may be nil. dx
// may share memory with dy or x.
func (r rowNorm) evalGrad(dy, x, scale, dmean, dinv, dx, dscale, dbias *graph.Tensor) {
	ws := index.Broadcast(scale.Shape, r.shape)
	bs := make([]int, len(r.shape))
	ds, db := make([]float64, scale.Len()), []float64(nil)
	if dbias != nil {
		bs = index.Broadcast(dbias.Shape, r.shape)
		db = make([]float64, dbias.Len())
	}
	width := float64(r.width)
	for row := range r.rows {
		m, s := r.stats(x, row)
		var sumG, sumGN float64
		index.Walk(r.shape, row*r.width, (row+1)*r.width, func(i int, at []int) {
			d, n := dy.Float(i), (x.Float(i)-m)*s
			g := d * scale.Float(at[0])
			sumG += g
			sumGN += g * n
			ds[at[0]] += d * n
			if db != nil {
				db[at[1]] += d
			}
		}, ws, bs)
		if !r.centred {
			sumG = 0
		}
		more, slope := 0.0, sumGN/width
		if dmean != nil {
			more = dmean.Float(row) / width
		}
		if dinv != nil {
			slope += dinv.Float(row) * s / width
		}
		index.Walk(r.shape, row*r.width, (row+1)*r.width, func(i int, at []int) {
			n := (x.Float(i) - m) * s
			dx.SetFloat(i, s*(dy.Float(i)*scale.Float(at[0])-sumG/width-n*slope)+more)
		}, ws)
	}
	for i, v := range ds {
		if dscale != nil {
			dscale.SetFloat(i, v)
		}
	}
	for i, v := range db {
		dbias.SetFloat(i, v)
	}
}

// fastGrad is evalGrad for float32 without dmean and dinv; it returns false if types or
// broadcasts are not supported. The work space holds mean and inv of each row.
func (r rowNorm) fastGrad(c *graph.Call, dy, x, scale, dx, dscale, dbias *graph.Tensor) bool {
	w, ok := r.newAffine(scale)
	if !ok || dy.Type != graph.Float32 || x.Type != graph.Float32 || r.width == 0 ||
		dbias != nil && index.Elems(dbias.Shape) != index.Elems(scale.Shape) {
		return false
	}
	stats := scratch64(c, 2*r.rows)
	dyAll, xAll, dxAll := dy.F32(), x.F32(), dx.F32()
	each := 1 + f32.Grain/4/r.width
	c.Parallel(r.rows, each, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			if r.inv != nil {
				stats[2*row], stats[2*row+1] = r.kept(row)
				continue
			}
			stats[2*row], stats[2*row+1] = r.stats32(xAll[row*r.width : (row+1)*r.width])
		}
	})
	// dscale and dbias first: dx may overwrite dy or x.
	if dscale != nil || dbias != nil {
		c.Parallel(scale.Len(), 1+f32.Grain*scale.Len()/(1+4*len(xAll)), func(lo, hi int) {
			r.affineGrad(w, lo, hi, dyAll, xAll, stats, dscale, dbias)
		})
	}
	c.Parallel(r.rows, each, func(lo, hi int) {
		index.Walk(r.shape[:r.axis], lo, hi, func(row int, at []int) {
			from, to := row*r.width, (row+1)*r.width
			f32.NormSlope(dxAll[from:to], dyAll[from:to], xAll[from:to], stats[2*row], stats[2*row+1], w.data[at[0]:], w.run, r.centred)
		}, w.lead)
	})
	return true
}

// affineGrad computes elements [lo, hi) of dscale and dbias, with float32 sums over a few rows
// and float64 sums over these.
func (r rowNorm) affineGrad(w affine, lo, hi int, dy, x []float32, stats []float64, dscale, dbias *graph.Tensor) {
	const few = 32
	var ds, db [f32.BlockLen]float64
	var fs, fb [f32.BlockLen]float32
	for ; lo < hi; lo += f32.BlockLen {
		end := min(lo+f32.BlockLen, hi)
		clear(ds[:])
		clear(db[:])
		index.Walk(r.shape[:r.axis], 0, r.rows, func(row int, at []int) {
			m, s := float32(stats[2*row]), float32(stats[2*row+1])
			first, last := max(lo, at[0]), min(end, at[0]+w.count)
			if w.run == 1 && first < last {
				from, n := row*r.width+first-at[0], last-first
				f32.NormAffine(fs[first-lo:][:n], fb[first-lo:][:n], dy[from:], x[from:], m, s)
			} else {
				for e := first; e < last; e++ {
					from := row*r.width + (e-at[0])*w.run
					sumDN, sumD := f32.NormAffineRun(dy[from:from+w.run], x[from:from+w.run], m)
					ds[e-lo] += sumDN * stats[2*row+1]
					db[e-lo] += sumD
				}
			}
			if w.run == 1 && (row%few == few-1 || row == r.rows-1) {
				for e := range end - lo {
					ds[e] += float64(fs[e])
					db[e] += float64(fb[e])
				}
				clear(fs[:])
				clear(fb[:])
			}
		}, w.lead)
		for e := lo; e < end; e++ {
			if dscale != nil {
				dscale.F32()[e] = float32(ds[e-lo])
			}
			if dbias != nil {
				dbias.F32()[e] = float32(db[e-lo])
			}
		}
	}
}
