package graph

// DType is the type of a tensor's elements. The numbers are ONNX's.
type DType uint8

// The element types.
const (
	Invalid  DType = 0
	Float32  DType = 1
	Uint8    DType = 2
	Int8     DType = 3
	Uint16   DType = 4
	Int16    DType = 5
	Int32    DType = 6
	Int64    DType = 7
	Bool     DType = 9
	Float16  DType = 10
	Float64  DType = 11
	Uint32   DType = 12
	Uint64   DType = 13
	BFloat16 DType = 16

	// 8-bit floats are only for storage: values are cast before they are computed with.
	// FN types have no infinities, UZ types no negative zero.
	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20

	// Integers of less than a byte, of quantized weights. Files pack them; in memory each has
	// a byte.
	Uint4 DType = 21
	Int4  DType = 22
	Uint2 DType = 25
	Int2  DType = 26
)

// dtypes describes each type; other types cannot be read from files.
var dtypes = [...]struct {
	name  string
	size  int64
	float bool
}{
	Float32:  {"f32", 4, true},
	Uint8:    {"u8", 1, false},
	Int8:     {"i8", 1, false},
	Uint16:   {"u16", 2, false},
	Int16:    {"i16", 2, false},
	Int32:    {"i32", 4, false},
	Int64:    {"i64", 8, false},
	Bool:     {"bool", 1, false},
	Float16:  {"f16", 2, true},
	Float64:  {"f64", 8, true},
	Uint32:   {"u32", 4, false},
	Uint64:   {"u64", 8, false},
	BFloat16: {"bf16", 2, true},

	Float8E4M3FN:   {"f8e4m3fn", 1, false},
	Float8E4M3FNUZ: {"f8e4m3fnuz", 1, false},
	Float8E5M2:     {"f8e5m2", 1, false},
	Float8E5M2FNUZ: {"f8e5m2fnuz", 1, false},

	Uint4: {"u4", 1, false},
	Int4:  {"i4", 1, false},
	Uint2: {"u2", 1, false},
	Int2:  {"i2", 1, false},
}

// Valid reports whether t is one of the types above.
func (t DType) Valid() bool { return int(t) < len(dtypes) && dtypes[t].size > 0 }

// String is the short name used in the text form: f32, i64, bool.
func (t DType) String() string {
	if !t.Valid() {
		return "invalid"
	}
	return dtypes[t].name
}

// Size is the bytes of one element; 0 for Invalid.
func (t DType) Size() int64 {
	if !t.Valid() {
		return 0
	}
	return dtypes[t].size
}

// Bits is the bits of an element that count; 0 for Invalid.
func (t DType) Bits() int {
	switch t {
	case Uint4, Int4:
		return 4
	case Uint2, Int2:
		return 2
	}
	return int(8 * t.Size())
}

// IsFloat reports whether gradients can flow through values of this type. 8-bit floats
// do not count, as nothing is computed in them.
func (t DType) IsFloat() bool { return t.Valid() && dtypes[t].float }

// IsFloat8 reports whether t is an 8-bit float.
func (t DType) IsFloat8() bool { return t >= Float8E4M3FN && t <= Float8E5M2FNUZ }

// IsReal reports whether t is a float of any size.
func (t DType) IsReal() bool { return t.IsFloat() || t.IsFloat8() }

// IsInt reports whether t is a signed or unsigned integer; Bool is not.
func (t DType) IsInt() bool { return t.Valid() && !t.IsReal() && t != Bool }

// ParseDType reads a short name.
func ParseDType(s string) (DType, bool) {
	for t, d := range dtypes {
		if d.name == s && s != "" {
			return DType(t), true
		}
	}
	return Invalid, false
}
