package graph

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// halfValue is what the bits of a small float mean, by the definition: sign,
// exponent of eb bits, fraction of fb bits.
func halfValue(h uint16, eb, fb int) float64 {
	sign := 1.0
	if h>>15 != 0 {
		sign = -1
	}
	exp, frac := int(h>>fb)&(1<<eb-1), float64(h&(1<<fb-1))
	bias := 1<<(eb-1) - 1
	switch {
	case exp == 1<<eb-1 && frac != 0:
		return math.NaN()
	case exp == 1<<eb-1:
		return sign * math.Inf(1)
	case exp == 0:
		return sign * math.Ldexp(frac, 1-bias-fb)
	}
	return sign * math.Ldexp(1+math.Ldexp(frac, -fb), exp-bias)
}

// nearest finds the small float that is closest to f by looking at its two
// neighbours among all; of two that are as close it takes the even one.
func nearest(f float64, eb, fb int) uint16 {
	sign := uint16(0)
	if math.Signbit(f) {
		sign, f = 0x8000, -f
	}
	inf := uint16(1<<eb-1) << fb
	// The first that is not below f; the step beyond the largest finite one is
	// where infinity stands for rounding.
	value := func(h uint16) float64 {
		if h == inf {
			return math.Ldexp(1, 1<<(eb-1))
		}
		return halfValue(h, eb, fb)
	}
	lo, hi := uint16(0), inf
	if f >= value(inf) {
		return sign | inf
	}
	for lo < hi {
		if mid := lo + (hi-lo)/2; value(mid) >= f {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == 0 || value(lo) == f {
		return sign | lo
	}
	below, above := f-value(lo-1), value(lo)-f
	if below < above || below == above && lo&1 == 1 {
		lo--
	}
	return sign | lo
}

func TestHalfToFloat(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		for _, c := range []struct {
			name   string
			got    float64
			eb, fb int
		}{
			{"f16", float64(F16ToF32(h)), 5, 10},
			{"f16", (&Tensor{Type: Float16, Shape: []int{1}, Bytes: binary.LittleEndian.AppendUint16(nil, h)}).Float(0), 5, 10},
			{"bf16", (&Tensor{Type: BFloat16, Shape: []int{1}, Bytes: binary.LittleEndian.AppendUint16(nil, h)}).Float(0), 8, 7},
		} {
			want := halfValue(h, c.eb, c.fb)
			if math.Float64bits(c.got) != math.Float64bits(want) && !(math.IsNaN(c.got) && math.IsNaN(want)) {
				t.Fatalf("%s %#04x is %v, should be %v", c.name, h, c.got, want)
			}
		}
	}
}

// TestFloatToHalf looks at every small float, its neighbours among float32, and
// the ties between it and the next.
func TestFloatToHalf(t *testing.T) {
	check := func(f float32) {
		t.Helper()
		if math.IsNaN(float64(f)) {
			return
		}
		if got, want := F32ToF16(f), nearest(float64(f), 5, 10); got != want {
			t.Fatalf("%v (%#08x) is rounded to f16 %#04x, should be %#04x", f, math.Float32bits(f), got, want)
		}
		if got, want := F32ToBF16(f), nearest(float64(f), 8, 7); got != want {
			t.Fatalf("%v (%#08x) is rounded to bf16 %#04x, should be %#04x", f, math.Float32bits(f), got, want)
		}
	}
	around := func(f float32) {
		t.Helper()
		check(f)
		check(math.Nextafter32(f, float32(math.Inf(1))))
		check(math.Nextafter32(f, float32(math.Inf(-1))))
	}
	for i := range 1 << 16 {
		h := uint16(i)
		for _, form := range [][2]int{{5, 10}, {8, 7}} {
			f, next := halfValue(h, form[0], form[1]), halfValue(h+1, form[0], form[1])
			around(float32(f))
			around(float32((f + next) / 2))
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 500_000 {
		check(math.Float32frombits(r.Uint32()))
	}
	for _, f := range []float32{65504, 65519.996, 65520, 65535, math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-24, 0x1p-25, 0x1.8p-25} {
		around(f)
		around(-f)
	}
	for _, bits := range []uint32{0x7f800001, 0x7fc00000, 0xff800001, 0xffffffff} { // NaN stays NaN, with its sign
		nan := math.Float32frombits(bits)
		if h := F32ToF16(nan); !math.IsNaN(halfValue(h, 5, 10)) || uint32(h>>15) != bits>>31 {
			t.Errorf("NaN %#08x is rounded to f16 %#04x", bits, h)
		}
		if h := F32ToBF16(nan); !math.IsNaN(halfValue(h, 8, 7)) || uint32(h>>15) != bits>>31 {
			t.Errorf("NaN %#08x is rounded to bf16 %#04x", bits, h)
		}
	}
}

// TestTensorElements: what is set is what is read, in every type.
func TestTensorElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		f := rapid.Float64().Draw(t, "f")
		for d := range DType(32) {
			if !d.Valid() {
				continue
			}
			x := NewTensor(d, 3)
			x.SetInt(1, n)
			bits := d.Bits()
			want := n
			switch {
			case d == Bool:
				if want = 0; n != 0 {
					want = 1
				}
			case d.IsReal():
				x.SetFloat(1, f)
				want := f
				switch d {
				case Float32:
					want = float64(float32(f))
				case Float16:
					want = float64(F16ToF32(F32ToF16(float32(f))))
				case BFloat16:
					want = float64(math.Float32frombits(uint32(F32ToBF16(float32(f))) << 16))
				default:
					if table := Floats8(d); table != nil {
						want = float64(table[F32ToF8(d, float32(f), true)])
					}
				}
				if got := x.Float(1); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
					t.Fatalf("%s: %v is read as %v", d, f, got)
				}
				continue
			case strings.HasPrefix(d.String(), "u"):
				want = int64(uint64(n) << (64 - bits) >> (64 - bits))
			default:
				want = n << (64 - bits) >> (64 - bits)
			}
			if got := x.Int(1); got != want {
				t.Fatalf("%s: %d is read as %d, should be %d", d, n, got, want)
			}
			if d == Uint64 {
				if got := x.Float(1); got != float64(uint64(n)) {
					t.Fatalf("%d is read as %v", uint64(n), got)
				}
			}
			if x.Int(0) != 0 || x.Int(2) != 0 {
				t.Fatalf("%s: the neighbours changed", d)
			}
		}
	})
	x := NewTensor(Uint64, 1)
	x.SetFloat(0, 1.5e19)
	if got := x.Float(0); got != 1.5e19 {
		t.Errorf("1.5e19 is read as %v", got)
	}
}

