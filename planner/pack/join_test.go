package pack

import (
	"math"
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

// However joints are broken up and joined again, with pieces missing or not, lives are packed.
func TestJoinAgain(t *testing.T) {
	for name, f := range map[string]func(n int, seed uint64) Problem{
		"cut": anywhere(4000, 1<<16), "few moments": anywhere(200, 1<<12), "left out": leftOut(0.01, perfect(1, inAnyWay)),
	} {
		for seed := range uint64(3) {
			p := f(few+500, seed)
			q, goal := wholeOf(p)
			j := newJoiner(q)
			j.join()
			for _, again := range rejoined {
				j = j.broken(again.levels, again.ways)
				j.join()
				r := q.together(j, goal, goal, 1)
				s := Solution{Offsets: make([]int64, len(p.Buffers)), Bound: goal}
				if s.read(p, []*part{&r}); s.Height != r.top {
					t.Errorf("%s: %d high, not %d", name, s.Height, r.top)
				}
				if err := Check(p, s); err != nil {
					t.Errorf("%s: broken up %d levels deep: %v", name, again.levels, err)
				}
			}
		}
	}
}

// Missing pieces between a moment and the next at which anything begins take no time, and are no lives.
func TestJoinGaps(t *testing.T) {
	for seed := uint64(40); seed < 43; seed++ {
		solved(t, leftOut(0.02, anywhere(18_650, 1<<12))(5907, seed))
	}
}

// What was joined wrong, and so goes together with nothing else, is joined better the next time.
func TestJoinBetter(t *testing.T) {
	before, after := 0, 0
	for seed := range uint64(6) {
		q, _ := wholeOf(anywhere(20_000, 1<<16)(20_000, seed))
		j := newJoiner(q)
		j.join()
		before += j.apart
		for _, again := range rejoined[:2] {
			b := j.broken(again.levels, again.ways)
			if b.join(); b.apart < j.apart {
				j = b
			}
		}
		after += j.apart
	}
	t.Logf("%d joints, then %d", before, after)
	if after > before*3/4 {
		t.Errorf("%d joints are %d when they are joined again", before, after)
	}
}

// What is to go within the bytes alive is joined until it does, though less would be near enough.
func TestJoinWithin(t *testing.T) {
	for name, p := range map[string]Problem{
		"guillotine": perfect(1, inTwo)(20_000, 8), "coarse slices": cutUp(1, 0.25, inMany)(20_000, 15),
	} {
		p.Capacity, _ = MaxLive(p)
		t.Run(name, func(t *testing.T) { solved(t, p) })
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

// Where crowds begin and end at few moments, about as many bytes begin as end as if they had been cut up, and there is no end of
// what could be joined. What it takes to find out is bounded, as is what it takes to nest them.
func TestCrowds(t *testing.T) {
	const n = 20_000
	sizes := map[string]func(r *rand.Rand) int64{
		"one size":  func(*rand.Rand) int64 { return 7 },
		"two sizes": func(r *rand.Rand) int64 { return 1 + r.Int64N(2) },
		"any size":  func(r *rand.Rand) int64 { return 1<<19 + r.Int64N(1<<19) },
	}
	for name, size := range sizes {
		for _, moments := range []int{3, 20, 100} {
			r := rand.New(rand.NewPCG(1, uint64(moments)))
			var p Problem
			for range n {
				first := r.IntN(moments)
				p.Buffers = append(p.Buffers, Buffer{First: int32(first), Last: int32(first + 1 + r.IntN(2)), Size: size(r)})
			}
			q, goal := wholeOf(p)
			j := newJoiner(q)
			if j.join(); j.looks > 2*joins*n {
				t.Errorf("%s at %d moments: %d looks to join", name, moments, j.looks)
			}
			if j.turned > 2*wheels*n {
				t.Errorf("%s at %d moments: %d looks for pinwheels", name, moments, j.turned)
			}
			if _, ok := q.nest(q.startFirst(), make([]int64, n), math.MaxInt64); ok && moments == 3 {
				t.Errorf("%s at %d moments: nested", name, moments)
			}
			s, err := Solve(p, Effort{})
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(p, s); err != nil || s.Height > goal+goal/100 {
				t.Errorf("%s at %d moments: %s ends at %d, %d are alive: %v", name, moments, s.By, s.Height, goal, err)
			}
		}
	}
}
