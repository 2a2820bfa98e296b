package kernels

import (
	"math"

	"memopt/memopt/graph"
)

// A product of 16-bit floats is one of float32: factors are widened while
// panels are packed, sums stand in the scratch until they are rounded.

func isHalf(t graph.DType) bool { return t == graph.Float16 || t == graph.BFloat16 }

// wideScratch is the scratch that sums of 16-bit floats need.
func wideScratch(n *graph.Node) graph.Dim {
	if !isHalf(n.Inputs[0].Type) {
		return graph.Num(0)
	}
	return n.Outputs[0].Shape.Elems().Mul(graph.Num(4))
}

// hasWide reports whether a call is of 16-bit floats and has that scratch.
func hasWide(c *graph.Call) bool {
	return isHalf(c.In[0].Type) && len(c.Scratch) >= 4*c.Out[0].Len()
}

func wide(c *graph.Call) []float32 {
	return (&graph.Tensor{Type: graph.Float32, Bytes: c.Scratch[:4*c.Out[0].Len()]}).F32()
}

// narrow rounds the sums to the output.
func narrow(c *graph.Call, z []float32) {
	c.Parallel(len(z), grain/4, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Out[0].SetFloat(i, float64(z[i]))
		}
	})
}

// operandOf is a tensor as an operand that begins at an element of it.
func operandOf(t *graph.Tensor, si, sp int, scale float32) func(at int) operand {
	if t.Type == graph.Float32 {
		x := t.F32()
		return func(at int) operand { return dense{x[at:], si, sp, scale} }
	}
	x, widen := graph.View[uint16](t), widenHalf
	if t.Type == graph.BFloat16 {
		widen = widenBrain
	}
	return func(at int) operand { return half{x[at:], si, sp, scale, widen} }
}

// half is dense for 16-bit floats.
type half struct {
	data   []uint16
	si, sp int
	scale  float32
	widen  func(h uint16) float32
}

func (d half) pack(dst []float32, i0, i1, p0, p1, w int) {
	n := i1 - i0
	if n < w {
		clear(dst[:(p1-p0)*w])
	}
	src := d.data[i0*d.si+p0*d.sp:]
	for p := range p1 - p0 {
		row, at := dst[p*w:p*w+n], p*d.sp
		for i := range row {
			row[i] = d.scale * d.widen(src[at])
			at += d.si
		}
	}
}

func widenBrain(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// widenHalf moves the bits to their place and puts the exponent right by a
// product, which also makes numbers below the least normal one right.
func widenHalf(h uint16) float32 {
	sign, bits := uint32(h>>15)<<31, uint32(h&0x7fff)<<13
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | bits | 0x7f800000)
	}
	x := math.Float32frombits(bits) * math.Float32frombits((127+112)<<23)
	return math.Float32frombits(sign | math.Float32bits(x))
}
