package quantize

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// groupsOf shows the batches of each group, by the name x.
func groupsOf(groups ...[][]float32) (int, func(int, func(string, []float32)) error) {
	return len(groups), func(group int, see func(string, []float32)) error {
		for _, batch := range groups[group] {
			see("x", batch)
		}
		return nil
	}
}

// TestRanges: what each method makes of a few values. Expected ranges are those of onnxruntime's
// calibrators, by .ci/peers --onnxruntime.
func TestRanges(t *testing.T) {
	on, off := true, false
	nan := float32(math.NaN())
	batches := [][]float32{{-1, 2, 3}, {0.5, -4, 1}}
	for _, c := range []struct {
		name   string
		by     Calibration
		groups [][][]float32
		want   Range
	}{
		{"extremes", Calibration{Method: "minmax"}, [][][]float32{batches}, Range{-4, 3}},
		{"no numbers", Calibration{Method: "minmax"}, [][][]float32{{{nan}, {}}}, Range{0, 0}},
		{"a mask", Calibration{Method: "entropy"}, [][][]float32{{{0, float32(math.Inf(-1))}, {-2}}}, Range{-2, 0}},
		{"some numbers", Calibration{Method: "minmax"}, [][][]float32{{{nan, 2}, {nan}}}, Range{2, 2}},
		{"symmetric", Calibration{Method: "minmax", Symmetric: &on}, [][][]float32{batches}, Range{-4, 4}},
		{"mean", Calibration{Method: "minmax", Moving: true}, [][][]float32{batches}, Range{-2.5, 2}},
		{"moving mean", Calibration{Method: "minmax", Moving: true, Average: 0.5}, [][][]float32{batches, {{-8, 8}}}, Range{-5.25, 5}},
		{"groups", Calibration{Method: "minmax"}, [][][]float32{batches[:1], batches[1:]}, Range{-4, 3}},
		{"entropy", Calibration{Method: "entropy"}, [][][]float32{batches}, Range{-4, 3}},
		{"all of a percentile", Calibration{Method: "percentile", Percentile: 100}, [][][]float32{batches}, Range{-4, 3}},
		{"both ends", Calibration{Method: "percentile", Percentile: 40, Symmetric: &off}, [][][]float32{{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}}, Range{1.9951172, 5.9941406}},
		{"a percentile", Calibration{Method: "percentile", Percentile: 60}, [][][]float32{batches}, Range{-1.9987793, 1.9987793}},
		{"entropy of groups", Calibration{Method: "entropy"}, [][][]float32{batches, {{-8, 8, 1}}}, Range{-4, 4.0625}},
		{"a percentile of groups", Calibration{Method: "percentile", Percentile: 60}, [][][]float32{batches, {{-8, 8, 1}}}, Range{-2.9985354, 2.9985354}},
		{"zeros", Calibration{Method: "percentile", Percentile: 99.9}, [][][]float32{{{0, 0}, {0}}}, Range{0, 0}},
	} {
		n, each := groupsOf(c.groups...)
		got, err := c.by.Ranges(n, each)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if d := max(abs(got["x"].Low-c.want.Low), abs(got["x"].High-c.want.High)); d > 1e-6 {
			t.Errorf("%s: %v, want %v", c.name, got["x"], c.want)
		}
	}
}

// TestRangesOfGroups: the bins of a histogram grow with later groups, and keep every count.
func TestRangesOfGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var groups [][][]float32
		total := int64(0)
		for range 1 + rng.IntN(4) {
			batch := make([]float32, 20+rng.IntN(50))
			for i := range batch {
				batch[i] = float32(rng.NormFloat64() * (1 + rng.Float64()))
			}
			total += int64(len(batch))
			groups = append(groups, [][]float32{batch})
		}
		for _, c := range []Calibration{{Method: "entropy"}, {Method: "percentile", Percentile: 99}} {
			var last *histogram
			n, each := groupsOf(groups...)
			for g := range n {
				e := &extremes{least: float32(math.Inf(1))}
				_ = each(g, func(_ string, x []float32) { e.see(x) })
				h, err := c.bins("x", last, e)
				if err != nil {
					t.Fatal(err)
				}
				_ = each(g, func(_ string, x []float32) { h.see(x) })
				h.merge(last)
				last = h
			}
			sum := int64(0)
			for _, n := range last.counts {
				sum += n
			}
			// Values below the first bin of absolute values are left out, as upstream.
			if sum > total || c.Method == "entropy" && sum != total {
				t.Fatalf("%s: %d of %d values", c.Method, sum, total)
			}
			n, each = groupsOf(groups...)
			r, err := c.Ranges(n, each)
			if err != nil || !(r["x"].Low <= r["x"].High) || r["x"].Low < last.low || r["x"].High > last.high {
				t.Fatalf("%s: %v, %v of %v to %v", c.Method, err, r["x"], last.low, last.high)
			}
		}
	}
}

func TestRangesFail(t *testing.T) {
	tiny, each := groupsOf([][]float32{{1e-20, 2e-20}}, [][]float32{{1}})
	for _, method := range []string{"entropy", "percentile"} {
		if _, err := (&Calibration{Method: method, Percentile: 99}).Ranges(tiny, each); err == nil {
			t.Errorf("%s: bins for ranges that differ 1e20 times", method)
		}
	}
	c := Calibration{Method: "entropy"}
	if _, err := c.Ranges(1, func(int, func(string, []float32)) error { return nil }); err == nil {
		t.Error("no data is no error")
	}
	wrong := errors.New("wrong")
	if _, err := c.Ranges(1, func(int, func(string, []float32)) error { return wrong }); err != wrong {
		t.Error(err)
	}
}
