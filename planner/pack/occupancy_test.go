package pack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Where nobody will look nothing is noted, and who looks finds the same with as many looks.
func TestSpaceExpects(t *testing.T) {
	const n, sections = 600, 200
	r := rand.New(rand.NewPCG(6, 6))
	p := &part{sections: sections}
	for range n {
		begin := r.Int32N(sections)
		p.ranges = append(p.ranges, liveRange{begin: begin, end: min(begin+1+r.Int32N(40), sections), size: 1 + r.Int64N(50), align: 1 + r.Int64N(3), fixed: notFixed})
	}
	all, few := newOccupancy(p, math.MaxInt), newOccupancy(p, math.MaxInt)
	all.expect(p.ranges...)
	for i := 0; i < n; i += 4 {
		few.expect(p.ranges[i])
	}
	for i, l := range p.ranges {
		looks := all.looks
		all.query(l)
		at := firstFit(all, l, 0)
		looks = all.looks - looks
		if i%4 == 0 {
			before := few.looks
			few.query(l)
			if found := firstFit(few, l, 0); found != at || few.looks-before != looks {
				t.Fatalf("life %d: found %d after %d looks, not %d after %d", i, found, few.looks-before, at, looks)
			}
		}
		all.occupy(l, at)
		few.occupy(l, at)
	}
	noted := func(s *occupancy) (sum int) {
		for _, runs := range s.anywhere {
			sum += len(runs)
		}
		return sum
	}
	if noted(few) >= noted(all) {
		t.Errorf("%d runs are noted for a quarter of the lives, and %d for all", noted(few), noted(all))
	}
}
