package pack

import (
	"math"
	"slices"
	"sync/atomic"

	"memopt/memopt/stop"
)

// staged is a climb in stages.
//
// Each stage is tried on several routes, by both cores. What a short stage leaves behind shows only as others are put on it, and so
// a route is tried through the next one, too; but it is given up as soon as sections press more than on another that has been
// tried. Only where sections press is there anything to choose: what can be placed without changing what becomes of these is
// placed before, on one route, and what is tried is a small part of all. How many routes are tried for a stage is a matter of how
// many looks there are left for the stages to come.
type staged struct {
	*climb
	scout
	stages   int
	scale    scale
	main     *skyline   // what climbs
	hands    []*skyline // what tries routes from where that is, one for each core
	at       int        // the stage that it is in
	plan     []route    // to be tried for that
	worse    []float64  // by route of the plan: how much harder sections press at the end
	next     atomic.Int32
	least    atomic.Uint64 // of worse so far, in bits
	pressing []int32       // by section: how many before it press, a few stages ago
	focus    []focus       // what bytes weighed then
	late     *skyline      // the last climb from the floor, before its end
	ends     int           // how many more ends are to be tried from there
	looks    int
	most     int // that there are
	trying   int // those that a route costs, of late
}

// focus is what a byte weighs in all sections before each, on the routes that have a focus.
type focus struct {
	on   float64
	sums []float64
}

const (
	mostStages = 1024 // at most
	apiece     = 2    // lives of those alive at once for each, if that makes no more
	endings    = 4    // of one climb
	outlook    = 1    // stages behind its own that a route is tried through
	renewed    = 4    // stages after which weights and what presses are brought up to date
	presses    = 70   // the share of the goal below it from which on a section presses
	leastTried = 3    // routes for the first stage
	mostTried  = 64
	givenUp    = 2  // one of so many looks is spared as routes are given up
	losing     = 10 // sections cost a look where something is lost
	lately     = 8  // stages that say what a route costs
)

func newStaged(c *climb, p *part) *staged {
	together := slices.Max(sumOf(p.lives, p.sections, func(*life) int64 { return 1 }))
	return &staged{climb: c, stages: min(max(legs, int(together)/apiece), mostStages)}
}

// another is the lower of best and of one more climb in stages: from the floor, or another end of the last one from there. It
// leaves so many looks.
func (c *climb) another(best *skyline, leaves int, stopped func() bool) *skyline {
	l := c.staged
	if l.main == nil {
		l.begin()
	}
	from, start := l.from(), c.base
	if from > 0 {
		start = l.late
		l.ends--
	}
	l.looks, l.most, l.trying = 0, c.worth(leaves)/l.stages*(l.stages-from), 0
	l.stand(start)
	if l.up(from, best.highest-1, stopped) && l.main.highest < best.highest {
		best, l.main = l.main, best
	}
	c.looks += l.looks
	c.clock.share(l.looks)
	return best
}

// worth is how many looks of both cores another climb may take that leaves so many: one from the floor, or as many for each stage of
// an end.
func (c *climb) worth(leaves int) int {
	looks := climbing * len(c.base.lives)
	if c.clock == nil {
		return looks
	}
	return min(looks, (c.clock.shared()-leaves)/(c.staged.stages-c.staged.from())*c.staged.stages)
}

// affords is whether there is time for another climb that leaves so many looks.
func (c *climb) affords(leaves int) bool {
	return !c.job.off("staged") && c.worth(leaves) >= scanty*len(c.base.lives)
}

// from is the stage from whose end l climbs next.
func (l *staged) from() int {
	if l.ends > 0 {
		return l.endsFrom()
	}
	return 0
}

// endsFrom is the stage at whose end the end of a climb begins.
func (l *staged) endsFrom() int { return l.stages * 3 / 4 }

// begin gets ready what all climbs use.
func (l *staged) begin() {
	l.scale = newScale(l.goal)
	l.main, l.pressing = l.base.twin(), make([]int32, l.base.sections+1)
	for range 2 {
		h := l.base.twin()
		h.rival = &rival{scale: &l.scale, least: &l.least}
		l.hands = append(l.hands, h)
	}
	for _, r := range known {
		if !slices.ContainsFunc(l.focus, func(f focus) bool { return f.on == r.focus }) {
			l.focus = append(l.focus, focus{r.focus, make([]float64, l.base.sections+1)})
		}
	}
}

