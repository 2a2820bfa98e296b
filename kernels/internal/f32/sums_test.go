package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMoments: the mean and spread of a row come out whatever is in front of
// it and however far from 0 it lies.
func TestMoments(t *testing.T) { atEveryLevel(t, testMoments) }

func testMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, row := range []struct {
		name                string
		n                   int
		mean, spread, first float64
	}{
		{"plain", 1000, 0, 1, 0.3},
		{"far from 0", 1000, 1000, 1, 1000},
		{"an outlier in front", 1024, 0, 1, 1e4},
		{"a zero in front", 300, 500, 0.5, 0},
		{"short", 32, -3, 2, -3},
		{"a small spread", 777, 1, 1e-4, 1},
		{"all alike", 640, 7, 0, 7},
	} {
		x := make([]float32, row.n)
		for i := range x {
			x[i] = float32(row.mean + row.spread*rng.NormFloat64())
		}
		x[0] = float32(row.first)
		mean, spread := 0.0, 0.0
		for _, v := range x {
			mean += float64(v) / float64(row.n)
		}
		for _, v := range x {
			spread += (float64(v) - mean) * (float64(v) - mean)
		}
		m, s := Moments(x)
		if sigma := math.Sqrt(spread / float64(row.n)); math.Abs(m-mean) > 1e-6*sigma+1e-7*math.Abs(mean) {
			t.Errorf("%s: the mean is %v, not %v", row.name, m, mean)
		}
		if !(math.Abs(s-spread) <= 1e-5*spread+1e-12) {
			t.Errorf("%s: the spread is %v, not %v", row.name, s, spread)
		}
	}
}

// TestRowsWithoutHeap: a row takes no memory of its own; there are thousands.
func TestRowsWithoutHeap(t *testing.T) {
	x, y := make([]float32, 1001), make([]float32, 1001)
	for name, row := range map[string]func(){
		"softmax": func() { Softmax(y, x) },
		"moments": func() { Moments(x) },
		"dot":     func() { Dot(x, y) },
		"sum":     func() { Sum(0, x) },
		"slope":   func() { NormSlope(y, y, x, 0, 1, x, 1, true) },
	} {
		if n := testing.AllocsPerRun(10, row); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
