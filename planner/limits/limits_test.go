package limits

import (
	"math"
	"math/rand/v2"
	"testing"
)

// plan is a plan of no program.
type plan struct {
	height int64
	cost   float64
}

func (p *plan) Height() int64 { return p.height }
func (p *plan) Peak() int64   { return p.height }
func (p *plan) Cost() float64 { return p.cost }

// TestLimits: whatever solving finds, within what bounds say, less memory never costs
// less, and no plan is over its limit.
func TestLimits(t *testing.T) {
	asked, answered, worked := 0, 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		top := rng.Int64N(1<<(8+rng.IntN(22))) + 1000
		floor := rng.Int64N(top * 3 / 4)
		lowest := floor // that solving finds
		if rng.IntN(4) == 0 {
			lowest += rng.Int64N(floor/2 + 1)
		}
		// How far plans are from the best, and bounds; and at how many points that gets dearer.
		chance, weak, points := rng.Float64()*10, rng.Float64()*10, 1+rng.IntN(200)
		if rng.IntN(2) == 0 {
			chance, weak = chance/100, weak/100
		}
		dearest := func(arena int64) float64 {
			return 40 * math.Round(float64(top-arena)/float64(top)*float64(points)) / float64(points)
		}
		// The same limit has always the same plan.
		of := func(limit int64, what uint64) *rand.Rand { return rand.New(rand.NewPCG(seed<<32+uint64(limit), what)) }
		bound := func(limit int64, what uint64) float64 {
			return max(0, dearest(limit)-weak*of(limit, what).Float64())
		}
		one := func(limit int64, what uint64) (f Found[*plan]) {
			rng := of(limit, what)
			height := limit - rng.Int64N(max(limit/50, 1))
			if f.Least = bound(limit, 1); height >= lowest && rng.IntN(5) > 0 {
				f.Plan = &plan{height, dearest(height) + chance*rng.Float64()}
			}
			for range rng.IntN(3) { // others missed the limit
				f.Above = append(f.Above, &plan{limit + rng.Int64N(limit/20+1), dearest(limit) + chance*rng.Float64()})
			}
			return f
		}
		// It may be clear at once that nothing cheaper than something is found.
		below := func(limit int64, other float64) Found[*plan] {
			f := one(limit, 3)
			floor := 40 * of(limit, 6).Float64()
			if f.Plan != nil {
				floor *= f.Plan.cost / 40
			}
			if f.From = math.Inf(1); floor >= other {
				f.Plan, f.From = nil, floor
			}
			return f
		}
		program := Program[*plan]{Base: &plan{height: top}, Floor: floor, Operators: []int{50, 200, 800, 3000, 10_000}[rng.IntN(5)], Align: 64, Cost: chance * rng.Float64() / 10 / apart}
		var l *Limits[*plan]
		l = Of(program, Solver[*plan](&chances{
			excluded: func(limit int64, cost float64) bool { return bound(limit, 4) >= cost },
			bound: func(limit int64) (float64, bool) { // more is proven where something was solved
				least := bound(limit, 2)
				if f, is := l.known[limit]; is {
					least = max(least, f.Least)
				}
				return least, limit >= floor
			},
			first: func(limit int64) (float64, bool) { return bound(limit, 5), limit >= floor },
			solve: func(limit int64, other float64) Found[*plan] {
				asked++
				return below(limit, other)
			},
			next: func(limit int64, from *plan) *plan { return one(limit, math.Float64bits(from.cost)).Plan },
			at: func(limit int64, most float64) *plan {
				if c := one(limit, 7).Plan; c != nil && c.cost <= most {
					return c
				}
				return nil
			},
			lowest: func(below int64) *plan {
				if of(floor, 10).IntN(4) == 0 {
					return nil
				}
				return one(lowest+int64(float64(floor)*of(floor, 11).Float64()/50), 12).Plan
			},
			all: func(limit int64) *plan {
				f := one(limit, 8)
				if f.Plan != nil {
					f.Plan.cost = max(dearest(f.Plan.height), f.Plan.cost-chance*of(limit, 9).Float64())
				}
				return f.Plan
			},
		}))
		least, leastWorked := math.Inf(1), math.Inf(1)
		for limit := int64(1); limit < top; limit += 1 + rng.Int64N(top/500) {
			if rng.IntN(3) == 0 { // what was asked before changes nothing
				clear(l.known)
				clear(l.ways)
				l.lows, l.all = nil, nil
			}
			c := l.Within(limit)
			if c == nil {
				if !math.IsInf(least, 1) {
					t.Fatalf("seed %d: no plan within %d of %d, but one within less", seed, limit, top)
				}
				continue
			}
			if c.height > limit {
				t.Fatalf("seed %d: %d bytes within %d", seed, c.height, limit)
			}
			if c.cost > least {
				t.Fatalf("seed %d: %v within %d of %d, %v within less", seed, c.cost, limit, top, least)
			}
			least = c.cost
			answered++
			better := l.Thorough(limit, c)
			if better.cost > c.cost || better.cost > leastWorked || better.height > limit {
				t.Fatalf("seed %d: more work finds %v in %d within %d, for %v before, and %v within less", seed, better.cost, better.height, limit, c.cost, leastWorked)
			}
			if leastWorked = better.cost; better.cost < c.cost {
				worked++
			}
			if rng.IntN(20) > 0 {
				continue
			}
			if low := l.LowestWithin(better.cost); low.cost > better.cost || l.Small() && low.height > better.height {
				t.Fatalf("seed %d: for %v there are %d bytes, and the lowest within that cost takes %d for %v", seed, better.cost, better.height, low.height, low.cost)
			}
		}
		for i, c := range l.Curve() {
			if i > 0 && c.height >= top {
				t.Fatalf("seed %d: a curve goes up to %d of %d bytes", seed, c.height, top)
			}
		}
	}
	if answered == 0 || worked == 0 {
		t.Errorf("of %d plans %d are better after more work", answered, worked)
	}
	t.Logf("%d plans from %d", answered, asked)
}

// chances is the solver of a program that is none.
type chances struct {
	excluded     func(limit int64, cost float64) bool
	bound, first func(limit int64) (float64, bool)
	solve        func(limit int64, other float64) Found[*plan]
	next         func(limit int64, from *plan) *plan
	at           func(limit int64, most float64) *plan
	lowest       func(below int64) *plan
	all          func(limit int64) *plan
}

func (c *chances) Least(limit int64) (float64, bool)            { return c.bound(limit) }
func (c *chances) Early(limit int64) (float64, bool)            { return c.first(limit) }
func (c *chances) Excludes(limit int64, cost float64) bool      { return c.excluded(limit, cost) }
func (c *chances) Find(limit int64, other float64) Found[*plan] { return c.solve(limit, other) }
func (c *chances) Near(limit int64, from *plan) *plan           { return c.next(limit, from) }
func (c *chances) At(limit int64, most float64, _ Effort) *plan { return c.at(limit, most) }
func (c *chances) LowestPeak(below int64) *plan                 { return c.lowest(below) }
func (c *chances) Trimmed(p *plan) *plan                        { return p }
func (c *chances) Fully(limit int64) *plan                      { return c.all(limit) }
func (c *chances) Wide(cost, bound float64) bool                { return cost > bound }
