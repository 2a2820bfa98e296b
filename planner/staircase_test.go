package planner

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/zoo"
	"memopt/planner/pack"
)

// TestStaircase: whatever solving finds, within what bounds say, less memory never costs
// less, and no plan is over its limit.
func TestStaircase(t *testing.T) {
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
		one := func(limit int64, what uint64) (f found) {
			rng := of(limit, what)
			height := limit - rng.Int64N(max(limit/50, 1))
			if f.least = bound(limit, 1); height >= lowest && rng.IntN(5) > 0 {
				f.plan = &candidate{cost: dearest(height) + chance*rng.Float64(), placed: pack.Solution{Height: height}}
			}
			for range rng.IntN(3) { // others missed the limit
				f.above = append(f.above, &candidate{cost: dearest(limit) + chance*rng.Float64(), placed: pack.Solution{Height: limit + rng.Int64N(limit/20+1)}})
			}
			return f
		}
		// It may be clear at once that nothing cheaper than something is found.
		below := func(limit int64, other float64) found {
			f := one(limit, 3)
			floor := 40 * of(limit, 6).Float64()
			if f.plan != nil {
				floor *= f.plan.cost / 40
			}
			if f.from = math.Inf(1); floor >= other {
				f.plan, f.from = nil, floor
			}
			return f
		}
		l := newStaircase(nil, &candidate{placed: pack.Solution{Height: top}}, floor, false, rng.IntN(3) == 0, chance*rng.Float64()/10)
		l.limits = &chances{
			excluded: func(limit int64, cost float64) bool { return bound(limit, 4) >= cost },
			bound: func(limit int64) (float64, bool) { // more is proven where something was solved
				least := bound(limit, 2)
				if f, is := l.known[limit]; is {
					least = max(least, f.least)
				}
				return least, limit >= floor
			},
			first: func(limit int64) (float64, bool) { return bound(limit, 5), limit >= floor },
			solve: func(limit int64, other float64) found {
				asked++
				return below(limit, other)
			},
			next: func(limit int64, from *candidate) *candidate { return one(limit, math.Float64bits(from.cost)).plan },
			sink: func(first *candidate) (all []*candidate) {
				rng := of(first.placed.Height, 7)
				for height := first.placed.Height; height >= floor; height -= 1 + rng.Int64N(top/100) {
					all = append(all, &candidate{cost: dearest(height) + chance*rng.Float64(), placed: pack.Solution{Height: height}})
				}
				return all
			},
			all: func(limit int64) *candidate {
				f := one(limit, 8)
				if f.plan != nil {
					f.plan.cost = max(dearest(f.plan.placed.Height), f.plan.cost-chance*of(limit, 9).Float64())
				}
				return f.plan
			},
		}
		least, leastWorked := math.Inf(1), math.Inf(1)
		for limit := int64(1); limit < top; limit += 1 + rng.Int64N(top/500) {
			if rng.IntN(3) == 0 { // what was asked before changes nothing
				clear(l.known)
				clear(l.ways)
				l.lows = nil
			}
			c := l.within(limit)
			if c == nil {
				if !math.IsInf(least, 1) {
					t.Fatalf("seed %d: no plan within %d of %d, but one within less", seed, limit, top)
				}
				continue
			}
			if c.placed.Height > limit {
				t.Fatalf("seed %d: %d bytes within %d", seed, c.placed.Height, limit)
			}
			if c.cost > least {
				t.Fatalf("seed %d: %v within %d of %d, %v within less", seed, c.cost, limit, top, least)
			}
			least = c.cost
			answered++
			better := l.thorough(limit, c)
			if better.cost > c.cost || better.cost > leastWorked || better.placed.Height > limit {
				t.Fatalf("seed %d: more work finds %v in %d within %d, for %v before, and %v within less", seed, better.cost, better.placed.Height, limit, c.cost, leastWorked)
			}
			if leastWorked = better.cost; better.cost < c.cost {
				worked++
			}
		}
	}
	if answered == 0 || worked == 0 {
		t.Errorf("of %d plans %d are better after more work", answered, worked)
	}
	t.Logf("%d plans from %d", answered, asked)
}

// chances are the limits of a program that is none.
type chances struct {
	excluded     func(limit int64, cost float64) bool
	bound, first func(limit int64) (float64, bool)
	solve        func(limit int64, other float64) found
	next         func(limit int64, from *candidate) *candidate
	sink         func(first *candidate) []*candidate
	all          func(limit int64) *candidate
}

