package graph

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// Tensor is the contents of a value: little-endian bytes in row-major order. They may be in
// an arena, and live as long as its maker documents.
type Tensor struct {
	Type  DType
	Shape []int
	Bytes []byte
}

// NewTensor makes a tensor of zeros with bytes of its own.
func NewTensor(t DType, shape ...int) *Tensor {
	n := int(t.Size())
	for _, d := range shape {
		n *= d
	}
	// Allocate 8-byte words to align every element type.
	words := make([]uint64, (n+7)/8)
	var b []byte
	if len(words) > 0 {
		b = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
	}
	return &Tensor{Type: t, Shape: shape, Bytes: b}
}

// Elem lists the Go types that can hold elements.
type Elem interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~bool
}

// TensorOf makes a tensor from Go numbers.
func TensorOf[E Elem](t DType, data []E, shape ...int) *Tensor {
	x := NewTensor(t, shape...)
	copy(View[E](x), data)
	if x.Len() != len(data) {
		panic(fmt.Sprintf("graph: %d numbers for shape %v", len(data), shape))
	}
	return x
}

// View is the tensor's elements as a Go slice over the same bytes. E must have the size of
// the element type; float16 and bfloat16 are viewed as uint16.
func View[E Elem](x *Tensor) []E {
	var e E
	if int64(unsafe.Sizeof(e)) != x.Type.Size() {
		panic(fmt.Sprintf("graph: %s seen as elements of %d bytes", x.Type, unsafe.Sizeof(e)))
	}
	if len(x.Bytes) == 0 {
		return nil
	}
	p := unsafe.Pointer(&x.Bytes[0])
	if uintptr(p)%unsafe.Alignof(e) != 0 {
		panic("graph: tensor bytes are not aligned")
	}
	return unsafe.Slice((*E)(p), len(x.Bytes)/int(unsafe.Sizeof(e)))
}

// Aligned is the tensor, or a copy of it that is aligned for View, as data in a file may be at
// any address.
func (x *Tensor) Aligned() *Tensor {
	if len(x.Bytes) == 0 || uintptr(unsafe.Pointer(&x.Bytes[0]))%8 == 0 {
		return x
	}
	y := NewTensor(x.Type, x.Shape...)
	copy(y.Bytes, x.Bytes)
	return y
}

// F32 is the elements of a Float32 tensor.
func (x *Tensor) F32() []float32 { return View[float32](x) }

// F64 is the elements of a Float64 tensor.
func (x *Tensor) F64() []float64 { return View[float64](x) }

// I64 is the elements of an Int64 tensor.
func (x *Tensor) I64() []int64 { return View[int64](x) }

// Len is the number of elements.
func (x *Tensor) Len() int {
	n := 1
	for _, d := range x.Shape {
		n *= d
	}
	return n
}

// Float reads element i of any type as a float64.
func (x *Tensor) Float(i int) float64 {
	switch x.Type {
	case Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(x.Bytes[4*i:])))
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(x.Bytes[8*i:]))
	case Float16:
		return float64(F16ToF32(binary.LittleEndian.Uint16(x.Bytes[2*i:])))
	case BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(x.Bytes[2*i:])) << 16))
	case Uint64:
		return float64(binary.LittleEndian.Uint64(x.Bytes[8*i:]))
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ:
		return float64(floats8[x.Type].numbers[x.Bytes[i]])
	}
	return float64(x.Int(i))
}

// Int reads element i of an integer or bool tensor.
func (x *Tensor) Int(i int) int64 {
	switch x.Type {
	case Int64, Uint64:
		return int64(binary.LittleEndian.Uint64(x.Bytes[8*i:]))
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(x.Bytes[4*i:])))
	case Uint32:
		return int64(binary.LittleEndian.Uint32(x.Bytes[4*i:]))
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(x.Bytes[2*i:])))
	case Uint16:
		return int64(binary.LittleEndian.Uint16(x.Bytes[2*i:]))
	case Int8, Int4, Int2:
		return int64(int8(x.Bytes[i]))
	case Uint8, Uint4, Uint2:
		return int64(x.Bytes[i])
	case Bool:
		if x.Bytes[i] != 0 {
			return 1
		}
		return 0
	}
	return int64(x.Float(i))
}

// SetFloat writes element i from a float64, rounding to the element type; 8-bit floats saturate.
func (x *Tensor) SetFloat(i int, v float64) {
	switch x.Type {
	case Float32:
		binary.LittleEndian.PutUint32(x.Bytes[4*i:], math.Float32bits(float32(v)))
	case Float64:
		binary.LittleEndian.PutUint64(x.Bytes[8*i:], math.Float64bits(v))
	case Float16:
		binary.LittleEndian.PutUint16(x.Bytes[2*i:], F32ToF16(float32(v)))
	case BFloat16:
		binary.LittleEndian.PutUint16(x.Bytes[2*i:], F32ToBF16(float32(v)))
	case Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ:
		x.Bytes[i] = F32ToF8(x.Type, float32(v), true)
	case Bool:
		x.Bytes[i] = 0
		if v != 0 {
			x.Bytes[i] = 1
		}
	case Uint64:
		if v >= 1<<63 {
			binary.LittleEndian.PutUint64(x.Bytes[8*i:], uint64(v))
			return
		}
		x.SetInt(i, int64(v))
	default:
		x.SetInt(i, int64(v))
	}
}

// SetInt writes element i from an integer, keeping the low bits.
func (x *Tensor) SetInt(i int, v int64) {
	switch x.Type {
	case Int64, Uint64:
		binary.LittleEndian.PutUint64(x.Bytes[8*i:], uint64(v))
	case Int32, Uint32:
		binary.LittleEndian.PutUint32(x.Bytes[4*i:], uint32(v))
	case Int16, Uint16:
		binary.LittleEndian.PutUint16(x.Bytes[2*i:], uint16(v))
	case Int8, Uint8:
		x.Bytes[i] = byte(v)
	case Int4, Int2:
		off := 8 - x.Type.Bits()
		x.Bytes[i] = byte(int8(v<<off) >> off)
	case Uint4, Uint2:
		x.Bytes[i] = byte(v) & (1<<x.Type.Bits() - 1)
	default:
		x.SetFloat(i, float64(v))
	}
}

// F16ToF32 converts an IEEE half to float32.
func F16ToF32(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// F32ToF16 rounds to the nearest half, ties to even.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign, abs := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000: // rounds to infinity
		return sign | 0x7c00
	case abs < 0x38800000: // below the least normal half: count in units of 2⁻²⁴
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(abs))*0x1p24))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}

// F32ToBF16 rounds to the nearest bfloat16, ties to even.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
