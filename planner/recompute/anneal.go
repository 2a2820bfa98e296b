package recompute

import (
	"math"
	"math/rand/v2"
	"slices"
)

// annealing changes a plan at random: it drops a value, undoes a drop, or does both. A change for the worse, in cost or
// in bytes over the limit, is accepted now and then, and ever less often. So it gets from one plan to another where all
// in between are over the limit, for example where two values are to be kept instead of two others; repair and exchange
// do not get there.
type annealing struct {
	*search
	spare *simulator // simulates changes of changes
	r     *rand.Rand
	from  plan // to begin with while there is none within the limit
	p     plan
	extra float64 // cost of p
	over  float64 // bytes of p over the limit, summed over launches
	price float64 // of one of those bytes
	heat  float64 // a change that costs so much is accepted once in e times
	drops []drop  // of p
	known bool    // … are up to date
}

const (
	annealWork  = 2 << 20 // launches simulated for a round where the gap is wide; more finds cheaper plans later
	annealWide  = 0.03    // such a gap, as a part of the whole cost; a narrower one takes less work in proportion …
	annealLeast = 0.25    // … but this part at least
	annealLook  = 16      // simulated launches that take as long as a change that is not even tried
	exchanges   = 0.3     // how often a drop is undone and another value dropped in one change
	dearer      = 1.002   // the price rises by this factor while the plan is over the limit
	cheaper     = 0.99    // … and falls by this while it is not
	returning   = 5       // after work/returning without a better plan it goes back to the best
)

// annealRanges are the rounds: each begins with a heat of one of so many parts of the gap.
var annealRanges = []float64{48, 24}

// anneal improves the best plan by changes at random; if there is none, the first of some starts, which is over the
// limit.
func (x *search) anneal(starts []func() plan) {
	s, gap := x.s, x.extra-x.bound
	if x.best.gone == nil {
		gap = annealWide * s.total
	}
	if s.spare == nil {
		s.spare = s.sim.another()
	}
	a := &annealing{search: x, spare: s.spare, r: rand.New(rand.NewPCG(1, 2)), price: s.total / float64(x.limit) / 100}
	if a.from = s.plainPlan; len(starts) > 0 {
		a.from = starts[0]()
	}
	x.stage(1)
	for _, part := range annealRanges {
		a.round(gap/part, annealWork*min(1, max(annealLeast, gap/(annealWide*s.total))))
	}
	if x.sim != s.sim {
		a.swap()
	}
}

// round begins from the best plan and cools down from a heat to 0.
func (a *annealing) round(heat, work float64) {
	x := a.search
	a.restart()
	begin := x.sim.work
	for since := begin; x.extra > x.enough; {
		done := float64(x.sim.work-begin) / work
		if done >= 1 {
			break
		}
		if float64(x.sim.work-since) > work/returning {
			a.restart()
			since = x.sim.work
		}
		a.heat = heat * (1 - done)
		if a.price *= cheaper; a.over > 0 {
			a.price *= dearer / cheaper
		}
		x.sim.work += annealLook
		if !a.change() {
			continue
		}
		a.extra, a.over, a.known = x.sim.extra, x.sim.over, false
		if a.over == 0 && a.extra < x.extra {
			x.best, x.extra = a.p.clone(), a.extra
			q := a.p.clone()
			extra := x.restore(&q)
			x.offer(q, extra)
			since = x.sim.work
		}
	}
}

// restart begins from the best plan.
func (a *annealing) restart() {
	if a.p = a.best.clone(); a.best.gone == nil {
		a.p = a.from.clone()
	}
	a.sim.run(a.p, a.limit)
	a.extra, a.over, a.known = a.sim.extra, a.sim.over, false
}

// swap has the other simulator hold the current plan from now on.
func (a *annealing) swap() {
	a.spare.work = a.sim.work
	a.sim, a.spare = a.spare, a.sim
	a.restored = -1
}

// change makes a random change if it is accepted. It reports false if it is not, or there is none.
func (a *annealing) change() bool {
	kind := a.r.Float64()
	if kind < (1-exchanges)/2 {
		c, ok := a.randomDrop()
		return ok && a.accepts(c, true)
	}
	if !a.known {
		a.drops, a.known = a.appendDrops(&a.p, a.drops[:0]), true
	}
	if len(a.drops) == 0 {
		return false
	}
	undone := a.drops[a.r.IntN(len(a.drops))].change
	if kind < 1-exchanges {
		return a.accepts(undone, false)
	}
	a.swap()
	a.p.remove(undone)
	if a.sim.run(a.p, a.limit) {
		if c, ok := a.randomDrop(); ok && c.event != undone.event && a.accepts(c, true) {
			return true
		}
	}
	a.p.add(undone)
	a.swap()
	return false
}

// accepts evaluates a change and makes it or not.
func (a *annealing) accepts(c change, drop bool) bool {
	if !a.try(&a.p, c, drop, math.Inf(1)) {
		return false
	}
	rise := a.tried.extra - a.extra + a.price*(a.tried.over-a.over)
	if rise > 0 && a.r.Float64() >= math.Exp(-rise/a.heat) {
		return false
	}
	if drop {
		a.p.add(c)
	} else {
		a.p.remove(c)
	}
	return a.sim.run(a.p, a.limit)
}

// randomDrop is a value to drop that is alive but not read at the peak, at another launch over the limit, or at any
// launch of the backward pass.
func (a *annealing) randomDrop() (c change, ok bool) {
	sim, prob := a.sim, a.s.p
	k := sim.peakLaunch
	switch behind := sim.start[prob.Border]; a.r.IntN(4) {
	case 0:
		k = a.randomOver()
	case 1, 2:
		k = behind + int32(a.r.IntN(sim.launches-int(behind)))
	}
	idles := func(i int) bool {
		l := &sim.ranges[i]
		return l.first < k && l.last > k && a.s.droppable(l.value) && prob.Bytes[l.value] > 0
	}
	n := 0
	for i := range sim.instances {
		if idles(i) {
			n++
		}
	}
	if n == 0 {
		return c, false
	}
	i := 0
	for n = a.r.IntN(n); n > 0 || !idles(i); i++ {
		if idles(i) {
			n--
		}
	}
	c.value = sim.ranges[i].value
	if slices.Contains(prob.Inputs.Of(sim.ops[k]), c.value) || prob.until(c.value) > sim.place[k] {
		return c, false
	}
	c.at = max(a.touchedAt(int32(i), k)+1, prob.until(c.value))
	if sim.place[k] >= prob.Border && c.at <= prob.Border {
		c.at, c.border = prob.Border, true
		return c, !a.p.gone[c.value]
	}
	_, known := a.p.search(c.event)
	return c, !known
}

// randomOver is a launch over the limit, or the peak if there is none.
func (a *annealing) randomOver() int32 {
	n, k := 0, a.sim.peakLaunch
	for i, alive := range a.sim.live[:a.sim.launches] {
		if alive > a.limit {
			if n++; a.r.IntN(n) == 0 {
				k = int32(i)
			}
		}
	}
	return k
}

// touchedAt is the last place before a launch at which an instance was read or written.
func (a *annealing) touchedAt(i, before int32) int32 {
	sim, r := a.sim, &a.sim.ranges[i]
	for k := before - 1; k > r.first; k-- {
		if slices.Contains(a.s.p.Inputs.Of(sim.ops[k]), r.value) {
			return sim.place[k]
		}
	}
	return sim.place[r.first]
}