func TestTensorViews(t *testing.T) {
	x := TensorOf(Float32, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	x.F32()[4] = 50
	if x.Float(4) != 50 || x.Len() != 6 || len(x.Bytes) != 24 {
		t.Errorf("%v, %d elements, %d bytes", x.Float(4), x.Len(), len(x.Bytes))
	}
	if got := TensorOf(Int64, []int64{7}).I64(); !slices.Equal(got, []int64{7}) {
		t.Errorf("a scalar is seen as %v", got)
	}
	if got := NewTensor(Float64, 3, 0).F64(); len(got) != 0 {
		t.Errorf("nothing is seen as %v", got)
	}
	for want, f := range map[string]func(){
		"graph: f32 seen as elements of 8 bytes": func() { x.F64() },
		"graph: tensor bytes are not aligned":    func() { (&Tensor{Type: Float32, Shape: []int{1}, Bytes: x.Bytes[1:5]}).F32() },
		"graph: 2 numbers for shape [3]":         func() { TensorOf(Float32, []float32{1, 2}, 3) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}

func TestDTypes(t *testing.T) {
	for d := range DType(64) {
		back, ok := ParseDType(d.String())
		if ok != d.Valid() || ok && back != d {
			t.Errorf("type %d is called %q, which is %d", d, d, back)
		}
		if d.Valid() != (d.Size() > 0) || d.IsReal() && d.IsInt() || d.IsFloat() && d.IsFloat8() || !d.Valid() && (d.IsFloat() || d.IsInt()) {
			t.Errorf("type %s: size %d, float %v, int %v", d, d.Size(), d.IsFloat(), d.IsInt())
		}
	}
}
