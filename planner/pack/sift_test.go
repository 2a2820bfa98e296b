package pack

import "testing"

// What is packed from its large lives, which a search packs first, is a packing, lower than what it is to be lower than.
func TestSift(t *testing.T) {
	packings := 0
	for _, f := range all() {
		for seed := range uint64(2) {
			problem := f.make(1200, seed)
			if len(problem.Fixed) > 0 {
				continue
			}
			p, goal := wholeOf(problem)
			below := goal + goal/10
			packed, ok := p.sift(goal, below)
			if packed.offsets == nil {
				if ok {
					t.Errorf("%s: no packing is near", f.name)
				}
				continue
			}
			packings++
			p.unplaced()
			p.keep(packed)
			s := Solution{Offsets: make([]int64, len(problem.Buffers))}
			s.read(problem, []*part{p})
			if err := Check(problem, s); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
			if s.Height > packed.top || packed.top >= below || ok == packed.far(goal, content) {
				t.Errorf("%s: %d high, not %d, below %d, near %v", f.name, s.Height, packed.top, below, ok)
			}
		}
	}
	if packings < 8 {
		t.Errorf("%d problems are packed", packings)
	}
}
