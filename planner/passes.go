package planner

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"memopt/planner/pack"
	"memopt/planner/recompute"
)

// Provenance says how a plan came about: which pass made its choice and its placement, and what all passes did on the way.
type Provenance struct {
	// Choice is who chose what runs again: a pass (recompute/evict), a strategy (strategy/keep-all), or planner/given
	// for steps that were known before.
	Choice string
	// Placement is the pass that placed the lives (pack/nest), or planner/unplaced where they have no places.
	Placement string
	Tries     []Tried   // what passes tried for the limit that the choice was found for, in running order
	Passes    []PassRow // all limits that were solved and all placings together, in running order
}

// Tried is one run of a pass, for one limit.
type Tried struct {
	Pass  string
	Limit int64
	Cost  float64 // of what runs again, as a share of the plain step's
	Peak  int64   // bytes alive
	Bound float64 // proven by then, in the units of Cost
	Took  bool    // its plan was the best by then
	Time  time.Duration
}

// PassRow is what one pass did in the whole search.
type PassRow struct {
	Pass     string
	Ran, Won int // how often it ran, and how often the answer was its plan
	Time     time.Duration
}

// Pass is a row of the tables of passes.
type Pass struct {
	Name, Doc string
	At        string // where it begins: file:line
	Needed    bool   // by all others: it cannot be left out
}

// Passes lists what searches run, in running order. Request.Without takes the names.
func Passes() (all []Pass) {
	for i, p := range recompute.Passes() {
		all = append(all, Pass{Name: choosing + p.Name, Doc: p.Doc, At: sourceLine(p.Run), Needed: i == 0})
	}
	for i, p := range pack.Passes() {
		all = append(all, Pass{Name: placing + p.Name, Doc: p.Doc, At: sourceLine(p.Run), Needed: i == 0})
	}
	return all
}

// sourceLine is the file, from the folder planner on, and the line at which a function of a pass begins.
func sourceLine(run any) string {
	f := runtime.FuncForPC(reflect.ValueOf(run).Pointer())
	file, line := f.FileLine(f.Entry())
	_, file, _ = strings.Cut(file, "/planner/")
	return fmt.Sprintf("planner/%s:%d", file, line)
}

// What comes before the names of passes, and who else chooses and places.
const (
	choosing, placing = "recompute/", "pack/"
	byStrategy        = "strategy/"
	given             = "planner/given"
	notPlaced         = "planner/unplaced"
)

// passLog adds up what passes do for one model, and knows which are off.
type passLog struct {
	without map[string]map[string]bool // by prefix: names
	rows    map[string]*PassRow
}

func newPassLog(without []string) (*passLog, error) {
	l := &passLog{rows: map[string]*PassRow{}, without: map[string]map[string]bool{choosing: {}, placing: {}}}
	for _, name := range without {
		names := []string{}
		for _, p := range Passes() {
			if !p.Needed {
				names = append(names, p.Name)
			}
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no pass that can be left out is called %q; there are %s", name, strings.Join(names, ", "))
		}
		room, pass, _ := strings.Cut(name, "/")
		l.without[room+"/"][pass] = true
	}
	return l, nil
}

// note counts a run of a pass, and whether the answer was its.
func (l *passLog) note(pass string, won bool, took time.Duration) {
	r := l.rows[pass]
	if r == nil {
		r = &PassRow{Pass: pass}
		l.rows[pass] = r
	}
	r.Ran, r.Time = r.Ran+1, r.Time+took
	if won {
		r.Won++
	}
}

// passes is all rows, in the order of the tables.
func (l *passLog) passes() (rows []PassRow) {
	place := map[string]int{}
	for i, p := range Passes() {
		place[p.Name] = i
	}
	for _, r := range l.rows {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b PassRow) int {
		return cmp.Or(cmp.Compare(place[a.Pass], place[b.Pass]), cmp.Compare(a.Pass, b.Pass))
	})
	return rows
}

// checking has every answer of both rooms replayed by their checks, for tests.
var checking bool

// pack places buffers, and counts by which passes.
func (m *model) pack(p pack.Problem, e pack.Effort) (pack.Solution, error) {
	e.Without = m.log.without[placing]
	s, err := pack.Solve(p, e)
	if checking && err == nil {
		if wrong := pack.Check(p, s); wrong != nil {
			panic(fmt.Sprintf("planner: %s%s places wrongly: %v", placing, s.By, wrong))
		}
	}
	for _, t := range s.Tries {
		m.log.note(placing+t.Pass, err == nil && t.Pass == s.By, t.Time)
	}
	return s, err
}

// solverOf is a solver of a problem without the passes that are off.
func (m *model) solverOf(p *recompute.Problem) *recompute.Solver {
	r, err := recompute.New(p)
	if err == nil {
		err = r.Without(slices.Sorted(maps.Keys(m.log.without[choosing]))...)
	}
	if err != nil {
		panic(fmt.Sprintf("planner: a model is no problem: %v", err))
	}
	return r
}

// asked counts which passes an answer came about by.
func (v *solver) asked(a recompute.Answer, ok bool) (recompute.Answer, bool) {
	if checking && ok {
		peak, extra, err := recompute.Check(v.problem, a.Launches)
		if err != nil || peak != a.Peak || math.Abs(extra-a.Extra) > 1e-9*max(1, extra) || a.Bound > extra+1e-6*max(1, extra) {
			panic(fmt.Sprintf("planner: %s%s says a peak of %d for %v, bound %v; it is %d for %v: %v", choosing, a.By, a.Peak, a.Extra, a.Bound, peak, extra, err))
		}
	}
	for _, t := range a.Tries {
		v.m.log.note(choosing+t.Pass, ok && t.Pass == a.By, t.Time)
	}
	return a, ok
}

// candidate is the plan of an answer for a limit, without places.
func (v *solver) candidate(a recompute.Answer, limit int64) *candidate {
	c := &candidate{t: v.m.simulate(v.steps(a.Launches)), by: choosing + a.By}
	for _, t := range a.Tries {
		c.tries = append(c.tries, Tried{choosing + t.Pass, limit, share(t.Cost, v.m.total), t.Peak, share(t.Bound, v.m.total), t.Took, t.Time})
	}
	return c
}
