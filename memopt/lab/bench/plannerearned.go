package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"memopt/memopt/lab/corpus"
	"memopt/memopt/report"
	"memopt/planner"
	"memopt/planner/pack"
)

// EarnedRow is the contribution of passes on the corpus: all plans and placements without them,
// compared with those with all passes. Costs are shares of a step's cost, heights shares of the
// lower bound; positive is the loss without the passes.
type EarnedRow struct {
	Without  []string `json:"without"`
	Doc      string   `json:"doc,omitempty"` // of a single pass
	Plans    int      `json:"plans"`         // plans in which the passes took part
	Missing  int      `json:"missing"`       // plans that are not found without the passes
	Cost     Earned   `json:"cost"`
	Bound    Earned   `json:"bound"`
	MS       float64  `json:"cpu_ms"` // time of the passes in all plans
	Placings int      `json:"placings"`
	Height   Earned   `json:"height"`
	PackMS   float64  `json:"pack_cpu_ms"`
	Changed  []Change `json:"changed"`
}

// Earned is the loss without passes: in total, the most, and the least, which is negative if
// something improves.
type Earned struct {
	Sum   float64 `json:"sum"`
	Most  float64 `json:"most"`
	Least float64 `json:"least"`
}

func (e *Earned) add(x float64) {
	e.Sum, e.Most, e.Least = e.Sum+x, math.Max(e.Most, x), math.Min(e.Least, x)
}

// Change is a row of the corpus with all passes, and without.
type Change struct {
	With    CorpusRow `json:"with"`
	Without CorpusRow `json:"without"`
}

// eachPass stands for a row for each pass.
const eachPass = "each"

// earned plans the corpus, and plans again without passes where these took part.
func (b *plannerBench) earned() error {
	var rows []EarnedRow
	for _, pass := range planner.Passes() {
		if !pass.Needed {
			rows = append(rows, EarnedRow{Without: []string{pass.Name}, Doc: pass.Doc})
		}
	}
	if !slices.Equal(b.o.Without, []string{eachPass}) {
		for _, name := range b.o.Without {
			if !slices.ContainsFunc(rows, func(r EarnedRow) bool { return r.Without[0] == name }) {
				return fmt.Errorf("the planner has no pass %q that it can do without; there are %s, and %s for one after another", name, passNames(rows), eachPass)
			}
		}
		rows = []EarnedRow{{Without: b.o.Without}}
	}
	steps, instances, err := b.chosen()
	if err != nil {
		return err
	}
	plans, err := b.corpusPlans(steps)
	if err != nil {
		return err
	}
	for _, x := range instances {
		p := &corpusPlan{lives: x.Problem}
		p.Step, p.Limit = x.Name, x.Capacity
		if err := p.place(nil); err != nil {
			return err
		}
		plans = append(plans, p)
	}
	for _, row := range rows {
		b.says("without %s", strings.Join(row.Without, ", "))
		if err := row.compare(plans); err != nil {
			return err
		}
		b.report.Earned = append(b.report.Earned, row)
	}
	return nil
}

// chosen selects corpus steps and published problems by name; all without names.
func (b *plannerBench) chosen() (steps []corpus.Step, instances []pack.Instance, err error) {
	all, err := corpus.Placings()
	if err != nil {
		return nil, nil, err
	}
	var names []string
	wanted := func(name string) bool {
		names = append(names, name)
		return len(b.o.Only) == 0 || slices.Contains(b.o.Only, name)
	}
	for _, s := range corpus.Steps() {
		if wanted(s.Name) {
			steps = append(steps, s)
		}
	}
	for _, x := range all {
		if wanted(x.Name) {
			instances = append(instances, x)
		}
	}
	return steps, instances, noGroup("the corpus", names, b.o.Only)
}

func passNames(rows []EarnedRow) string {
	var names []string
	for _, r := range rows {
		names = append(names, r.Without...)
	}
	return strings.Join(names, ", ")
}

