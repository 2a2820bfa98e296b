// Package limits answers limits of one program with plans, so that a lower limit never costs less: the cheapest plan
// within a limit of bytes, the lowest of all or within a limit of cost, and the curve of one against the other. All
// come from the plans that a solver finds for single limits, each of which is asked for once.
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
//     the lower one or less than that of the upper one: then there is the plan of the lower one (gap.go).
//   - From there a few steps lead down: each is what is found with less than the plan before it takes, as long as that
//     costs no less, and no more than the next limit below does.
//   - Any other limit has the plan of the next one above, if that is within it, or else of the next one below.
//   - Below the lowest grid limit that has a plan, where a hair less memory may take far more compute, there are the
//     plans of a descent from there to the floor, each for all limits that it is the cheapest within. Cheaper ones than
//     that grid limit's are dropped (low.go).
//   - Small programs are searched as a whole, and have no grid: a limit has the cheapest plan within it (small.go).
//
// So no limit's plan costs more than that of a lower one, whatever solving finds. Most grid limits need not be solved
// to know that: where the bound of one is not below what a known plan costs, none from there down is cheaper. Mostly
// that is the next one.
//
// In long programs, where a plan takes long, the grid is finer and nothing is halved.
package limits

import "math"

// Sizes of programs, in operators, above which the search does less work.
const (
	Small = 96   // up to it, all plans are searched once, if the arena is small as well
	Short = 256  // up to it, limits are solved to find the lowest plan
	Mid   = 1024 // above it, no descent leads to the lowest plan
	Large = 4096 // above it, nothing is searched between two limits of the grid
)

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

// Plan is a plan of the program; its zero value is none.
type Plan interface {
	comparable
	Height() int64 // of its arena
	Peak() int64   // bytes alive
	Cost() float64 // of what runs again
}

// Effort is how much work a limit gets.
type Effort int

const (
	Usual    Effort = iota // what a limit of the grid gets
	Sketched               // the least, for the curve of a long program
	Hasty                  // Usual, but the first plan that can be placed will do
	Any                    // whatever costs no more than a limit of cost
)

// Solver finds plans within single limits, and bounds.
type Solver[P Plan] interface {
	// Least is a bound of what plans within a limit cost, and whether there may be any. Early is the first such bound,
	// which does not depend on what was asked before. Excludes reports whether it is already known that no plan costs
	// less than so much.
	Least(limit int64) (cost float64, may bool)
	Early(limit int64) (cost float64, may bool)
	Excludes(limit int64, cost float64) bool
	// At is a plan within a limit that costs at most so much.
	At(limit int64, most float64, e Effort) P
	// Find solves a limit for a plan that costs less than some other.
	Find(limit int64, other float64) Found[P]
	// Near is a plan for a limit from that of a higher one.
	Near(limit int64, from P) P
	// Fully is the plan within a limit that all work finds; Wide reports whether a cost is so far above a bound that
	// this may be another.
	Fully(limit int64) P
	Wide(cost, bound float64) bool
	// LowestPeak is the plan with the lowest peak, whatever it costs, placed below an arena if that can be.
	LowestPeak(below int64) P
	// Trimmed is a plan in the fewest bytes that it can be placed in.
	Trimmed(P) P
}

// Found is what solving found for a limit: a plan or none, and Least, a bound for this limit and all below it. If there
// is no plan, others for the limit cost From or more, which is no less than the caller asked for. Above are plans that
// were solved for the limit, but whose arenas are above it.
type Found[P Plan] struct {
	Plan  P
	Above []P
	Least float64
	From  float64
}

// Program is what the limits are of.
type Program[P Plan] struct {
	Base      P       // everything kept
	Floor     int64   // no plan is within less
	Operators int     // that may be launched
	Launches  int     // of Base
	Cost      float64 // of Base as a whole
	Align     int64   // offsets are multiples of it
}

// Limits answers limits of one program.
type Limits[P Plan] struct {
	Solver[P]
	Program[P]
	grid, halving int64
	apart         float64

	known map[int64]Found[P]
	ways  map[fromTo[P]]P // from plans to lower limits
	all   []P             // of a small program, once they were asked for
	lows  []P             // below the grid, once they were asked for
}

// fromTo leads from a plan to a lower limit.
type fromTo[P Plan] struct {
	from  P
	limit int64
}

// Of are the limits of a program, which a solver solves.
func Of[P Plan](p Program[P], by Solver[P]) *Limits[P] {
	l := &Limits[P]{Solver: by, Program: p, grid: gridLimits, halving: mostHalved, apart: apart * p.Cost,
		known: map[int64]Found[P]{}, ways: map[fromTo[P]]P{}}
	if p.Operators > Large {
		l.grid, l.halving = longGrid, 0
	}
	return l
}

// none reports whether there is no plan.
func none[P Plan](p P) bool {
	var no P
	return p == no
}

