package graph

import (
	"math"
	"testing"
)

// forms8 are the types of 8-bit floats with the bits of their exponents and
// significands, and the greatest number, as their papers give them.
var forms8 = []struct {
	t      DType
	eb, fb int
	most   float64
	inf    bool
}{
	{Float8E4M3FN, 4, 3, 448, false}, {Float8E4M3FNUZ, 4, 3, 240, false}, {Float8E5M2, 5, 2, 57344, true}, {Float8E5M2FNUZ, 5, 2, 57344, false},
}

// TestFloat8Numbers: each byte is the number that its bits spell.
func TestFloat8Numbers(t *testing.T) {
	for _, f := range forms8 {
		bias := 1<<(f.eb-1) - 1
		if f.t == Float8E4M3FNUZ || f.t == Float8E5M2FNUZ {
			bias++
		}
		finite, most := 0, 0.0
		for i := range 256 {
			got := float64(Floats8(f.t)[i])
			if math.IsNaN(got) || math.IsInf(got, 0) {
				continue
			}
			finite++
			most = max(most, got)
			exp, frac := i>>f.fb&(1<<f.eb-1), float64(i&(1<<f.fb-1))/float64(int(1)<<f.fb)
			want := math.Ldexp(frac, 1-bias)
			if exp > 0 {
				want = math.Ldexp(1+frac, exp-bias)
			}
			if i >= 128 {
				want = -want
			}
			if math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("%s %#02x is %v, not %v", f.t, i, got, want)
			}
		}
		want := map[DType]int{Float8E4M3FN: 254, Float8E4M3FNUZ: 255, Float8E5M2: 248, Float8E5M2FNUZ: 255}[f.t]
		if finite != want || most != f.most {
			t.Errorf("%s has %d numbers up to %v, not %d up to %v", f.t, finite, most, want, f.most)
		}
	}
	if Floats8(Float16) != nil {
		t.Error("f16 is no 8-bit float")
	}
}

// TestFloat8Rounds: a number becomes the nearest one, of two the even one, and
// what is beyond them what is asked for.
func TestFloat8Rounds(t *testing.T) {
	for _, f := range forms8 {
		table := Floats8(f.t)
		up := make([]float64, 0, 128) // the numbers that are not negative, in the order of their bytes
		for i := range 128 {
			if x := float64(table[i]); !math.IsNaN(x) && !math.IsInf(x, 0) {
				up = append(up, x)
			}
		}
		check := func(x float64, want byte) {
			t.Helper()
			for _, sign := range []float64{1, -1} {
				w := want
				if sign < 0 && (want != 0 || f.inf || f.t == Float8E4M3FN) {
					w |= 0x80
				}
				if got := F32ToF8(f.t, float32(sign*x), true); got != w {
					t.Errorf("%s: %v is %#02x, not %#02x", f.t, sign*x, got, w)
				}
			}
		}
		for i, x := range up {
			check(x, byte(i))
			if i+1 == len(up) {
				break
			}
			mid, even := (x+up[i+1])/2, i+i&1
			check(mid, byte(even))
			check(float64(math.Nextafter32(float32(mid), 0)), byte(i))
			check(float64(math.Nextafter32(float32(mid), math.MaxFloat32)), byte(i+1))
		}
		last := len(up) - 1
		for _, x := range []float64{f.most * 1.03, f.most * 2, math.MaxFloat32, math.Inf(1)} {
			check(x, byte(last))
		}
		for _, x := range []float32{float32(f.most) * 2, float32(math.Inf(1)), -float32(math.Inf(1))} {
			got := float64(table[F32ToF8(f.t, x, false)])
			if want := math.Copysign(math.Inf(1), float64(x)); f.inf && got != want || !f.inf && !math.IsNaN(got) {
				t.Errorf("%s: %v is %v if it may not be the largest", f.t, x, got)
			}
		}
		if got := table[F32ToF8(f.t, float32(math.NaN()), true)]; !math.IsNaN(float64(got)) {
			t.Errorf("%s: no number is %v", f.t, got)
		}
	}
}
