package limits

import (
	"cmp"
	"math"
)

const (
	longStep = 32 // steps below the lowest arena are arena/longStep
	descents = 4  // steps from the lowest grid limit down to the floor
	farBelow = 32 // a limit below floor-floor/farBelow cannot be met by the last bytes
	finer    = 2  // halvings of the distance below the lowest plan

	// shares is how many parts of the plain arena there are, at which the lowest plan within a cost is looked for. The
	// lowest part with any plan is found first, and then the cheapest plans are looked for from closer parts below it.
	shares = 8 * gridLimits
	closer = 16
)

// down asks at for the plans of limits from below a height to a floor. Each limit is the width of a part below the last
// plan. Where one has no plan the width is halved, a few times; at gets how often it was.
func down[P Plan](height, floor, parts int64, at func(limit int64, halved int) P) {
	width := max((height-floor)/parts, 1)
	for halved := 0; height > floor && width > 0 && halved <= finer; {
		if c := at(max(height-width, floor), halved); !none(c) {
			height = c.Height()
		} else {
			width, halved = width/2, halved+1
		}
	}
}

// bottom is the plan of the lowest grid limit that has one, and plans below it, by falling height. They do not depend on
// the limit that is asked for. A plan that is not cheaper than one below it is dropped, and so is one that is cheaper than
// the first: so less memory never costs less here, too. There is none if the lowest grid limit that should have a plan has
// none.
func (l *Limits[P]) bottom() []P {
	if l.lows != nil {
		return l.lows
	}
	k := int64(1)
	for !l.has(k) {
		k++
	}
	first := l.onGrid(k)
	if none(first) {
		return nil
	}
	l.lows = []P{first}
	for _, c := range l.descend(first) {
		if c.Height() < l.lows[len(l.lows)-1].Height() && c.Cost() >= first.Cost() {
			l.lows = append(undercut(l.lows, 1, c), c)
		}
	}
	return l.lows
}

// descend is plans between first, that of the lowest grid limit that has one, and the floor.
func (l *Limits[P]) descend(first P) (all []P) {
	n, lowest := l.Operators, first.Height()
	at := func(limit int64, _ int) P {
		c := l.At(limit, math.Inf(1), Usual)
		if !none(c) {
			lowest, all = min(lowest, c.Height()), append(all, c)
		}
		return c
	}
	if n <= Mid {
		down(lowest, l.Floor, descents, at)
	}
	c := l.LowestPeak(lowest)
	if none(c) {
		return all
	}
	lowest, all = min(lowest, c.Height()), append(all, c)
	if n <= Mid && c.Peak() == l.Floor && lowest > l.Floor { // another at the floor may be placed there
		at(l.Floor, 0)
	}
	for n <= Short && lowest > l.Floor+lowest/longStep && !none(at(lowest-lowest/longStep, 0)) {
	}
	return all
}

// Lowest is the lowest plan found, for a limit below every plan. Its arena is a limit that has a plan.
func (l *Limits[P]) Lowest(limit int64) P {
	if l.Small() {
		all := l.whole()
		return all[len(all)-1]
	}
	if c := l.lowestQuick(limit); !none(c) {
		return c
	}
	if lows := l.bottom(); len(lows) > 0 {
		return lows[len(lows)-1]
	}
	// Where no grid limit near the floor has one, others may be lower all the same.
	return cmp.Or(l.LowestPeak(limit+1), l.Base)
}

// lowestQuick is the lowest plan found without a descent, where a descent would take long or could not lead much lower;
// else none.
func (l *Limits[P]) lowestQuick(limit int64) (no P) {
	n, floor := l.Operators, l.Floor
	if n <= Mid && limit >= floor {
		return no
	}
	c := l.LowestPeak(limit + 1)
	if none(c) {
		return no
	}
	lowest, far := c.Height(), limit < floor-floor/farBelow
	switch {
	case n > Mid, lowest == floor, far && (n > Short || lowest <= floor+lowest/longStep):
		return c
	case n <= Short:
		return no
	case !far && c.Peak() == floor: // another at the floor may be placed there
		return cmp.Or(l.At(floor, math.Inf(1), Usual), c)
	}
	return c
}

// LowestWithin is the plan with the least arena whose cost is within most.
func (l *Limits[P]) LowestWithin(most float64) P {
	best := l.Base
	// take reports whether there is a plan that is not too dear, and keeps it if it is lower.
	take := func(c P) bool {
		if none(c) || c.Cost() > most {
			return false
		}
		if c.Height() < best.Height() || c.Height() == best.Height() && c.Cost() < best.Cost() {
			best = c
		}
		return true
	}
	if l.Small() {
		for _, c := range l.whole() {
			take(c)
		}
		return best
	}
	top := l.Base.Height()
	share := func(n int64) int64 { return top * n / shares }
	some := Halve(0, shares, func(n int64) bool { return take(l.At(share(n), most, Any)) })
	// What is found for a limit is chance to some degree, but plans of lower limits cost no less.
	from, to := max(0, some-closer), some+1
	for further := int64(closer); from > 0; further *= 2 {
		if c := l.Within(share(from)); none(c) || c.Cost() > most {
			break
		}
		from, to = max(0, from-further), from+1 // which may be asked again: it is known by then
	}
	some = Halve(from, to, func(n int64) bool { return take(l.Within(share(n))) })
	var no P
	for k := l.below(best.Height() - 1); k > 0 && l.at(k) >= l.Floor; k-- { // more work may lead lower
		if !take(l.Thorough(l.at(k), no)) {
			break
		}
	}
	if share(some-1) < l.Floor { // nothing is below but what is lowest
		if l.halving == 0 {
			take(l.LowestPeak(0))
		} else {
			take(l.Within(l.Floor))
		}
	}
	return best
}

// Halve is the least number above from that holds, where to is taken to hold and all above one that holds do.
func Halve(from, to int64, holds func(n int64) bool) int64 {
	for from+1 < to {
		if n := from + (to-from)/2; holds(n) {
			to = n
		} else {
			from = n
		}
	}
	return to
}
