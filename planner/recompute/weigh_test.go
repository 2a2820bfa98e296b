package recompute_test

import (
	"math/rand/v2"
	"testing"
)

// TestWeighed: what large values and others cost together is never more than the
// cheapest launches do, and on the way more than either.
func TestWeighed(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 12))
	asked, bounds, met := 0, 0, 0
	for asked < 600 {
		p := random(r, 3+r.IntN(8))
		s, limit := limited(t, r, p)
		weighed, passes, least, ok := s.Weighed(limit, int64(1+r.IntN(12)))
		if !ok || passes == 0 {
			continue
		}
		if asked++; weighed > least*(1+1e-9)+1e-9 {
			t.Fatalf("within %d: a bound of %v, launches for %v", limit, weighed, least)
		}
		if weighed > 0 {
			bounds++
		}
		if weighed > 0 && weighed > least*(1-1e-9) {
			met++
		}
	}
	if t.Logf("%d of %d are bounds, %d are met", bounds, asked, met); met < asked/50 {
		t.Error("few bounds are met")
	}
}
