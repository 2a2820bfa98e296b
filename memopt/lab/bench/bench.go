package bench

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Bench is a table of cases under one name.
type Bench struct {
	Name, Doc string
	Cases     []Case
}

// Benches lists the benches.
var Benches = []Bench{cpuBench}

// Case is one measurement of both sides.
type Case struct {
	Group, Name string
	// Work is the work of a step in units, such as 2.7e8 FLOP.
	Work  float64
	Unit  string
	Ours  func(threads int) (Side, error)
	Rival Rival
	Bar   Bar
}

// Rival is the other side of a case: a case of a peer's script, or a baseline in Go.
type Rival struct {
	Name string
	// Script is a file in peers/, Open the arguments of its case; used if Side is nil.
	Script string
	Open   map[string]any
	Side   func(threads int) (Side, error)
}

// Bar is the least performance relative to the rival. One of its fields is set, or none to show the
// figure as speed only.
type Bar struct {
	Speed float64 // least share of its speed
	Time  float64 // most multiple of its time
}

// ratio is our figure relative to the rival's, as the bar counts it.
func (b Bar) ratio(ours, rival float64) float64 {
	if b.Time > 0 {
		return ours / rival
	}
	return rival / ours
}

func (b Bar) judges() bool { return b != Bar{} }

func (b Bar) met(ratio float64) bool {
	if b.Time > 0 {
		return ratio <= b.Time
	}
	return ratio >= b.Speed
}

// String reads like "≥ 0.90 speed".
func (b Bar) String() string {
	if !b.judges() {
		return "speed"
	}
	if b.Speed > 0 {
		return fmt.Sprintf("≥ %.2f speed", b.Speed)
	}
	return fmt.Sprintf("≤ %.2f time", b.Time)
}

// Options select what is measured, and for how long.
type Options struct {
	Only     []string // groups; none: all
	Quick    bool     // a few short rounds
	Python   string   // interpreter with the peers installed
	Threads  []int    // none: 1 and all cores
	Progress func(what string)
}

// Report is the figures of one run.
type Report struct {
	Bench   string
	Rows    []Row
	Peers   []Found
	Missing []Missing
	Unset   []string // variables that were withheld from peers: see choosing
}

// Row is a case on a number of threads.
type Row struct {
	Case
	Threads     int
	Here, There Figure // There is zero without a rival
	Ratio       float64
	Met         bool
}

// Found is a peer that answered: its name, the kernels that its library chose for this processor,
// and its numbers of threads.
type Found struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Kernels string `json:"kernels"`
	Threads []int  `json:"threads"`
}

// Missing is a peer that did not answer, and how to install it.
type Missing struct {
	Name   string `json:"name"`
	Why    string `json:"why"`
	Advice string `json:"advice"`
}

// Find finds a bench by name.
func Find(name string) (Bench, error) {
	var names []string
	for _, b := range Benches {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	names = append(names, "fit", "planner", "plugin", "torch", "vulkan") // these are not tables of cases
	return Bench{}, fmt.Errorf("no bench is called %q; there are %s", name, strings.Join(names, ", "))
}

// Groups lists the groups of the cases in order.
func (b Bench) Groups() (names []string) {
	for _, c := range b.Cases {
		if !slices.Contains(names, c.Group) {
			names = append(names, c.Group)
		}
	}
	return names
}

// noGroup returns an error for groups that a bench does not have.
func noGroup(bench string, groups, only []string) error {
	for _, name := range only {
		if !slices.Contains(groups, name) {
			return fmt.Errorf("%s has no group %q; there are %s", bench, name, strings.Join(groups, ", "))
		}
	}
	return nil
}

// pick selects the cases of the requested groups.
func (b Bench) pick(only []string) (cases []Case, err error) {
	if err := noGroup(b.Name, b.Groups(), only); err != nil {
		return nil, err
	}
	for _, c := range b.Cases {
		if len(only) == 0 || slices.Contains(only, c.Group) {
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// untilAsleep is the time after which a side's idle threads have stopped spinning. OpenBLAS's spin
// for 2²⁶ ticks of a clock; a rest of 40 ms was too short in an experiment, and 150 ms as good as
// telling them to sleep.
const untilAsleep = 150 * time.Millisecond

// Run runs the bench.
func (b Bench) Run(o Options) (*Report, error) {
	cases, err := b.pick(o.Only)
	if err != nil {
		return nil, err
	}
	if o.Threads == nil {
		o.Threads = slices.Compact([]int{1, runtime.GOMAXPROCS(0)})
	}
	length := rounds{count: 15, least: 60 * time.Millisecond}
	if o.Quick {
		length = rounds{count: 4, least: 25 * time.Millisecond}
	}
	all := newPeers(o.Python)
	defer all.close()
	r := &Report{Bench: b.Name}
	for _, c := range cases {
		for _, threads := range o.Threads {
			if o.Progress != nil {
				o.Progress(fmt.Sprintf("%s %s, threads %d", c.Group, c.Name, threads))
			}
			length.rest = 0
			if threads > 1 {
				length.rest = untilAsleep
			}
			row, err := c.measure(threads, all, length)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", c.Group, c.Name, err)
			}
			r.Rows = append(r.Rows, row)
		}
	}
	r.Peers, r.Missing, r.Unset = all.found, all.missing, unset()
	return r, nil
}

func (c Case) measure(threads int, all *peers, length rounds) (row Row, err error) {
	row = Row{Case: c, Threads: threads}
	ours, err := c.Ours(threads)
	if err != nil {
		return row, err
	}
	defer ours.Close()
	sides := []Side{ours}
	rival, err := c.Rival.side(threads, all)
	if err != nil {
		return row, err
	}
	if rival != nil {
		defer rival.Close()
		sides = append(sides, rival)
	}
	figures, err := length.measure(sides...)
	if err != nil {
		return row, err
	}
	row.Here = figures[0]
	if rival != nil {
		row.There = figures[1]
		row.Ratio = c.Bar.ratio(row.clock(row.Here), row.clock(row.There))
		row.Met = c.Bar.met(row.Ratio)
	}
	return row, nil
}

// clock is the time that counts, see the package comment.
func (r Row) clock(f Figure) float64 {
	if r.Threads == 1 && f.CPU > 0 {
		return f.CPU
	}
	return f.Wall
}

// side opens the rival's side; nil if the peer is missing.
func (r Rival) side(threads int, all *peers) (Side, error) {
	if r.Side != nil {
		return r.Side(threads)
	}
	return all.open(r, threads)
}
