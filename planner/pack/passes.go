package pack

import (
	"slices"
	"sync"
	"time"
)

// pass is one way to place the lives of a part.
type pass struct{ name, doc string }

// passes are in running order: what is quick and often enough comes first, and what comes later runs only where all before it
// left the part above what is near enough. A pass that improves what others packed follows those.
var passes = []pass{
	{"join", "puts pieces together that leave nothing free"},                               // first: of what was cut up all else makes nothing
	{"orders", "eight orders of lives, each first fit or best fit"},                        // few lives: microseconds
	{"alternate", "at the bottom and on top of that in turn, where no three lives meet"},   // many lives: linear
	{"nested", "lives that lie within each other, each on the highest below it"},           // many lives: nearly linear
	{"ring", "lives that begin and end in one order, around and around"},                   // many lives: nearly linear
	{"first fit", "large lives first, given up early"},                                     // many lives: beside the first skyline
	{"skyline", "from the bottom up, into the valley that is lowest"},                      // some ten looks a life
	{"tuck", "makes room for what sticks out of a skyline"},                                // where one is nearly low enough
	{"walk", "in the order of time, going back where there is no room"},                    // where nearly all bytes are alive at all times
	{"sift", "searches the large lives, fills in the others"},                              // more than a search gets through
	{"core", "packs lives of the fullest moments first, each peak for itself"},             // many lives
	{"large", "climbs with the large lives, fills in the others"},                          // where skylines are too high
	{"come", "as they come, first fit"},                                                    // lives of few sizes
	{"staged", "skylines in short stages, each on the best of some routes"},                // dear
	{"mend", "ejects what sticks out, puts it back where it drives out least"},             // what others packed
	{"push", "pushes lives up and down for those without room"},                            // what others packed
	{"shove", "ejects lives in the way of a push"},                                         // what others packed
	{"turn", "turns a packing upside down and lets it sink"},                               // what others packed
	{"simple", "three orders for many lives"},                                              // what comes out steep
	{"search", "exact search from the bottom up, for the bound and downward from the top"}, // last: seconds
}

// Passes are the names of all passes, in running order, and what each does.
func Passes() (all []struct{ Name, Doc string }) {
	for _, x := range passes {
		all = append(all, struct{ Name, Doc string }{x.name, x.doc})
	}
	return all
}

// Try is what a pass did for a solution.
type Try struct {
	Pass   string
	Parts  int           // times it ran
	Height int64         // the highest end of what it lowered, 0 if nothing
	Took   bool          // whether a part is as it packed that
	Time   time.Duration // all in all
}

// job is which passes may run for a solution, and what they did.
type job struct {
	without map[string]bool
	mu      sync.Mutex
	rows    map[string]*Try
}

// off is whether a pass is not to run.
func (j *job) off(pass string) bool { return j != nil && j.without[pass] }

// run notes that a pass begins on p; what it gives is called at the end.
func (j *job) run(pass string, p *part) (end func()) {
	if j == nil {
		return func() {}
	}
	before, begun := p.top, time.Now()
	return func() {
		took := time.Since(begun)
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.rows == nil {
			j.rows = map[string]*Try{}
		}
		t := j.rows[pass]
		if t == nil {
			t = &Try{Pass: pass}
			j.rows[pass] = t
		}
		t.Parts++
		t.Time += took
		if p.top < before {
			t.Height = max(t.Height, p.top)
		}
	}
}

// tries are what passes did, given what packed the parts in the end.
func (j *job) tries(parts []*part) (all []Try) {
	for _, x := range passes {
		if t := j.rows[x.name]; t != nil {
			t.Took = slices.ContainsFunc(parts, func(p *part) bool { return p.by == x.name })
			all = append(all, *t)
		}
	}
	return all
}
