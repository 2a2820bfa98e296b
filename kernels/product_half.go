package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// Products of 16-bit floats compute in float32: factors are converted while panels are packed,
// and sums stay in work space until they are rounded.

func isHalf(t graph.DType) bool { return t == graph.Float16 || t == graph.BFloat16 }

// The block of float32 sums in work space: what one pass over packed panels computes. A larger
// block would cost memory and save nothing.
const (
	wideRows = f32.BlockM
	wideCols = f32.BlockN
	wideSums = wideRows * wideCols
)

// wideScratch is the work space for the sums of a product of 16-bit floats.
func wideScratch(n *graph.Node) graph.Dim {
	if !isHalf(n.Inputs[0].Type) {
		return graph.Num(0)
	}
	return n.Outputs[0].Shape.Elems().Min(graph.Num(wideSums)).Mul(graph.Num(4))
}

// hasWide reports whether a call is of 16-bit floats and has the work space for sums.
func hasWide(c *graph.Call) bool {
	return isHalf(c.In[0].Type) && len(c.Scratch) >= 4*min(c.Out[0].Len(), wideSums)
}

// intoHalf computes a product of 16-bit floats block by block. begin, if not nil, initializes
// the sums of the block at (row, col).
func (p product) intoHalf(c *graph.Call, begin func(to []float32, row, col, rows, cols int)) {
	if c.Out[0].Len() == 0 {
		return
	}
	l, batches := p.whole(c)
	a, b := operandOf(c.In[0], l.A.I, l.A.P, float32(p.Alpha)), operandOf(c.In[1], l.B.I, l.B.P, 1)
	z := floats(c.Scratch)
	size := l.M * l.N
	// Small matrices: each worker computes whole ones, as many as fit the work space.
	if each := wideSums / size; each > 1 && batches > 1 {
		for first := 0; first < batches; first += each {
			last := min(first+each, batches)
			c.Parallel(last-first, 1+16*f32.Grain/max(1, size*l.K), func(lo, hi int) {
				index.Walk(l.Batch, first+lo, first+hi, func(i int, at []int) {
					f32.Multiply(f32.Serial, l.M, l.N, l.K, a(at[0]), b(at[1]), z[(i-first)*size:], l.N, false)
				}, l.ABatch, l.BBatch)
			})
			narrow(c, z, first*size, 1, (last-first)*size, 0)
		}
		return
	}
	index.Walk(l.Batch, 0, batches, func(i int, at []int) {
		for j0 := 0; j0 < l.N; j0 += wideCols {
			cols := min(wideCols, l.N-j0)
			for i0 := 0; i0 < l.M; i0 += wideRows {
				rows := min(wideRows, l.M-i0)
				if begin != nil {
					begin(z, i0, j0, rows, cols)
				}
				f32.Multiply(c.Parallel, rows, cols, l.K, a(at[0]+i0*l.A.I), b(at[1]+j0*l.B.I), z, cols, begin != nil)
				narrow(c, z, i*size+i0*l.N+j0, rows, cols, l.N)
			}
		}
	}, l.ABatch, l.BBatch)
}

// narrow rounds sums into rows of the output, which begin at element at and have stride ld.
func narrow(c *graph.Call, z []float32, at, rows, cols, ld int) {
	c.Parallel(rows*cols, f32.Grain/4, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Out[0].SetFloat(at+i/cols*ld+i%cols, float64(z[i]))
		}
	})
}

// operandOf returns a function that makes an operand of a tensor from an element on.
func operandOf(t *graph.Tensor, si, sp int, scale float32) func(at int) f32.Operand {
	if t.Type == graph.Float32 {
		x := t.F32()
		return func(at int) f32.Operand { return f32.Dense(x[at:], si, sp, scale) }
	}
	x, brain := graph.View[uint16](t), t.Type == graph.BFloat16
	return func(at int) f32.Operand { return f32.Halves(x[at:], si, sp, scale, brain) }
}
