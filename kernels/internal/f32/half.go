package f32

import "math"

// half is Matrix for 16-bit floats.
type half struct {
	data   []uint16
	si, sp int
	scale  float32
	widen  func(h uint16) float32
}

// Pack is of Operand.
func (d half) Pack(dst []float32, i0, i1, p0, p1, w int) {
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

// Halves is a matrix of float16, or of bfloat16 if brain: element (i, p) is at i·si + p·sp.
func Halves(data []uint16, si, sp int, scale float32, brain bool) Operand {
	if brain {
		return half{data, si, sp, scale, WidenBrain}
	}
	return half{data, si, sp, scale, WidenHalf}
}

// WidenBrain converts a bfloat16 to float32.
func WidenBrain(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// WidenHalf converts a float16 to float32. It shifts the bits and corrects the exponent by a multiplication, which also
// handles subnormal numbers.
func WidenHalf(h uint16) float32 {
	sign, bits := uint32(h>>15)<<31, uint32(h&0x7fff)<<13
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | bits | 0x7f800000)
	}
	x := math.Float32frombits(bits) * math.Float32frombits((127+112)<<23)
	return math.Float32frombits(sign | math.Float32bits(x))
}
