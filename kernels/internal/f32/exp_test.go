package f32

import (
	"math"
	"math/rand/v2"
	"testing"

	"memopt/kernels/internal/gelu"
)

// TestFunctions holds the row functions to math's.
func TestFunctions(t *testing.T) { atEveryLevel(t, testFunctions) }

func testFunctions(t *testing.T) {
	inner := func(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + gelu.Cubic*x*x*x) }
	for _, f := range []struct {
		name  string
		row   func(y, x []float32)
		want  func(float64) float64
		scale func(x, want float64) float64 // what the error is measured against
	}{
		{"exp", Exp, math.Exp, magnitudeOf},
		{"exp32", func(y, x []float32) {
			for i, v := range x {
				y[i] = exp32(v)
			}
		}, math.Exp, magnitudeOf},
		{"sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, magnitudeOf},
		{"tanh", Tanh, math.Tanh, magnitudeOf},
		{"erf", Erf, math.Erf, magnitudeOf},
		{"gelu", Gelu, func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }, againstOne},
		{"gelu's slope", func(y, x []float32) {
			dy := make([]float32, len(x))
			for i := range dy {
				dy[i] = 1
			}
			GeluSlope(y, dy, x)
		}, func(x float64) float64 {
			return 0.5*math.Erfc(-x/math.Sqrt2) + x*math.Exp(-0.5*x*x)/math.Sqrt(2*math.Pi)
		}, againstOne},
		{"gelu by tanh", GeluTanh, func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(inner(x))) }, againstOne},
	} {
		var x []float32
		for v := -90.0; v < 90; v += 0.0103 {
			x = append(x, float32(v), float32(v/50))
		}
		inf := float32(math.Inf(1))
		x = append(x, 0, 1e-30, -1e-8, 88.7, 88.72, 88.73, 88.75, -87.2, -87.4, 1e10, -1e10, inf, -inf, float32(math.NaN()))
		y := make([]float32, len(x))
		f.row(y, x)
		for i, v := range x {
			want := f.want(float64(v))
			if float32(want) == y[i] || math.IsNaN(want) && y[i] != y[i] {
				continue
			}
			// Numbers below the least normal one may be 0.
			if d := math.Abs(float64(y[i]) - want); !(d <= 2e-6*f.scale(float64(v), want)+2e-38) {
				t.Errorf("%s(%v) is %v, not %v", f.name, v, y[i], want)
			}
		}
	}
}

func magnitudeOf(_, want float64) float64 { return math.Abs(want) }
func againstOne(x, want float64) float64  { return max(1, math.Abs(want)) }

// TestRowsByPlace: an element has the same bits wherever it stands.
func TestRowsByPlace(t *testing.T) { atEveryLevel(t, testRowsByPlace) }

func testRowsByPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 600)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * 5)
	}
	for _, row := range []func(y, x []float32){Exp, Sigmoid, Tanh, Erf, Gelu} {
		whole := make([]float32, len(x))
		row(whole, x)
		for from := 0; from < len(x); {
			to := min(len(x), from+1+rng.IntN(40))
			y := make([]float32, to-from)
			row(y, x[from:to])
			for i, v := range y {
				if v != whole[from+i] {
					t.Fatalf("element %d is %v alone and %v in the row", from+i, v, whole[from+i])
				}
			}
			from = to
		}
	}
}

func BenchmarkRows(b *testing.B) {
	x, y := make([]float32, 1<<16), make([]float32, 1<<16)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for _, f := range []struct {
		name string
		row  func(y, x []float32)
	}{
		{"exp", Exp}, {"sigmoid", Sigmoid}, {"tanh", Tanh}, {"erf", Erf}, {"gelu", Gelu},
		{"math.Exp", func(y, x []float32) {
			for i, v := range x {
				y[i] = float32(math.Exp(float64(v)))
			}
		}},
		{"math.Tanh", func(y, x []float32) {
			for i, v := range x {
				y[i] = float32(math.Tanh(float64(v)))
			}
		}},
	} {
		b.Run(f.name, func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				f.row(y, x)
			}
		})
	}
}
