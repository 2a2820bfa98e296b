package pack

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
)

// pass is one way to place the lives of a part, or to lower a packing of it.
type pass struct {
	name, doc string
	// when says whether the pass is worth its time for a part that is still above its limit; nil: always.
	when func(p *part, t target) bool
	// run returns a packing of p and its end. p.offsets is the lowest packing so far and stays as it is; the driver takes
	// the new one if it is lower. No offsets: it found none.
	run func(p *part, t target) (offsets []int64, top int64)
	// all is run for a pass that shares its time between parts: it lowers them itself.
	all func(parts []*part, t target)
}

// passes run in this order, each on every part that those before it left above its limit.
var passes = []pass{
	// First, so that every later pass has a packing to be lower than. It cannot be left out.
	{"stack", "puts every life on top of all others", nil, stack, nil},
	// Microseconds for few lives; of many it gives up as soon as it is too high.
	{"orders", "places lives in orders of size, length, area and begin, by first or best fit", nil, tryOrders, nil},
	// Few lives that are far above the goal now are hard for all but the search, which is quick where there is much to gain.
	{"search", "searches exactly from the bottom up, few lives that are far above the bound", searchPays, nil, searchFew},
	// About a millisecond for a thousand lives, and low for any: before what needs a packing that is nearly low enough.
	{"skyline", "builds from the bottom up, on three routes, by what each life wastes in the lowest valley", sumsFit, trySkylines, nil},
	// Where lives are too many for the search: it may take a tenth of a second, so the skyline comes first.
	{"largefirst", "searches the large lives and fills in the others", largeFirstPays, packLargeFirst, nil},
	// Needs a packing that is high in few places only, as those above leave it.
	{"eject", "takes out what ends too high and puts it back where it drives out least", sumsFit, eject, nil},
	// Last: it takes seconds if it is let, and is worth less the lower the packing is by now.
	{"search again", "searches for the last bytes", nil, nil, searchAgain},
}

// target is what the passes of one problem aim at.
type target struct {
	bound  int64 // no packing of the problem ends below it
	enough int64 // low enough: the goal, or the capacity
	capped bool  // near is the capacity
	quick  bool  // within the capacity soon, or not at all
	looks  int   // of searches, at most
}

// limit is the top of p from which on no further pass runs: near, or for many lives, whose last bytes are dear, a share above
// the goal.
func (t target) limit(p *part) int64 {
	if len(p.ranges) > fewRanges && !t.capped {
		return t.bound + t.bound/manyGap
	}
	return t.enough
}

const (
	fewRanges     = 2000 // lives for which the last byte is worth a search; more than that are "many"
	searchRanges  = 512  // lives that a search can pack perfectly however far above the goal the other passes leave them
	manyGap       = 256  // share of the goal above it that is close enough for many lives
	largeFirstGap = 100  // share of the goal above it from which on it is worth its time to pack many lives from the large ones
	searchGap     = 128  // share of the goal above it that skylines mostly take off, more quickly than a search
)

// climbable is whether sums of heights stay numbers on the way.
func sumsFit(p *part, t target) bool { return t.bound <= maxSummed }

// searchable is whether p has so few lives that a search may pack them perfectly, and much to gain.
func searchPays(p *part, t target) bool {
	return !t.quick && len(p.ranges) <= searchRanges && p.top-t.bound > t.bound/searchGap
}

// hasLarge is whether p has too many lives for the search, but may be packed from the large ones.
func largeFirstPays(p *part, t target) bool {
	many := len(p.ranges) > fewRanges && !t.capped
	return len(p.ranges) > searchRanges && !p.hasFixed() && sumsFit(p, t) && (!many || p.top-t.bound > t.bound/largeFirstGap)
}

// Passes lists the passes in running order: the name of each, what it does, and where it begins. The first cannot be left
// out.
func Passes() (all []struct{ Name, Doc, At string }) {
	for _, x := range passes {
		run := any(x.run)
		if x.run == nil {
			run = x.all
		}
		all = append(all, struct{ Name, Doc, At string }{x.name, x.doc, sourceLine(run)})
	}
	return all
}

// at is the file and the line where a function begins, from the folder planner on.
func sourceLine(run any) string {
	f := runtime.FuncForPC(reflect.ValueOf(run).Pointer())
	file, line := f.FileLine(f.Entry())
	_, file, _ = strings.Cut(file, "/planner/")
	return fmt.Sprintf("planner/%s:%d", file, line)
}

// Try is what one pass did for a solution.
type Try struct {
	Pass   string
	Parts  int           // parts it ran on
	Height int64         // the highest end of a part that it lowered; 0 if it lowered none
	Took   bool          // whether a part stands as this pass placed it
	Time   time.Duration // on all parts
}

// checking has every packing of every pass checked; tests set it.
var checking bool

// runPasses runs the passes on parts, signs what they lower, and says what each did.
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
		if x.all != nil && try.Parts > 0 {
			x.all(parts, t)
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

// validWithout says which of the names is no pass that can be left out.
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

// stack puts every life on top of all others, but for fixed ones, which are below.
func stack(p *part, _ target) (offsets []int64, top int64) {
	offsets, top = make([]int64, len(p.ranges)), p.floor
	for i, l := range p.ranges {
		if l.fixed != notFixed {
			offsets[i], top = l.fixed, max(top, l.fixed+l.size)
		}
	}
	for i, l := range p.ranges {
		if l.fixed == notFixed {
			offsets[i] = alignUp(top, l.align)
			top = offsets[i] + l.size
		}
	}
	return offsets, top
}
