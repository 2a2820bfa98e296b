package graph

import "math"

// float8 describes an 8-bit floating-point format.
type float8 struct {
	digits int  // explicit bits of the significand
	bias   int  // of the exponent
	most   byte // encoding of the largest number
	nan    byte
	inf    byte // 0 if there is none
	// unsigned says that there is no negative zero; its encoding is NaN.
	unsigned bool

	numbers [256]float32 // by encoding
}

// floats8 lists the formats by type.
var floats8 = [...]*float8{
	Float8E4M3FN:   {digits: 3, bias: 7, most: 0x7e, nan: 0x7f},
	Float8E4M3FNUZ: {digits: 3, bias: 8, most: 0x7f, nan: 0x80, unsigned: true},
	Float8E5M2:     {digits: 2, bias: 15, most: 0x7b, nan: 0x7e, inf: 0x7c},
	Float8E5M2FNUZ: {digits: 2, bias: 16, most: 0x7f, nan: 0x80, unsigned: true},
}

func init() {
	for _, f := range floats8[Float8E4M3FN:] {
		for i := range f.numbers {
			f.numbers[i] = f.number(byte(i))
		}
	}
}

// number decodes a byte.
func (f *float8) number(b byte) float32 {
	abs := b & 0x7f
	sign := math.Float32frombits(uint32(b>>7)<<31 | math.Float32bits(1))
	switch {
	case f.unsigned && b == f.nan, abs > f.most && abs != f.inf:
		return float32(math.NaN())
	case abs == f.inf && abs != 0:
		return sign * float32(math.Inf(1))
	}
	exp, frac := int(abs>>f.digits), float64(abs&(1<<f.digits-1))
	if exp > 0 {
		frac += float64(int(1) << f.digits)
	}
	return sign * float32(math.Ldexp(frac, max(exp, 1)-f.bias-f.digits))
}

// Floats8 is the table that decodes an 8-bit float type; nil for other types.
func Floats8(t DType) *[256]float32 {
	if !t.IsFloat8() {
		return nil
	}
	return &floats8[t].numbers
}

// F32ToF8 rounds to the nearest 8-bit float, ties to even. Values that are too large become
// the largest number if saturate is set, else infinity, or NaN if the type has no infinity.
func F32ToF8(t DType, x float32, saturate bool) byte {
	f := floats8[t]
	bits := math.Float32bits(x)
	sign, abs := byte(bits>>24&0x80), bits&0x7fffffff
	over := f.most
	if !saturate {
		if over = f.inf; over == 0 {
			over = f.nan
		}
	}
	var code byte
	normal := uint32(128-f.bias) << 23 // the smallest normal number
	switch {
	case abs > 0x7f800000:
		code = f.nan
	case abs < normal:
		unit := math.Ldexp(1, f.bias-1+f.digits)
		code = byte(math.RoundToEven(float64(math.Float32frombits(abs)) * unit))
	default:
		drop := 23 - f.digits
		abs += 1<<(drop-1) - 1 + abs>>drop&1
		rounded := (abs - uint32(127-f.bias)<<23) >> drop
		if code = byte(rounded); rounded > uint32(f.most) {
			code = over
		}
	}
	if f.unsigned && (code == 0 || code == f.nan) {
		return code
	}
	return sign | code
}
