package planner

import "math"

// The staircase answers limits of the arena with plans, so that a lower limit never costs less.
//
// What solving finds for a limit is chance to some degree, so that more memory might cost more than less does. So a
// limit is answered from plans that do not depend on it: those of a fixed grid of limits, which are shares of the plain
// arena, and of halves, quarters and so on between two of them, as far as bounds differ there. All are found when they
// are first asked for.
//
//   - A grid limit has the cheapest of the plans that were found for all grid limits up to it, and of those that were
//     too high for a lower one once they were placed, but not for it. If there is none, it has what was found for the
//     next one, should that be within.
//   - Halfway between two limits that have plans there is what was found there, unless that costs more than the plan of
//     the lower one or less than that of the upper one: then there is the plan of the lower one.
//   - From there a few steps lead down: each is what is found with less than the plan before it takes, as long as that
//     costs no less, and no more than the next limit below does.
//   - Any other limit has the plan of the next one above, if that is within it, or else of the next one below.
//   - Below the lowest grid limit that has a plan, where a hair less memory may take far more compute, there are the
//     plans of a descent from there to the floor, each for all limits that it is the cheapest within. Cheaper ones than
//     that grid limit's are dropped.
//   - Small programs are searched as a whole, and have no grid: a limit has the cheapest plan within it.
//
// So no limit's plan costs more than that of a lower one, whatever solving finds. Most grid limits need not be solved
// to know that: where the bound of one is not below what a known plan costs, none from there down is cheaper. Mostly
// that is the next one.
//
// In long programs, where a plan takes long, the grid is finer and nothing is halved.
const (
	gridLimits = 100 // so that whole shares of a hundred are answered by what was asked for
	longGrid   = 500 // of a long program
	mostHalved = 6   // how often the distance of two grid limits is halved
	mostSteps  = 3   // from what is next above a limit

	// apart is how much bounds of two limits differ, as a part of the plain step's cost, if it is worth looking between
	// them; or, where bounds are low, as a part of these.
	apart, apartOfBound = 0.0005, 0.05
	nearFloor           = 8 // the part of the floor that a grid limit without a plan may be above it
)

// limits are the questions of a staircase, which a *solver answers.
type limits interface {
	// least is a bound of what plans within a limit cost, and whether there may be any. early is the first such bound,
	// which does not depend on what was asked before. excludes reports whether it is already known that no plan costs
	// less than so much.
	least(limit int64) (cost float64, may bool)
	early(limit int64) (cost float64, may bool)
	excludes(limit int64, cost float64) bool
	// find solves a limit for a plan that costs less than some other.
	find(limit int64, other float64) found
	// near is a plan for a limit from that of a higher one, or nil.
	near(limit int64, from *candidate) *candidate
	// descend is plans below the first, which is the lowest of a grid limit, down to the floor.
	descend(first *candidate) []*candidate
	// whole is all plans of a small program, highest first, each dearer than the one before it.
	whole() []*candidate
	// fully is the plan within a limit that all work finds, or nil; wide reports whether a cost is so far above a bound
	// that this may be another.
	fully(limit int64) *candidate
	wide(cost, bound float64) bool
}

// found is what solving found for a limit: a plan or nil, and least, a bound for this limit and all below it. If there
// is no plan, others for the limit cost from or more, which is no less than the caller asked for. above are plans that
// were solved for the limit, but whose arenas are above it.
type found struct {
	plan  *candidate
	above []*candidate
	least float64
	from  float64
}

// staircase answers limits of one program.
type staircase struct {
	limits
	base          *candidate // everything kept
	floor         int64      // no plan is within less
	small         bool       // there is no grid
	grid, halving int64
	apart         float64

	known map[int64]found
	ways  map[fromTo]*candidate // from plans to lower limits
	lows  []*candidate          // below the grid, once they were asked for
}

// fromTo leads from a plan to a lower limit.
type fromTo struct {
	from  *candidate
	limit int64
}

func newStaircase(by limits, base *candidate, floor int64, small, long bool, apart float64) *staircase {
	s := &staircase{limits: by, base: base, floor: floor, small: small, grid: gridLimits, halving: mostHalved, apart: apart,
		known: map[int64]found{}, ways: map[fromTo]*candidate{}}
	if long {
		s.grid, s.halving = longGrid, 0
	}
	return s
}

