package recompute

import "math"

// boundSteps is how often the distance between a bound and what it may be raised to is halved.
const boundSteps = 6

// Away is a place elsewhere: the bytes that it may hold, and the most bytes per unit of cost that copies bring there and back.
type Away struct {
	Bytes   int64
	Out, In float64
}

// mostCopied is above the bytes that copies bring, and leaves room to add up; endlessWait is above any cost.
const mostCopied, endlessWait = 1 << 50, 1 << 62

// BoundMoved is Bound for launches whose values may be moved, with what the launches wait for copies. begun is, by
// operator, when it begins if nothing runs again, and the end.
//
// What is elsewhere at a place was copied out before it and comes back behind it, so it is no more than the engines bring
// in the time of the launches on either side and in the extra time, which may be on one side or the other. Near and far
// together such launches are ones within so much more room, and for that a cut at the place says what they cost at least.
func (s *Solver) BoundMoved(limit int64, begun []int64, far Away) (extra float64, ok bool) {
	if s.plainPeak <= limit {
		return 0, true
	}
	out, in := far.Out, far.In
	room := func(op int32, cost float64) int64 {
		before, behind := float64(begun[op]), float64(begun[len(begun)-1]-begun[op+1])
		first := min(max((in*(behind+cost)-out*before)/(out+in), 0), cost)
		return limit + min(far.Bytes, int64(min(out*(before+first), in*(behind+cost-first), mostCopied))+1)
	}
	// least is a bound at a place for launches whose extra cost is no more than some.
	least := func(op int32, cost float64) float64 {
		within := room(op, cost)
		if s.plain[op] <= within {
			return 0
		}
		c := s.cut(op)
		bound, _, ok := c.best(1, float64(within-c.fixed), nil)
		if s.count(c); !ok {
			return math.Inf(1)
		}
		return bound * s.unit
	}
	for _, op := range s.places(limit) {
		high := least(op, extra)
		if high <= extra {
			continue
		}
		if math.IsInf(high, 1) {
			if high = s.total; math.IsInf(least(op, endlessWait), 1) {
				return 0, false
			}
		}
		for range boundSteps {
			if m := extra + (high-extra)/2; least(op, m) > m {
				extra = m
			} else {
				high = m
			}
		}
	}
	return extra, true
}