// Cheaper is the cheaper of two plans, either of which may be none; of equals the first.
func Cheaper[P Plan](a, b P) P {
	if none(a) || !none(b) && b.Cost() < a.Cost() {
		return b
	}
	return a
}

// Grid is the grid limit at a limit or the next one below it; 0 is none.
func (l *Limits[P]) Grid(limit int64) int64 {
	if l.Small() {
		return 0
	}
	return l.at(l.below(limit))
}

// at is a limit of the grid.
func (l *Limits[P]) at(k int64) int64 {
	top := l.Base.Height()
	return top/l.grid*k + top%l.grid*k/l.grid
}

// below is the number of the grid limit at a limit, or of the next one below it.
func (l *Limits[P]) below(limit int64) int64 {
	k := min(int64(float64(limit)/float64(l.Base.Height())*float64(l.grid))+1, l.grid-1)
	for k > 0 && l.at(k) > limit {
		k--
	}
	return k
}

// Within is the cheapest plan found whose arena is within a limit.
func (l *Limits[P]) Within(limit int64) (no P) {
	if l.Base.Height() <= limit {
		return l.Base
	}
	if _, may := l.Least(limit); !may {
		return no
	}
	if l.Small() {
		return highest(l.whole(), limit)
	}
	k := l.below(limit)
	switch {
	case l.halving == 0:
		return l.onGrid(k)
	case !l.has(k):
		return highest(l.bottom(), limit)
	case l.at(k) == limit:
		return l.onGrid(k)
	}
	g := &gap[P]{Limits: l, k: k, low: l.at(k), high: l.at(k + 1), upper: l.onGrid(k + 1)}
	for !g.answers(limit) && g.narrow(limit) {
	}
	if g.answers(limit) {
		return g.upper
	}
	return g.reach()
}

// highest is the first plan of some, highest first, that is within a limit.
func highest[P Plan](all []P, limit int64) (no P) {
	for _, c := range all {
		if c.Height() <= limit {
			return c
		}
	}
	return no
}

// onGrid is the plan of a grid limit.
func (l *Limits[P]) onGrid(k int64) (best P) {
	if k == l.grid {
		return l.Base
	}
	least := 0.0
	for i := k; i > 0; i-- {
		limit, other := l.at(i), math.Inf(1)
		if !none(best) { // whether there is one at all is known
			if other = best.Cost(); least >= other || !l.mayBeat(limit, best) {
				break
			}
		}
		bound, may := l.Least(limit)
		if !may {
			break
		}
		f := l.look(limit, other)
		best, least = Cheaper(best, f.Plan), max(least, bound, f.Least)
		for _, c := range f.Above {
			if c.Height() <= l.at(k) {
				best = Cheaper(best, c)
			}
		}
	}
	if none(best) && k > 0 && k+1 < l.grid {
		if next := l.look(l.at(k+1), math.Inf(1)).Plan; !none(next) && next.Height() <= l.at(k) {
			best = next
		}
	}
	return best
}

// has reports whether a grid limit has a plan. Those far above the floor are taken to have one.
func (l *Limits[P]) has(k int64) bool {
	if limit := l.at(k); limit < l.Floor || limit >= l.Floor+l.Floor/nearFloor {
		return limit >= l.Floor
	}
	return !none(l.onGrid(k))
}

// mayBeat reports whether a plan within a limit may be cheaper than another one.
func (l *Limits[P]) mayBeat(limit int64, best P) bool {
	if l.Excludes(limit, best.Cost()) {
		return false
	}
	bound, may := l.Least(limit)
	return may && bound < best.Cost()
}

// look is what is found for a limit that costs less than some other plan.
func (l *Limits[P]) look(limit int64, other float64) Found[P] {
	f, known := l.known[limit]
	if !(known && f.From >= other) && limit > 0 {
		f = l.Find(limit, other)
		l.known[limit] = f
	}
	return f
}

// Thorough is the plan of a limit, better than c, which Within has there, if more work finds one. Grid limits are solved
// quickly, as it takes many of them; where that leaves wide gaps, all work is put into each grid limit up to this one whose
// bound is below the cheapest plan so far. Those plans do not depend on the limit, and a higher limit has them as well, so
// less memory still never costs less.
func (l *Limits[P]) Thorough(limit int64, c P) P {
	if c == l.Base || l.Small() || l.halving == 0 {
		return c
	}
	for k := l.below(limit); k > 0; k-- {
		bound, may := l.Early(l.at(k))
		if !may || !none(c) && bound >= c.Cost() {
			break
		}
		quick := l.onGrid(k)
		if none(quick) {
			break
		}
		if c = Cheaper(c, quick); l.Wide(quick.Cost(), bound) {
			c = Cheaper(c, l.Fully(l.at(k)))
		}
	}
	return c
}
