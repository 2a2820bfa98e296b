package pack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// perfects are families in which a perfect packing has not a byte to spare.
var perfects = []adversary{
	{family{"guillotine", perfect(1, inTwo)}, 0},
	{family{"guillotines", perfect(40, inTwo)}, 0},
	{family{"small guillotines", perfect(400, inTwo)}, 0},
	{family{"pinwheel", perfect(1, inFive)}, 0},
	{family{"pinwheels", perfect(40, inFive)}, 0},
	{family{"slices", perfect(1, inMany)}, 0},
	{family{"quarters", perfect(1, inFour)}, 0},
	{family{"any cuts", perfect(1, inAnyWay)}, 0},
	{family{"coarse slices", cutUp(1, 0.25, inMany)}, 0},
	{family{"coarse pinwheel", cutUp(1, 0.25, inFive)}, 0},
	{family{"coarse quarters", cutUp(1, 0.05, inFour)}, 0},
	{family{"rounded", rounded(perfect(1, inAnyWay))}, 0},
	{family{"pieces left out", leftOut(0.01, perfect(1, inTwo))}, 0},
	{family{"bricks", bricks}, 0},
	{family{"cut up here and there", scattered}, 0},
	{family{"cut anywhere", anywhere(20_000, 1<<30)}, 10},
	{family{"cut anywhere in a million bytes", anywhere(20_000, 1<<20)}, 100},
	{family{"cut anywhere at few moments", anywhere(1000, 1<<30)}, 1500},
}

// perfect is rectangles that are cut up where few cuts are at the same moment.
func perfect(rectangles int, cut func(n int, r *rand.Rand) []share) func(n int, seed uint64) Problem {
	return cutUp(rectangles, 8, cut)
}

// cutUp is rectangles of time and bytes, one after another, that are cut into n buffers in all, which fill
// them together. There are so many moments for each buffer.
func cutUp(rectangles int, moments float64, cut func(n int, r *rand.Rand) []share) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) (p Problem) {
		const height = 1 << 40
		r := rand.New(rand.NewPCG(seed, seed))
		length := int(moments * float64(n/rectangles))
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

// inMany is up to six slices.
func inMany(n int, r *rand.Rand) []share {
	k := min(n, 2+r.IntN(5))
	ends, sum := make([]float64, k+1), 0.0
	for i := range k {
		sum += 0.3 + r.Float64()
		ends[i+1] = sum
	}
	across := r.IntN(2) == 0
	left := n - k
	var slices []share
	for i := range k {
		from, to := ends[i]/sum, ends[i+1]/sum
		more := int((to - from) * float64(n-k))
		if i == k-1 {
			more = left
		}
		left -= more
		if across {
			slices = append(slices, share{from, to, 0, 1, 1 + more})
		} else {
			slices = append(slices, share{0, 1, from, to, 1 + more})
		}
	}
	return slices
}

// inFour is four quarters around a point; fewer than four buffers are cut in two.
func inFour(n int, r *rand.Rand) []share {
	if n < 4 {
		return inTwo(n, r)
	}
	x, y := 0.25+0.5*r.Float64(), 0.25+0.5*r.Float64()
	buffers := func(area float64) int { return 1 + int(area*float64(n-4)) }
	return []share{{0, x, 0, y, buffers(x * y)}, {x, 1, 0, y, buffers((1 - x) * y)},
		{0, x, y, 1, buffers(x * (1 - y))}, {x, 1, y, 1, buffers((1 - x) * (1 - y))}}
}

// inAnyWay is one of these.
func inAnyWay(n int, r *rand.Rand) []share {
	return [...]func(int, *rand.Rand) []share{inTwo, inFour, inFive, inMany}[r.IntN(4)](n, r)
}

// bricks are rows of buffers of the same size, each row of a size of its own.
func bricks(n int, seed uint64) (p Problem) {
	r := rand.New(rand.NewPCG(seed, seed))
	rows := n / 20
	for range rows {
		size := 64 * (1 + r.Int64N(1<<10))
		for at, end := 0, 4000; at < end; {
			length := min(end-at, 1+r.IntN(400))
			p.Buffers = append(p.Buffers, lasting(at, length, size, 64))
			at += length
		}
	}
	return p
}

// rounded is a problem with sizes that are made smaller and rounded.
func rounded(f func(n int, seed uint64) Problem) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) Problem {
		p := f(n, seed)
		for i := range p.Buffers {
			p.Buffers[i].Size = 1 + int64(0.987*float64(p.Buffers[i].Size))
		}
		return p
	}
}

// leftOut is a problem that lacks a share of its buffers.
func leftOut(share float64, f func(n int, seed uint64) Problem) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) (p Problem) {
		r := rand.New(rand.NewPCG(seed, seed+1))
		for _, b := range f(n, seed).Buffers {
			if r.Float64() >= share {
				p.Buffers = append(p.Buffers, b)
			}
		}
		return p
	}
}

// anywhere is a rectangle of so many moments and bytes that is cut in two again and again, the larger of any two pieces at any place.
func anywhere(moments int32, bytes int64) func(n int, seed uint64) Problem {
	return func(n int, seed uint64) Problem {
		r := rand.New(rand.NewPCG(seed, seed))
		pieces := []Buffer{{Last: moments, Size: bytes}}
		area := func(b Buffer) float64 { return float64(b.Last-b.First) * float64(b.Size) }
		for len(pieces) < n {
			b, other := &pieces[r.IntN(len(pieces))], &pieces[r.IntN(len(pieces))]
			if area(*other) > area(*b) {
				b = other
			}
			rest := *b
			switch across := r.IntN(2) == 0; {
			case across && b.Last-b.First > 1:
				b.Last = b.First + 1 + r.Int32N(b.Last-b.First-1)
				rest.First = b.Last
			case !across && b.Size > 1:
				b.Size = 1 + r.Int64N(b.Size-1)
				rest.Size -= b.Size
			default:
				continue
			}
			pieces = append(pieces, rest)
		}
		return Problem{Buffers: pieces}
	}
}

// scattered is rectangles at any time, each cut up.
func scattered(n int, seed uint64) (p Problem) {
	const rectangles = 50
	r := rand.New(rand.NewPCG(seed, seed))
	for range rectangles {
		first := r.Int32N(int32(8 * n))
		for _, b := range perfect(1, inAnyWay)(n/rectangles, r.Uint64()).Buffers {
			b.First += first
			b.Last += first
			p.Buffers = append(p.Buffers, b)
		}
	}
	return p
}

// However many lives a problem has, and in however many parts they are, searches take no more than a few looks for each.
func TestPurse(t *testing.T) {
	for _, f := range perfects {
		t.Run(f.name, func(t *testing.T) {
			const n = 20_000
			p := f.make(n, 1)
			lives, sections := livesOf(p)
			goal := mostLive(lives, sections)
			parts := divide(&part{lives: lives, sections: sections}, make([]int64, len(p.Buffers)))
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
		for _, q := range divide(&part{lives: lives, sections: sections}, make([]int64, len(p.Buffers))) {
			if len(q.lives) <= few {
				continue
			}
			c := newClimb(q, goal, content)
			s, _ := c.first()
			one := c.looks + c.worth(0)
			s = c.again(s, tried*len(q.lives), climbs*len(q.lives), never)
			t.Logf("%s: %d lives, %d looks for each, %.2f %% above the bound", f.name, len(q.lives), c.looks/len(q.lives), percent(s.highest, goal))
			if c.looks > one*5/4 {
				t.Errorf("%s: climbs took %d looks for each life", f.name, c.looks/len(q.lives))
			}
		}
	}
}
