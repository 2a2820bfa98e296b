package recompute

import (
	"math"
	"math/rand/v2"
	"slices"
)

// annealing changes a plan at random: it forgets something, remembers something, or
// does both. What makes the plan dearer, or takes it further over the limit, is put
// up with now and then, and ever less often (Kirkpatrick, Gelatt, Vecchi 1983). So it
// gets from one plan to another where all between are over the limit, as where two
// values are to be kept instead of two others. Repairs only forget, and do not get
// there.
type annealing struct {
	*search
	spare walker // walks what is looked at beside the plan
	r     *rand.Rand
	from  plan // to begin with while there is none within the limit
	p     plan
	extra float64 // of p, and
	over  float64 // the bytes over the limit, summed over launches
	price float64 // of one of those
	heat  float64 // a change that costs so much is made once in e times
	known bool    // lost is that of p
	lost  []saving
}

// walker is a simulator and what tells changes of the plan that it walked.
type walker struct {
	sim   *simulator
	trial *trial
}

const (
	annealWork  = 2 << 20 // launches simulated for a round, where the gap is wide
	annealWide  = 0.03    // such a gap; a narrower one takes less in proportion, but a part
	annealLeast = 0.25    // of the work at least
	exchanged   = 0.3     // how often something is remembered and something forgotten at once
	dearer      = 1.002   // factors for the price, whenever the plan is over the limit
	cheaper     = 0.99    // and whenever it is not
	returning   = 5       // without a better plan in one of so many parts of the work, it goes back to the best
)

// annealRanges are rounds: heat is at first one of so many parts of the distance to the bound.
var annealRanges = []float64{48, 24}

// anneal improves the best plan by changes at random; if there is none, the first of some
// starts, though that is over the limit. Nothing costs less than least.
func (x *search) anneal(least float64, starts []func() plan) {
	s, gap := x.s, x.extra-least
	if x.best.gone == nil {
		gap = annealWide * s.total
	}
	if s.spare.sim == nil {
		s.spare.sim = newSimulator(s.p)
		s.spare.sim.most = s.sim.most
		s.spare.trial = &trial{sim: s.spare.sim, uses: &s.uses}
	}
	a := &annealing{search: x, spare: s.spare, r: rand.New(rand.NewPCG(1, 2)), price: s.total / float64(x.limit) / 100}
	if a.from = s.keep; len(starts) > 0 {
		a.from = starts[0]()
	}
	x.stage(1)
	for _, part := range annealRanges {
		a.round(gap/part, annealWork*min(1, max(annealLeast, gap/(annealWide*s.total))))
	}
	if x.sim != s.sim {
		a.turn()
	}
}

// round begins from the best plan, and cools down.
func (a *annealing) round(hot, work float64) {
	x := a.search
	a.again()
	begin := x.sim.work
	for since := begin; x.extra > x.enough; {
		done := float64(x.sim.work-begin) / work
		if done >= 1 {
			break
		}
		if float64(x.sim.work-since) > work/returning {
			a.again()
			since = x.sim.work
		}
		a.heat = hot * (1 - done)
		if a.price *= cheaper; a.over > 0 {
			a.price *= dearer / cheaper
		}
		x.sim.work += lookWork
		if !a.change() {
			continue
		}
		a.extra, a.over, a.known = x.sim.extra, x.sim.area, false
		if a.over == 0 && a.extra < x.extra {
			x.best, x.extra = a.p.clone(), a.extra
			q := a.p.clone()
			extra := x.restore(&q)
			x.offer(q, extra)
			since = x.sim.work
		}
	}
}

// lookWork is how many launches take as long as a change that is not even tried.
const lookWork = 16

// again begins from the best plan.
func (a *annealing) again() {
	if a.p = a.best.clone(); a.best.gone == nil {
		a.p = a.from.clone()
	}
	a.sim.run(a.p, a.limit)
	a.extra, a.over, a.known = a.sim.extra, a.sim.area, false
}

// turn has the other walker walk from now on.
func (a *annealing) turn() {
	a.spare.sim.work = a.sim.work
	a.sim, a.trial, a.spare = a.spare.sim, a.spare.trial, walker{a.sim, a.trial}
	a.walked = -1
}

// change makes a change that is likely enough. It reports false if it found none.
func (a *annealing) change() bool {
	how := a.r.Float64()
	if how < (1-exchanged)/2 {
		c, ok := a.pick()
		if !ok || !a.takes(c, true) {
			return false
		}
		a.p.apply(c.event, c.border)
		return a.sim.run(a.p, a.limit)
	}
	if !a.known {
		a.lost, a.known = a.losses(&a.p, a.lost[:0]), true
	}
	if len(a.lost) == 0 {
		return false
	}
	back := a.lost[a.r.IntN(len(a.lost))]
	if how < 1-exchanged {
		if !a.takes(change{event: back.event}, false) {
			return false
		}
		a.p.remove(back)
		return a.sim.run(a.p, a.limit)
	}
	a.turn()
	a.p.remove(back)
	if a.sim.run(a.p, a.limit) {
		if c, ok := a.pick(); ok && c.event != back.event && a.takes(c, true) {
			a.p.apply(c.event, c.border)
			return a.sim.run(a.p, a.limit)
		}
	}
	a.p.apply(back.event, back.border)
	a.turn()
	return false
}

// takes tries a change, and tells whether it is made.
func (a *annealing) takes(c change, more bool) bool {
	if !a.try(&a.p, c.event, more, math.Inf(1)) {
		return false
	}
	rise := a.trial.extra - a.extra + a.price*(a.trial.over-a.over)
	return rise <= 0 || a.r.Float64() < math.Exp(-rise/a.heat)
}

// pick is something to forget: a value that idles at the peak, at another launch over
// the limit, or anywhere in the backward pass.
func (a *annealing) pick() (c change, ok bool) {
	sim, prob := a.sim, a.s.p
	k := sim.worst
	switch behind := sim.start[prob.Border]; a.r.IntN(4) {
	case 0:
		k = a.beyond()
	case 1, 2:
		k = behind + int32(a.r.IntN(sim.launches-int(behind)))
	}
	idles := func(i int) bool {
		l := &sim.lives[i]
		return l.first < k && l.last > k && a.s.may(l.value) && prob.Bytes[l.value] > 0
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
	c.value = sim.lives[i].value
	if slices.Contains(prob.Inputs.Of(sim.ops[k]), c.value) {
		return c, false
	}
	if prob.until(c.value) > sim.place[k] {
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

// beyond is a launch over the limit, if there is one.
func (a *annealing) beyond() int32 {
	n, k := 0, a.sim.worst
	for i, alive := range a.sim.live[:a.sim.launches] {
		if alive > a.limit {
			if n++; a.r.IntN(n) == 0 {
				k = int32(i)
			}
		}
	}
	return k
}

// touchedAt is the last place before a launch at which an instance was read or made.
func (a *annealing) touchedAt(i, before int32) int32 {
	if a.trial.walks != a.sim.walks {
		a.trial.prepare()
	}
	v, at := a.sim.lives[i].value, a.sim.place[a.sim.lives[i].first]
	first, again := a.trial.readsBefore(v, before)
	if first > 0 {
		at = max(at, a.s.uses.Of(v)[first-1])
	}
	if again > 0 {
		at = max(at, a.sim.place[a.trial.reads.of(v)[again-1]])
	}
	return at
}
