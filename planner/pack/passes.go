package pack

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	fewRanges     = 2000              // a part of more is "many": it gets one order and ends close to the bound, not at it, which saves seconds
	searchRanges  = 512               // up to so many, a search mostly comes to an end, however high it starts; with more it seldom does
	manyGap       = 256               // many ranges may end bound/256 above the bound; a smaller gap takes far longer for little
	largeFirstGap = 100               // many ranges are packed from the large ones from bound/100 above the bound; closer, it is not worth the time
	searchGap     = 128               // a search goes before skylines from bound/128 above the bound; closer, skylines get there sooner
	maxSummed     = math.MaxInt64 / 4 // bounds above this are left to passes that do not sum heights, which could overflow
)

// pass is one way to place the ranges of a part, or to lower a packing of it.
type pass struct {
	name, doc string
	// when says whether the pass is worth its time for a part that is still above its limit; nil: always.
	when func(p *part, t target) bool
	// run returns a packing of p and its top, or no offsets if it has none. p.offsets is the lowest packing so far, which
	// run does not change; the driver takes the new one if it is lower.
	run func(p *part, t target) (offsets []int64, top int64)
	// runAll takes the place of run in a pass that shares its looks between parts; it lowers them itself.
	runAll func(parts []*part, t target)
}

// passes run in this order, each on every part that those before it left above its limit.
var passes = []pass{
	// First: every later pass has to be lower than some packing. It cannot be left out.
	{"stack", "puts every range on top of all others", nil, stack, nil},
	// Takes microseconds for few ranges; of many it gives up as soon as it is too high.
	{"orders", "places ranges by size, duration, area and begin, by first or best fit", nil, tryOrders, nil},
	// Few ranges that are still far above the bound are hard for all but the search, which is quick where there is much to gain.
	{"search", "searches exactly, from the bottom up, for few ranges that are far above the bound", searchPays, nil, searchFew},
	// Takes a millisecond per thousand ranges and comes close for any: before passes that need a packing that is nearly low enough.
	{"skyline", "fills the lowest valley first, in three settings, by what each range wastes there", sumsFit, trySkylines, nil},
	// For more ranges than a search can pack. It may take a tenth of a second, so the skyline goes first.
	{"largefirst", "searches for the large ranges and fills in the others", largeFirstPays, packLargeFirst, nil},
	// Needs a packing that is too high in few places, as those above leave it.
	{"eject", "takes out ranges that end too high and puts each where it ejects least", sumsFit, eject, nil},
	// Last: it may take seconds, and gains less the lower the packing already is.
	{"search again", "searches for the last bytes", nil, nil, searchAgain},
}

// target is what the passes of one problem are to reach.
type target struct {
	bound  int64 // no packing of the problem ends below it
	enough int64 // a packing that ends here is low enough: the bound, or the capacity
	capped bool  // enough is the capacity
	quick  bool  // the caller wants a packing within the capacity soon, or none
	looks  int   // of searches, at most
}

// limit is the top of p at which no further pass runs.
func (t target) limit(p *part) int64 {
	if len(p.ranges) > fewRanges && !t.capped {
		return t.bound + t.bound/manyGap
	}
	return t.enough
}

// sumsFit reports whether sums of several heights do not overflow.
func sumsFit(_ *part, t target) bool { return t.bound <= maxSummed }

// searchPays reports whether a search may pack p perfectly and has much to gain.
func searchPays(p *part, t target) bool {
	return !t.quick && len(p.ranges) <= searchRanges && p.top-t.bound > t.bound/searchGap
}

// largeFirstPays reports whether p has too many ranges for the search, and may be packed from the large ones.
func largeFirstPays(p *part, t target) bool {
	many := len(p.ranges) > fewRanges && !t.capped
	return len(p.ranges) > searchRanges && sumsFit(p, t) && (!many || p.top-t.bound > t.bound/largeFirstGap)
}

// Passes lists the passes in running order: the name of each, what it does, and the function that does it. The first
// cannot be left out.
func Passes() (all []struct {
	Name, Doc string
	Run       any
}) {
	all = slices.Grow(all, len(passes))[:len(passes)]
	for i, x := range passes {
		all[i].Name, all[i].Doc, all[i].Run = x.name, x.doc, x.run
		if x.run == nil {
			all[i].Run = x.runAll
		}
	}
	return all
}

// Try is what one pass did for a solution.
type Try struct {
	Pass   string
	Parts  int           // parts it ran on
	Height int64         // the highest top of the parts that it lowered; 0 if it lowered none
	Took   bool          // whether the solution has a part as this pass placed it
	Time   time.Duration // on all parts
}

// checking has runPasses check every packing of every pass; tests set it.
var checking bool

// runPasses runs the passes on parts, signs what they lower, and returns what each did.
func runPasses(parts []*part, t target, without map[string]bool) (tries []Try) {
	for _, x := range passes {
		if without[x.name] {
			continue
		}
		try, begin := Try{Pass: x.name}, time.Now()
		var before []int64
		for _, p := range parts {
			before = append(before, p.top)
			if p.top <= t.limit(p) || x.when != nil && !x.when(p, t) {
				continue
			}
			try.Parts++
			if x.run != nil {
				if offsets, top := x.run(p, t); offsets != nil && top < p.top {
					p.offsets, p.top = offsets, top
				}
			}
		}
		if x.runAll != nil && try.Parts > 0 {
			x.runAll(parts, t)
		}
		for i, p := range parts {
			if p.top < before[i] {
				p.by, try.Height = x.name, max(try.Height, p.top)
				if checking {
					p.check()
				}
			}
		}
		if try.Time = time.Since(begin); try.Parts > 0 {
			tries = append(tries, try)
		}
	}
	for i := range tries {
		tries[i].Took = slices.ContainsFunc(parts, func(p *part) bool { return p.by == tries[i].Pass })
	}
	return tries
}

// validWithout returns an error for the first name that is not a pass that can be left out.
func validWithout(without map[string]bool) error {
	var names []string
	for _, x := range passes[1:] {
		names = append(names, x.name)
	}
	for _, name := range slices.Sorted(maps.Keys(without)) {
		if without[name] && !slices.Contains(names, name) {
			return fmt.Errorf("no pass %q can be left out; those that can are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// stack puts each range on top of all before it.
func stack(p *part, _ target) (offsets []int64, top int64) {
	offsets, top = make([]int64, len(p.ranges)), p.floor
	for i, r := range p.ranges {
		offsets[i] = alignUp(top, r.align)
		top = offsets[i] + r.size
	}
	return offsets, top
}