func (c *chances) least(limit int64) (float64, bool)            { return c.bound(limit) }
func (c *chances) early(limit int64) (float64, bool)            { return c.first(limit) }
func (c *chances) excludes(limit int64, cost float64) bool      { return c.excluded(limit, cost) }
func (c *chances) find(limit int64, other float64) found        { return c.solve(limit, other) }
func (c *chances) near(limit int64, from *candidate) *candidate { return c.next(limit, from) }
func (c *chances) descend(first *candidate) []*candidate        { return c.sink(first) }
func (c *chances) whole() []*candidate                          { panic("no small program") }
func (c *chances) fully(limit int64) *candidate                 { return c.all(limit) }
func (c *chances) wide(cost, bound float64) bool                { return cost > bound }

// TestAskedBefore: what a solver was asked before does not change what it answers.
func TestAskedBefore(t *testing.T) {
	for _, spec := range []zoo.Spec{{Family: "gpt", Layers: 6, Width: 32, Heads: 2, Vocab: 50}, {Family: "resnet", Layers: 1, Width: 6, Image: 20}} {
		s := searchOf(t, spec)
		fresh := func() *staircase {
			s.solver = nil
			s.solves()
			return s.stairs
		}
		asked, top := fresh(), s.base.placed.Height
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(12) {
			limit := top * int64(900-50*i+3*(i%3)) / 1000
			cost := func(v *staircase) float64 {
				c := v.within(limit)
				if c == nil {
					return -1
				}
				return c.cost
			}
			if a, b := cost(asked), cost(fresh()); a != b {
				t.Errorf("%s: %d of %d bytes: %v behind other questions, %v by itself", spec.Family, limit, top, a, b)
			}
		}
	}
}

// TestNearTheFloor: where a byte less may take another plan, less memory never costs less, what a
// plan needs is a limit that has one, and the lowest plan that a refusal names is what its arena has.
func TestNearTheFloor(t *testing.T) {
	for _, spec := range []zoo.Spec{
		{Family: "llama", Layers: 2, Width: 32, Heads: 4, Vocab: 40}, {Family: "gpt", Layers: 4, Width: 32, Heads: 2, Vocab: 50, Dropout: 0.1},
		{Family: "mlp", Layers: 12, Inputs: 30, Width: 40}, {Family: "resnet", Layers: 1, Width: 6, Image: 20},
	} {
		s := searchOf(t, spec)
		floor := s.plan.Floor.Peak
		answers := map[int64]*candidate{}
		ask := func(limit int64) *candidate {
			c, err := withinLimits(s, limit, true)
			var refused *BudgetError
			if err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			if answers[limit] = c; c != nil && c.placed.Height > limit {
				t.Fatalf("%s: %d bytes within %d", spec.Family, c.placed.Height, limit)
			}
			return c
		}
		_, err := withinLimits(s, floor-1, true)
		var refused *BudgetError
		if !errors.As(err, &refused) {
			t.Fatalf("%s: %d bytes are refused by %v", spec.Family, floor-1, err)
		}
		if c := ask(refused.Best); c == nil || c.placed.Height != refused.Best {
			t.Errorf("%s: %d bytes are named, for which there is %v", spec.Family, refused.Best, c)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 12 {
			x := rng.Float64()
			if c := ask(floor + int64(float64(floor)*0.3*x*x)); c != nil {
				ask(c.placed.Height)
				ask(c.placed.Height - 1)
			}
		}
		least := math.Inf(1)
		for _, limit := range slices.Sorted(maps.Keys(answers)) {
			switch c := answers[limit]; {
			case c == nil && !math.IsInf(least, 1):
				t.Errorf("%s: no plan within %d, but one within less", spec.Family, limit)
			case c != nil && c.cost > least:
				t.Errorf("%s: %v within %d, %v within less", spec.Family, c.cost, limit, least)
			case c != nil:
				least = c.cost
			}
		}
	}
}

// searchOf is the search for a plan of a small model's step.
func searchOf(t *testing.T, spec zoo.Spec) *Search {
	t.Helper()
	g, err := zoo.New(spec, kernels.Library)
	if err == nil {
		g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "adamw"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Look(g, Request{Dims: map[string]int64{"batch": 4, "seq": 24}})
	if err == nil {
		err = s.prepare()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