// at is a limit of the grid.
func (s *staircase) at(k int64) int64 {
	top := s.base.placed.Height
	return top/s.grid*k + top%s.grid*k/s.grid
}

// below is the grid limit at a limit, or the next one below it.
func (s *staircase) below(limit int64) int64 {
	k := min(int64(float64(limit)/float64(s.base.placed.Height)*float64(s.grid))+1, s.grid-1)
	for k > 0 && s.at(k) > limit {
		k--
	}
	return k
}

// within is the cheapest plan found whose arena is within a limit, or nil.
func (s *staircase) within(limit int64) *candidate {
	if s.base.placed.Height <= limit {
		return s.base
	}
	if _, may := s.least(limit); !may {
		return nil
	}
	if s.small {
		return highest(s.whole(), limit)
	}
	k := s.below(limit)
	switch {
	case s.halving == 0:
		return s.onGrid(k)
	case !s.has(k):
		return highest(s.bottom(), limit)
	case s.at(k) == limit:
		return s.onGrid(k)
	}
	g := &gap{staircase: s, k: k, low: s.at(k), high: s.at(k + 1), upper: s.onGrid(k + 1)}
	for !g.answers(limit) && g.narrow(limit) {
	}
	if g.answers(limit) {
		return g.upper
	}
	return g.reach()
}

// highest is the first plan of some, highest first, that is within a limit, or nil.
func highest(all []*candidate, limit int64) *candidate {
	for _, c := range all {
		if c.placed.Height <= limit {
			return c
		}
	}
	return nil
}

// gap is what lies between two limits: all those in it have the plan of the upper one, if that is within, or that of
// the lower one.
type gap struct {
	*staircase
	k            int64 // of the grid limit below
	low, high    int64
	upper, lower *candidate
	reached      bool // the lower plan is known
	halved       int64
	steps        int
}

// answers reports whether a limit has the plan of the upper one, or none.
func (g *gap) answers(limit int64) bool { return g.upper == nil || g.upper.placed.Height <= limit }

// narrow has other plans on either side of a limit, and reports whether it found any.
func (g *gap) narrow(limit int64) bool {
	if bound, may := g.early(g.low); may && g.close(bound, g.upper.cost) {
		if lower := g.reach(); lower != nil && g.close(lower.cost, g.upper.cost) { // both cost about the same
			return false
		}
	}
	if g.halved < g.halving && g.differ() {
		g.halved++
		g.halve(g.low+(g.high-g.low)/2, limit)
		return true
	}
	return g.step()
}

// differ reports whether it is worth looking between the limits.
func (g *gap) differ() bool {
	if g.high-g.low <= alignment {
		return false
	}
	a, may := g.early(g.low)
	b, _ := g.early(g.high)
	return !may || !g.close(a, b)
}

// close reports whether a cost is hardly above another one, or no more than that.
func (s *staircase) close(a, b float64) bool {
	return a-b < min(s.apart, apartOfBound*a) || a <= b
}

// reach is the plan of the lower limit.
func (g *gap) reach() *candidate {
	if !g.reached {
		g.lower, g.reached = g.onGrid(g.k), true
	}
	return g.lower
}

// halve makes the gap that half of it in which a limit is.
func (g *gap) halve(mid, limit int64) {
	plan := g.from(g.upper, mid)
	if out := plan == nil || plan.cost < g.upper.cost; out || g.mayBeat(g.low, plan) {
		if lower := g.reach(); out || lower != nil && lower.cost < plan.cost {
			plan = lower
		}
	}
	if mid <= limit {
		g.low, g.lower, g.reached = mid, plan, true
	} else {
		g.high, g.upper = mid, plan
	}
}

// step puts a plan below that of the upper limit in its place, and reports whether there was one.
func (g *gap) step() bool {
	next := g.upper.placed.Height - 1
	if g.steps++; g.steps > mostSteps || next <= g.low {
		return false
	}
	plan := g.from(g.upper, next)
	if plan == nil || plan.cost < g.upper.cost {
		return false
	}
	if g.mayBeat(g.low, plan) {
		if lower := g.reach(); lower != nil && lower.cost <= plan.cost {
			return false
		}
	}
	g.upper = plan
	return true
}

