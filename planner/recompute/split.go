package recompute

import (
	"cmp"
	"math"
	"slices"
)

// refute notes that no plan is within a limit.
func (s *Solver) refute(limit int64) (none evidence) {
	s.proven[limit] = none
	return none
}

const (
	mostRefined   = 4096    // operators of a program whose bounds are refined
	nearly        = 0.9     // how far below the best place others are looked at
	mostSplitting = 2 << 20 // edges that cuts may look at for all cases of a limit
	dearest       = 14      // a byte beyond whole grains counts at most 1<<dearest times
	narrowings    = 10      // of the search for how often
	mostFines     = 4
)

// split bounds by two cases. Either what is kept is a whole grain less than the
// room has; or it fills the whole grains of the room, and what the values have
// beyond whole grains must fit in what the room has beyond them. The second case
// has two rows of weights, and every sum of the two with a factor is a row of
// its own. A bound that is not above known is not looked for.
func (s *Solver) split(c *cut, grain, room int64, sets []set, known float64) (bound float64) {
	whole, rest := room/grain, room%grain
	if whole == 0 || room >= 1<<46 {
		return 0
	}
	less, _, ok := c.best(grain, float64(whole-1), sets)
	s.count(c)
	if !ok {
		less = math.Inf(1)
	}
	if less <= known {
		return 0
	}
	for _, fine := range append([]int64{1}, c.fines(grain)...) {
		full := func(power float64) float64 {
			factor := int64(math.Exp2(power))
			weights, light := make([]int64, len(c.value)), int64(-1)
			room := whole*grain + rest/fine*fine*factor
			for k, v := range c.value {
				w := v.bytes/grain*grain + v.bytes%grain/fine*fine*factor
				if weights[k] = w; w <= room {
					light = max(light, w)
				}
			}
			b, _, ok := c.weighed(weights, light).best(c, float64(room), sets)
			s.count(c)
			if !ok {
				b = math.Inf(1)
			}
			bound = max(bound, b)
			return b
		}
		narrow(0, dearest, full, narrowings, func(i int) bool { return bound >= less || i == narrowings/2 && bound <= known })
		if bound >= less {
			return less
		}
	}
	return bound
}

// narrow looks for the highest value of a function that rises and then falls,
// by golden sections, until done says so.
func narrow(low, high float64, f func(float64) float64, times int, done func(i int) bool) {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	fa, fb := f(a), f(b)
	for i := range times {
		if done(i) {
			return
		}
		if fa >= fb {
			high, b, fb = b, a, fa
			a = high - golden*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + golden*(high-low)
			fb = f(b)
		}
	}
}

// fines are the sizes of what needed values have beyond whole grains, those that
// are most bytes together first.
func (c *cut) fines(grain int64) (all []int64) {
	sum := map[int64]int64{}
	for _, v := range c.value {
		if rest := v.bytes % grain; rest > 0 && v.needed {
			sum[rest] += rest * v.times
		}
	}
	for b := range sum {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b int64) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(b, a)) })
	return all[:min(mostFines, len(all))]
}
