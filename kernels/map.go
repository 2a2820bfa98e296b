package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// unary describes an elementwise y = f(x).
type unary struct {
	f func(x float64) float64
	i func(x int64) int64 // nil: floats only
}

func (u unary) eval(c *graph.Call) {
	x, y := c.In[0], c.Out[0]
	for k := range y.Len() {
		if x.Type.IsFloat() {
			y.SetFloat(k, u.f(x.Float(k)))
		} else {
			y.SetInt(k, u.i(x.Int(k)))
		}
	}
}

// fast runs rows over float32 tensors; other types go to eval.
func (u unary) fast(rows func(y, x []float32)) func(*graph.Call) {
	return func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			u.eval(c)
			return
		}
		x, y := c.In[0].F32(), c.Out[0].F32()
		c.Parallel(len(y), f32.Grain, func(lo, hi int) { rows(y[lo:hi], x[lo:hi]) })
	}
}

// scalarRows applies f to each element of a row of float32.
func scalarRows(f func(x float64) float64) func(y, x []float32) {
	return func(y, x []float32) {
		for i, v := range x {
			y[i] = float32(f(float64(v)))
		}
	}
}

// binary describes z = f(x, y) under broadcasting.
type binary struct {
	f func(x, y float64) float64
	i func(x, y int64) int64   // nil: floats only
	u func(x, y uint64) uint64 // for uint64; nil: i is correct for it, too
}

func (o binary) eval(c *graph.Call) {
	x, y, z := c.In[0], c.In[1], c.Out[0]
	index.Walk(z.Shape, 0, z.Len(), func(i int, at []int) {
		switch {
		case x.Type.IsFloat():
			z.SetFloat(i, o.f(x.Float(at[0]), y.Float(at[1])))
		case x.Type == graph.Uint64 && o.u != nil:
			z.SetInt(i, int64(o.u(uint64(x.Int(at[0])), uint64(y.Int(at[1])))))
		default:
			z.SetInt(i, o.i(x.Int(at[0]), y.Int(at[1])))
		}
	}, index.Broadcast(x.Shape, z.Shape), index.Broadcast(y.Shape, z.Shape))
}

// fast runs row functions over float32 tensors. Three of them cover broadcasting: both
// operands are rows, or the right or the left one is a single number.
func (o binary) fast(full func(z, x, y []float32), right func(z, x []float32, y float32), left func(z []float32, x float32, y []float32)) func(*graph.Call) {
	return func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 || c.In[1].Type != graph.Float32 || c.Out[0].Type != graph.Float32 {
			o.eval(c)
			return
		}
		x, y, z := c.In[0].F32(), c.In[1].F32(), c.Out[0].F32()
		if len(z) == 0 {
			return
		}
		if len(x) == len(z) && len(y) == len(z) {
			c.Parallel(len(z), f32.Grain, func(lo, hi int) { full(z[lo:hi], x[lo:hi], y[lo:hi]) })
			return
		}
		rows, width, xs, ys, shape := rowForm(c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape)
		xFull, yFull := xs[len(shape)-1] != 0, ys[len(shape)-1] != 0
		c.Parallel(rows, max(1, f32.Grain/width), func(lo, hi int) {
			index.Walk(shape[:len(shape)-1], lo, hi, func(r int, at []int) {
				z := z[r*width : (r+1)*width]
				switch {
				case xFull && yFull:
					full(z, x[at[0]:at[0]+width], y[at[1]:at[1]+width])
				case xFull:
					right(z, x[at[0]:at[0]+width], y[at[1]])
				case yFull:
					left(z, x[at[0]], y[at[1]:at[1]+width])
				default:
					full(z[:1], x[at[0]:at[0]+1], y[at[1]:at[1]+1])
					for i := range z {
						z[i] = z[0]
					}
				}
			}, xs[:len(shape)-1], ys[:len(shape)-1])
		})
	}
}

// rowForm merges adjacent dims that broadcast alike, so that rows are as long as possible,
// and returns both operands' strides.
func rowForm(xShape, yShape, zShape []int) (rows, width int, xs, ys, shape []int) {
	fx, fy := index.Broadcast(xShape, zShape), index.Broadcast(yShape, zShape)
	for i, d := range zShape {
		if d == 1 {
			continue
		}
		if n := len(shape); n > 0 && merges(xs[n-1], fx[i], d) && merges(ys[n-1], fy[i], d) {
			shape[n-1] *= d
			xs[n-1], ys[n-1] = fx[i], fy[i]
			continue
		}
		shape, xs, ys = append(shape, d), append(xs, fx[i]), append(ys, fy[i])
	}
	if len(shape) == 0 {
		shape, xs, ys = []int{1}, []int{1}, []int{1}
	}
	width = shape[len(shape)-1]
	return index.Elems(zShape) / width, width, xs, ys, shape
}

// merges reports whether a dim with stride outer can be merged with the next one of length d
// and stride inner.
func merges(outer, inner, d int) bool {
	if outer == 0 || inner == 0 {
		return outer == inner
	}
	return outer == inner*d
}
