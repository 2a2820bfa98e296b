package verify

import (
	"maps"
	"math"
	"slices"
	"testing"

	"memopt/memopt/graph"
)

// TestHalfFloats says why cases in 16-bit floats are listed as passed loosely:
// what they expect was rounded to 16 bits at every step, down to each addition
// of a softmax. Beside the same graph in float64, ours is nearer on the whole.
func TestHalfFloats(t *testing.T) {
	cases, closer, err := OpenZip(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	checked := 0
	listed := readList(t, expectedFile)
	for _, dir := range slices.Sorted(maps.Keys(listed)) {
		if listed[dir] != looseReason {
			continue
		}
		c, err := Open(cases, dir)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Sets[0]
		g, _, err := c.Read(s)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := onDevice(g, nil, s.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		wide, given, err := widen(g, s.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		exact, err := interpret(wide, nil, given)
		if err != nil {
			t.Fatal(err)
		}
		our, their := 0.0, 0.0
		for i := range exact {
			our, their = max(our, inUlps(ours[i], exact[i])), max(their, inUlps(s.Outputs[i], exact[i]))
		}
		if our > their {
			t.Errorf("%s: ours is not nearer", dir)
		}
		t.Logf("%s: off by %.2f units of the last place, the expected numbers by %.2f", dir, our, their)
		checked++
	}
	if checked == 0 {
		t.Error("nothing was checked; are there still such cases?")
	}
}

// inUlps is the distance in units of the last place of x's type, as the root of
// the mean square.
func inUlps(x, exact *graph.Tensor) float64 {
	sum := 0.0
	for k := range x.Len() {
		want := exact.Float(k)
		if d := math.Abs(x.Float(k) - want); d > 0 && !math.IsInf(want, 0) {
			_, e := math.Frexp(want)
			d /= math.Ldexp(1, e-digits[x.Type])
			sum += d * d
		}
	}
	return math.Sqrt(sum / float64(max(1, x.Len())))
}
