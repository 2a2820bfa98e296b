package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Lives that wait are the smallest, and take no more of a section than they may.
func TestWaits(t *testing.T) {
	for _, f := range all() {
		lives, sections := livesOf(f.make(3000, 2))
		p := &part{lives: lives, sections: sections}
		goal := mostLive(lives, sections)
		for _, w := range []wait{some, some.times(swelled)} {
			h := p.large(w, goal)
			q, in, rest := h.part, h.in, h.rest
			if len(in)+len(rest) != len(lives) || len(q.lives) != len(in) {
				t.Fatalf("%s: %d lives, %d and %d that wait", f.name, len(lives), len(in), len(rest))
			}
			var late []life
			for _, i := range rest {
				late = append(late, lives[i])
			}
			if !slices.IsSortedFunc(late, func(a, b life) int {
				return cmp.Compare(float64(b.size)*float64(b.size)*float64(b.r-b.l), float64(a.size)*float64(a.size)*float64(a.r-a.l))
			}) {
				t.Errorf("%s: what waits is put in in the wrong order", f.name)
			}
			all := liveOf(lives, sections)
			for s, live := range liveOf(late, sections) {
				if most := w.goal*float64(goal) + w.spare*float64(goal-all[s]); live > int64(math.Ceil(most)) {
					t.Fatalf("%s: %d bytes of section %d wait, not %v", f.name, live, s, most)
				}
			}
		}
	}
}

// Where most lives have next to no bytes they wait although they live as long as the others.
func TestTinyWait(t *testing.T) {
	const n = 20_000
	for seed := range uint64(2) {
		p := drawnBy(func(n int, r *rand.Rand) Buffer {
			a := r.IntN(n)
			return Buffer{First: int32(a), Last: int32(a + 1 + r.IntN(n/5)), Size: 1 << (4 + r.IntN(16))}
		})(n, seed+1)
		if s := solved(t, p); s.Height > s.Bound+s.Bound/100 {
			t.Errorf("seed %d: height %d, by %s, is more than a percent above the bound %d", seed+1, s.Height, s.By, s.Bound)
		}
	}
}

// Where the large lives alone are no lower than what there is, that is not turned over either.
func TestImproveByNothing(t *testing.T) {
	tried := 0
	for _, f := range all() {
		p, goal := wholeOf(f.make(3000, 2))
		c := newClimb(p, goal, content)
		s, done := c.first()
		if done || p.fixed() {
			continue
		}
		p.unplaced()
		p.top = goal
		if p.improve(c, s); p.top != goal {
			t.Errorf("%s: %d is kept, which is not lower than %d", f.name, p.top, goal)
		}
		tried++
	}
	if tried == 0 {
		t.Error("nothing is left to improve")
	}
}

// A packing that is turned over is still one, and no higher where all lives are aligned the same.
func TestTurn(t *testing.T) {
	lowered := 0
	for _, f := range all() {
		problem := f.make(3000, 3)
		if len(problem.Fixed) > 0 {
			continue
		}
		align := problem.Buffers[0].Align
		same := !slices.ContainsFunc(problem.Buffers, func(b Buffer) bool { return b.Align != align })
		lives, sections := livesOf(problem)
		p := &part{lives: lives, sections: sections}
		p.unplaced()
		s := p.space(math.MaxInt)
		p.try(strategies[6:7], s, 0)
		next := make([]int64, len(lives))
		top := p.turn(s, p.offsets, next)
		if same && top > p.top {
			t.Errorf("%s: turned over, %d becomes %d", f.name, p.top, top)
		}
		if top < p.top {
			lowered++
		}
		turned := Solution{Offsets: make([]int64, len(problem.Buffers))}
		for i, l := range lives {
			turned.Offsets[l.id] = next[i]
		}
		for i, b := range problem.Buffers {
			if takesRoom(b) {
				turned.Height = max(turned.Height, turned.Offsets[i]+b.Size)
			}
		}
		if err := Check(problem, turned); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
	if lowered == 0 {
		t.Error("no packing became lower")
	}
}
