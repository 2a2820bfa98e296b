package limits

import (
	"cmp"
	"math"
	"slices"
)

// What a curve asks for: a number of limits between the plain arena and the floor, fewer of a long program, and where
// a limit is beyond it some between.
const (
	mostLimits  = 24
	leastLimits = 8
	shortSteps  = 512  // up to so many launches a curve asks for most limits
	fills       = 4    // limits that jumps are filled with, where limits are not sketched
	jump        = 0.15 // the part of both axes, at their mean, that is worth one
)

// Curve is plans from everything kept downwards.
func (l *Limits[P]) Curve() []P {
	sketchy, first, then := l.Launches > 2*shortSteps, Usual, Usual
	if sketchy {
		first, then = Sketched, Hasty // a curve has other points above and below
	}
	// Below a limit without a plan none is looked for.
	ask := func(limit int64, by Effort, without *int64) (c P) {
		if limit > *without {
			if c = l.At(limit, math.Inf(1), by); none(c) {
				*without = limit
			}
		}
		return c
	}
	var unsketched, unsolved int64
	plans := []P{l.Base}
	limits := min(max(mostLimits*shortSteps/max(l.Launches, 1), leastLimits), mostLimits)
	down(l.Base.Height(), l.Floor, int64(limits), func(limit int64, halved int) P {
		c := ask(limit, first, &unsketched)
		if none(c) && sketchy && halved == finer && limit > l.Floor { // hardly any plan of a long program reaches that
			c = ask(limit, then, &unsolved)
		}
		if !none(c) {
			plans = append(plans, c)
		}
		return c
	})
	if sketchy {
		return plans
	}
	// Limits near the floor may have no plan where a lower one was found: a budget has that one, and so does the curve.
	if c := l.LowestPeak(plans[len(plans)-1].Height()); !none(c) {
		plans = append(plans, c)
	}
	return l.fill(plans)
}

// fill adds plans halfway down the widest jumps between some, in bytes and in cost.
func (l *Limits[P]) fill(plans []P) []P {
	sorted := func() {
		slices.SortStableFunc(plans, func(a, b P) int { return cmp.Compare(b.Height(), a.Height()) })
	}
	sorted()
	lowest := plans[len(plans)-1]
	high, dearest := float64(max(l.Base.Height()-lowest.Height(), 1)), math.Max(lowest.Cost()-l.Base.Cost(), math.SmallestNonzeroFloat64)
	asked := map[int64]bool{}
	for range fills {
		widest, limit := jump*jump, int64(0)
		for i, c := range plans[1:] {
			above := plans[i]
			mid := c.Height() + (above.Height()-c.Height())/2
			if area := float64(above.Height()-c.Height()) / high * (c.Cost() - above.Cost()) / dearest; area > widest && !asked[mid] {
				widest, limit = area, mid
			}
		}
		if limit == 0 {
			break
		}
		asked[limit] = true
		if c := l.At(limit, math.Inf(1), Usual); !none(c) {
			plans = append(plans, c)
			sorted()
		}
	}
	return plans
}