// from is what is found for a limit from the plan of a higher one.
func (s *staircase) from(upper *candidate, limit int64) *candidate {
	key := fromTo{upper, limit}
	c, known := s.ways[key]
	if !known {
		c = s.near(limit, upper)
		s.ways[key] = c
	}
	return c
}

// onGrid is the plan of a grid limit.
func (s *staircase) onGrid(k int64) (best *candidate) {
	if k == s.grid {
		return s.base
	}
	least := 0.0
	for i := k; i > 0; i-- {
		limit, other := s.at(i), math.Inf(1)
		if best != nil { // whether there is one at all is known
			if other = best.cost; least >= other || !s.mayBeat(limit, best) {
				break
			}
		}
		bound, may := s.least(limit)
		if !may {
			break
		}
		f := s.look(limit, other)
		best, least = cheaper(best, f.plan), max(least, bound, f.least)
		for _, c := range f.above {
			if c.placed.Height <= s.at(k) {
				best = cheaper(best, c)
			}
		}
	}
	if best == nil && k > 0 && k+1 < s.grid {
		if next := s.look(s.at(k+1), math.Inf(1)).plan; next != nil && next.placed.Height <= s.at(k) {
			best = next
		}
	}
	return best
}

// has reports whether a grid limit has a plan. Those far above the floor are taken to have one.
func (s *staircase) has(k int64) bool {
	if limit := s.at(k); limit < s.floor || limit >= s.floor+s.floor/nearFloor {
		return limit >= s.floor
	}
	return s.onGrid(k) != nil
}

// bottom is the plan of the lowest grid limit that has one, and plans below it, by falling height. They do not depend on
// the limit that is asked for. A plan that is not cheaper than one below it is dropped, and so is one that is cheaper than
// the first: so less memory never costs less here, too. There is none if the lowest grid limit that should have a plan has
// none.
func (s *staircase) bottom() []*candidate {
	if s.lows != nil {
		return s.lows
	}
	k := int64(1)
	for !s.has(k) {
		k++
	}
	first := s.onGrid(k)
	if first == nil {
		return nil
	}
	s.lows = []*candidate{first}
	for _, c := range s.descend(first) {
		if c.placed.Height < s.lows[len(s.lows)-1].placed.Height && c.cost >= first.cost {
			s.lows = append(undercut(s.lows, 1, c), c)
		}
	}
	return s.lows
}

// undercut is plans, highest first, without those behind the first few that cost as much as a lower one or more.
func undercut(all []*candidate, keep int, lower *candidate) []*candidate {
	n := len(all)
	for n > keep && all[n-1].cost >= lower.cost {
		n--
	}
	return all[:n]
}

// mayBeat reports whether a plan within a limit may be cheaper than another one.
func (s *staircase) mayBeat(limit int64, best *candidate) bool {
	if s.excludes(limit, best.cost) {
		return false
	}
	bound, may := s.least(limit)
	return may && bound < best.cost
}

// look is what is found for a limit that costs less than some other plan.
func (s *staircase) look(limit int64, other float64) found {
	f, known := s.known[limit]
	if !(known && f.from >= other) && limit > 0 {
		f = s.find(limit, other)
		s.known[limit] = f
	}
	return f
}

// cheaper is the cheaper of two plans, either of which may be nil; of equals the first.
func cheaper(a, b *candidate) *candidate {
	if a == nil || b != nil && b.cost < a.cost {
		return b
	}
	return a
}

// thorough is the plan of a limit, better than c, which within has there, if more work finds one. Grid limits are solved
// quickly, as it takes many of them; where that leaves wide gaps, all work is put into each grid limit up to this one whose
// bound is below the cheapest plan so far. Those plans do not depend on the limit, and a higher limit has them as well, so
// less memory still never costs less.
func (s *staircase) thorough(limit int64, c *candidate) *candidate {
	if c == s.base || s.small || s.halving == 0 {
		return c
	}
	for k := s.below(limit); k > 0; k-- {
		bound, may := s.early(s.at(k))
		if !may || c != nil && bound >= c.cost {
			break
		}
		quick := s.onGrid(k)
		if quick == nil {
			break
		}
		if c = cheaper(c, quick); s.wide(quick.cost, bound) {
			c = cheaper(c, s.fully(s.at(k)))
		}
	}
	return c
}
