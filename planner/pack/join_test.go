package pack

import (
	"math/rand/v2"
	"testing"
)

// What was cut up is put together again: by cuts through all of a rectangle and others, whatever the order of its pieces and
// however many there are.
func TestJoin(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(n int, r *rand.Rand) []share
	}{{"two", inTwo}, {"many", inMany}, {"four", inFour}, {"five", inFive}, {"any", inAnyWay}} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{50, 500, 5000} {
				p := perfect(1, c.cut)(n, uint64(n))
				r := rand.New(rand.NewPCG(1, 1))
				r.Shuffle(len(p.Buffers), func(i, j int) { p.Buffers[i], p.Buffers[j] = p.Buffers[j], p.Buffers[i] })
				q, goal := wholeOf(p)
				q.unplaced()
				j := newJoiner(q)
				if j.join(); j.apart > 1+n/50 {
					t.Errorf("%d pieces are joined to %d", n, j.apart)
				}
				s := Solution{Offsets: make([]int64, len(p.Buffers)), Bound: goal}
				q.keep(q.joined(goal, goal))
				if s.read(p, []*part{q}); s.Height != goal {
					t.Errorf("%d pieces are %d high, not %d", n, s.Height, goal)
				}
				if err := Check(p, s); err != nil {
					t.Errorf("%d pieces: %v", n, err)
				}
			}
		})
	}
}

// Pieces keep their alignments, whatever they are, and nothing is joined that could not.
func TestJoinAligned(t *testing.T) {
	lower := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, seed))
		p := perfect(1, inAnyWay)(100, seed)
		for i := range p.Buffers {
			b := &p.Buffers[i]
			b.Align = []int64{0, 1, 16, 64}[r.IntN(4)]
			if r.IntN(100) == 0 {
				b.Align = 96
			}
			b.Size *= 192
		}
		q, goal := wholeOf(p)
		q.unplaced()
		q.keep(q.joined(goal, goal))
		if q.far(goal, 1) {
			continue
		}
		lower++
		s := Solution{Offsets: make([]int64, len(p.Buffers)), Bound: goal}
		s.read(p, []*part{q})
		if err := Check(p, s); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if lower < 20 {
		t.Errorf("only %d of 40 are joined", lower)
	}
}

// What was never cut up is left alone, and so is the time that trying would take.
func TestNotCutUp(t *testing.T) {
	pieces := map[string]bool{}
	for _, f := range perfects {
		pieces[f.name] = true
	}
	for _, f := range all() {
		for _, n := range []int{1000, 20_000} {
			p := f.make(n, 5)
			lives, sections := livesOf(p)
			joined := false
			for _, q := range divide(&part{lives: lives, sections: sections}, make([]int64, len(p.Buffers))) {
				joined = joined || len(q.lives) > fewest && q.cutUp()
			}
			if joined && !pieces[f.name] {
				t.Errorf("%s: %d buffers that nobody cut up are joined", f.name, n)
			}
		}
	}
}
