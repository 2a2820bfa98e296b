package pack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestExpect: an occupancy that expects few ranges gives those the same answers, after as many looks, from shorter lists.
func TestExpect(t *testing.T) {
	const n, sections = 600, 200
	r := rand.New(rand.NewPCG(6, 6))
	p := &part{sections: sections}
	for range n {
		begin := r.Int32N(sections)
		p.ranges = append(p.ranges, liveRange{begin: begin, end: min(begin+1+r.Int32N(40), sections), size: 1 + r.Int64N(50), align: 1 + r.Int64N(3)})
	}
	all, few := newOccupancy(p, math.MaxInt), newOccupancy(p, math.MaxInt)
	all.expect(p.ranges...)
	for i := 0; i < n; i += 4 {
		few.expect(p.ranges[i])
	}
	for i, x := range p.ranges {
		looks := all.looks
		all.query(x)
		offset := firstFit(all, x, 0)
		looks = all.looks - looks
		if i%4 == 0 {
			before := few.looks
			few.query(x)
			if found := firstFit(few, x, 0); found != offset || few.looks-before != looks {
				t.Fatalf("range %d: found %d after %d looks, not %d after %d", i, found, few.looks-before, offset, looks)
			}
		}
		all.occupy(x, offset)
		few.occupy(x, offset)
	}
	noted := func(s *occupancy) (sum int) {
		for _, runs := range s.anywhere {
			sum += len(runs)
		}
		return sum
	}
	if noted(few) >= noted(all) {
		t.Errorf("%d intervals are kept for a quarter of the ranges, and %d for all", noted(few), noted(all))
	}
}