// compare plans and places without the row's passes.
func (r *EarnedRow) compare(plans []*corpusPlan) error {
	within := func(ran map[string]bool) bool {
		return slices.ContainsFunc(r.Without, func(name string) bool { return ran[name] })
	}
	for _, with := range plans {
		without, placed := *with, *with
		if with.g != nil && (with.ran == nil || within(with.ran)) {
			if err := without.plan(r.Without); err != nil {
				return fmt.Errorf("%s, %d %%, without %s: %w", with.Step, with.Share, strings.Join(r.Without, ", "), err)
			}
			r.Plans++
			r.MS += with.MS - without.MS
			if with.Found && !without.Found {
				r.Missing++
			}
			if with.Found && without.Found {
				r.Cost.add(without.Cost - with.Cost)
				r.Bound.add(with.Bound - without.Bound)
			}
		}
		if within(with.placed) {
			if err := placed.place(r.Without); err != nil {
				return fmt.Errorf("%s, %d %%, placed without %s: %w", with.Step, with.Share, strings.Join(r.Without, ", "), err)
			}
			r.Placings++
			r.PackMS += with.PackMS - placed.PackMS
			r.Height.add(float64(placed.Height-with.Height) / float64(max(with.Least, 1)))
		}
		without.Height, without.Least, without.Placer, without.PackMS = placed.Height, placed.Least, placed.Placer, placed.PackMS
		if worth := func(x, y float64) bool { return math.Abs(x-y) >= 0.5e-5 }; with.Found != without.Found || with.Lowest != without.Lowest ||
			worth(with.Cost, without.Cost) || worth(with.Bound, without.Bound) || with.Height != without.Height {
			r.Changed = append(r.Changed, Change{with.CorpusRow, without.CorpusRow})
		}
	}
	return nil
}

// earnedText prints a line for each row, and the changes if there is only one.
func earnedText(w io.Writer, rows []EarnedRow) {
	points := func(x float64) string { return fmt.Sprintf("%+.3f", 100*x) }
	table := [][]string{{"without", "plans", "lost", "extra: sum", "most", "least", "bound: most", "CPU s", "placings", "height: sum", "most", "least", "CPU s"}}
	for _, r := range rows {
		line := []string{strings.Join(r.Without, ", "), fmt.Sprint(r.Plans), fmt.Sprint(r.Missing), points(r.Cost.Sum), points(r.Cost.Most), points(r.Cost.Least), points(r.Bound.Most),
			fmt.Sprintf("%+.1f", r.MS/1000), fmt.Sprint(r.Placings), points(r.Height.Sum), points(r.Height.Most), points(r.Height.Least), fmt.Sprintf("%+.1f", r.PackMS/1000)}
		if r.Plans == 0 {
			copy(line[2:8], []string{"", "", "", "", "", ""})
		}
		if r.Placings == 0 {
			copy(line[9:], []string{"", "", "", ""})
		}
		table = append(table, line)
	}
	report.Table(w, "=lrrrrrrrrrrrr", table)
	fmt.Fprintln(w, "Plans and placings are those that the passes took part in. Points of the plain step's cost, and percent of the least height, that are lost without the passes; seconds that are won.")
	if len(rows) != 1 || len(rows[0].Changed) == 0 {
		return
	}
	fmt.Fprintln(w)
	table = [][]string{{"step", "budget", "extra", "without", "bound", "without", "height", "without", "placed by", "without"}}
	extra := func(r CorpusRow) string {
		if r.Nodes == 0 {
			return ""
		}
		if !r.Found {
			return "none"
		}
		return fmt.Sprintf("%.3f", 100*r.Cost)
	}
	bound := func(r CorpusRow) string {
		if !r.Found {
			return ""
		}
		return fmt.Sprintf("%.3f", 100*r.Bound)
	}
	for _, c := range rows[0].Changed {
		x, y := c.With, c.Without
		table = append(table, []string{x.Step, fmt.Sprintf("%d %%", x.Share), extra(x), extra(y), bound(x), bound(y), above(x.Height, x.Least), above(y.Height, y.Least), x.Placer, y.Placer})
	}
	report.Table(w, "=lrrrrrrrll", table)
}