// stand has all of l stand where start is, to go on from there as no climb before.
func (l *staged) stand(start *skyline) {
	l.main.become(start)
	for _, h := range l.hands {
		h.become(start)
	}
	l.afresh()
}

// up climbs from the end of a stage all the way, unless that is sure to be higher than most or it is stopped.
func (l *staged) up(from int, most int64, stopped func() bool) bool {
	c := newCrew(len(l.hands), l.hand)
	defer c.dismiss()
	for at := from + 1; at <= l.stages; at++ {
		stop.Poll(l.base.ctx)
		if at == from+1 || at%renewed == 0 {
			l.renew()
		}
		l.stage(c, at)
		if l.main.least() > most || stopped() {
			return false
		}
		if at == l.endsFrom() && from == 0 {
			if l.late == nil {
				l.late = l.base.twin()
			}
			l.late.become(l.main)
			l.ends = endings
		}
	}
	return true
}

// renew brings up to date which sections press and what bytes weigh.
func (l *staged) renew() {
	for _, f := range l.focus {
		l.main.sumUp(f.sums[1:], f.on)
	}
	line, n := l.goal-l.goal/presses, int32(0)
	if len(l.main.blocks) > 0 {
		line = -1 // anything may come to be in the way of something
	}
	for t, height := range l.main.sure {
		if height > line {
			n++
		}
		l.pressing[t+1] = n
	}
}

// stage takes main to the end of a stage: where nothing presses to the end of what is looked out to.
func (l *staged) stage(c *crew, at int) {
	s := l.main
	if l.pressing[s.sections] < s.sections {
		l.take(s, plain)
		l.ready(s, l.stages)
		s.outside(l.level(min(at+outlook, l.stages), l.stages), l.pressing)
		l.looks += s.looks
	}
	n := leastTried
	if l.trying > 0 {
		left := l.stages - at + 1
		each := l.trying
		if at+outlook >= l.stages { // routes are tried all the way up, which may be more than stages were so far
			each = int(float64(each) * max(1, float64((len(s.lives)-s.placed)*l.stages)/float64(len(s.lives)*left)))
		}
		n = min(max((l.most-l.looks)/left/each, 1), mostTried)
	}
	l.plan = l.routes(l.plan[:0], n)
	best := 0
	if n > 1 {
		best = l.try(c, at)
	}
	l.took(l.plan[best])
	l.take(s, l.plan[best])
	l.ascend(s, at, l.stages)
	lost := 0 // sections in which something is, as each makes work for what tries a route
	for _, x := range s.changes.lost {
		lost += int(x.r - x.l)
	}
	trying := (s.looks + lost/losing) * (1 + outlook) / givenUp
	if l.looks += s.looks; n > 1 {
		l.looks += trying * n
	}
	if l.trying == 0 {
		l.trying = trying
	}
	l.trying += (trying - l.trying) / lately
}

// try is which route of the plan for a stage leaves sections pressing least.
func (l *staged) try(c *crew, at int) (best int) {
	l.worse = slices.Grow(l.worse[:0], len(l.plan))[:len(l.plan)]
	l.at = at
	l.next.Store(0)
	l.least.Store(math.Float64bits(math.Inf(1)))
	c.each()
	l.main.changes.forget() // all hands have followed
	for k, x := range l.worse {
		if x < l.worse[best] {
			best = k
		}
	}
	return best
}

// hand tries routes of the plan until none is left.
func (l *staged) hand(i int) {
	h := l.hands[i]
	h.follow(l.main)
	for k := l.next.Add(1) - 1; int(k) < len(l.plan); k = l.next.Add(1) - 1 {
		h.back(l.main)
		h.worse = 0
		l.take(h, l.plan[k])
		l.ascend(h, l.at, l.stages)
		if ahead := min(l.at+outlook, l.stages); ahead > l.at {
			l.take(h, plain)
			l.ascend(h, ahead, l.stages)
		}
		l.worse[k] = h.worse
		x := math.Float64bits(h.worse) // which are in the order of the numbers, as none is negative
		for was := l.least.Load(); x < was && !l.least.CompareAndSwap(was, x); was = l.least.Load() {
		}
	}
}

// take has s go on on a route.
func (l *staged) take(s *skyline, r route) {
	s.route = r
	k := slices.IndexFunc(l.focus, func(f focus) bool { return f.on == r.focus })
	s.weight = l.focus[k].sums
}
