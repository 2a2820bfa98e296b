package pack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// perfects are families in which a perfect packing has not a byte to spare.
var perfects = []adversary{
	{family{"guillotine", perfect(1, inTwo)}, 2250},
	{family{"guillotines", perfect(40, inTwo)}, 2600},
	{family{"small guillotines", perfect(400, inTwo)}, 0},
	{family{"pinwheel", perfect(1, inFive)}, 1750},
	{family{"pinwheels", perfect(40, inFive)}, 2500},
}

// perfect is rectangles of time and bytes, one after another, that are cut into n buffers in all, which fill
// them together.
func perfect(rectangles int, cut func(n int, r *rand.Rand) []share) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) (p Problem) {
		const height = 1 << 40
		r := rand.New(rand.NewPCG(seed, seed))
		length := 8 * n / rectangles
		var fill func(n, first, last int, size int64)
		fill = func(n, first, last int, size int64) {
			if n == 1 {
				p.Buffers = append(p.Buffers, lasting(first, last-first, size, 1))
				return
			}
			span := float64(last - first)
			for _, s := range cut(n, r) {
				x, y := first+int(s.x*span), first+int(s.right*span)
				low, high := int64(s.y*float64(size)), int64(s.top*float64(size))
				if x < y && low < high {
					fill(s.n, x, y, high-low)
				}
			}
		}
		for i := range rectangles {
			fill(n/rectangles, i*length, (i+1)*length, height)
		}
		return p
	}
}

// share is a piece of a rectangle one wide and one high, and in how many buffers it ends.
type share struct {
	x, right, y, top float64
	n                int
}

// inTwo is two pieces side by side or on top of each other, about as large as they have buffers: a guillotine could cut all.
func inTwo(n int, r *rand.Rand) []share {
	low := 1 + r.IntN(n-1)
	at := float64(low) / float64(n)
	if r.IntN(2) == 0 {
		return []share{{0, at, 0, 1, low}, {at, 1, 0, 1, n - low}}
	}
	return []share{{0, 1, 0, at, low}, {0, 1, at, 1, n - low}}
}

// inFive is four pieces around one, each of which ends at the side of the next, which no guillotine could cut; fewer than
// five buffers are cut in two.
func inFive(n int, r *rand.Rand) []share {
	if n < 5 {
		return inTwo(n, r)
	}
	between := func() float64 { return 0.2 + 0.25*r.Float64() }
	x, right, y, top := between(), 1-between(), between(), 1-between()
	all := []share{{0, right, 0, y, 1}, {right, 1, 0, top, 1}, {x, 1, top, 1, 1}, {0, x, y, 1, 1}, {x, right, y, top, 1}}
	left := n - len(all)
	for i := range all {
		s := &all[i]
		more := min(int((s.right-s.x)*(s.top-s.y)*float64(n-len(all))), left)
		if i == len(all)-1 {
			more = left
		}
		s.n += more
		left -= more
	}
	return all
}

// However many lives a problem has, and in however many parts they are, searches take no more than a few looks for each.
func TestPurse(t *testing.T) {
	for _, f := range perfects {
		t.Run(f.name, func(t *testing.T) {
			const n = 20_000
			p := f.make(n, 1)
			lives, sections := livesOf(p)
			goal := mostLive(lives, sections)
			parts := divide(lives, sections, make([]int64, len(p.Buffers)))
			for _, q := range parts {
				portfolio(q, goal, goal)
			}
			before := highest(parts)
			used := lowest(parts, goal, math.MaxInt)
			t.Logf("%d parts, %d looks for each life, from %.2f %% to %.2f %% above the bound", len(parts), used/n,
				percent(before, goal), percent(highest(parts), goal))
			if used > pittance*n*101/100 {
				t.Errorf("searches took %d looks for each life, not %d", used/n, pittance)
			}
		})
	}
}

func highest(parts []*part) (top int64) {
	for _, p := range parts {
		top = max(top, p.top)
	}
	return top
}

func percent(top, goal int64) float64 { return 100 * float64(top-goal) / float64(goal) }

// What one climb in stages does not bring near is given no other.
func TestHopeless(t *testing.T) {
	for _, f := range perfects {
		p := f.make(6000, 1)
		lives, sections := livesOf(p)
		goal := mostLive(lives, sections)
		for _, q := range divide(lives, sections, make([]int64, len(p.Buffers))) {
			if len(q.lives) <= few {
				continue
			}
			c := newClimb(q, goal, content)
			s, _ := c.first()
			s = c.again(s, tried*len(q.lives), climbs*len(q.lives), never)
			t.Logf("%s: %d lives, %d looks for each, %.2f %% above the bound", f.name, len(q.lives), c.looks/len(q.lives), percent(s.highest, goal))
			if c.looks > climbs*4/5*len(q.lives) {
				t.Errorf("%s: climbs took %d looks for each life", f.name, c.looks/len(q.lives))
			}
		}
	}
}
