package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"memopt/planner"
)

// Search prints how a plan was found: the passes that chose what to recompute and placed it, with
// their place in the source; the passes tried for that choice; and the work of all passes over all
// limits and placements.
func Search(w io.Writer, p *planner.Plan) error {
	s, passes := p.Search, planner.Passes()
	find := func(name string) planner.Pass {
		if i := slices.IndexFunc(passes, func(p planner.Pass) bool { return p.Name == name }); i >= 0 {
			return passes[i]
		}
		return planner.Pass{Name: name}
	}
	made := func(what string, pass planner.Pass) {
		Text(w, 11, "%s  %s\n", what, strings.TrimSuffix(pass.Name+": "+pass.Doc, ": "))
		if pass.At != "" {
			fmt.Fprintf(w, "           %s\n", pass.At)
		}
	}
	made("chosen by", find(s.Choice))
	made("placed by", find(s.Placement))
	if len(s.Tries) > 0 {
		// The limit may be below the budget: if an arena of the budget did not suffice, the choice
		// was repeated for less.
		fmt.Fprintf(w, "\nThe choice, for a limit of %s; the plain step takes %s\n", Bytes(s.Tries[0].Limit), Bytes(p.Whole.Peak))
		rows := [][]string{{"pass", "extra", "at least", "peak", "", "ms", "source"}}
		for _, t := range s.Tries {
			row := []string{t.Pass, "–", percent(t.Bound), "", "", milliseconds(t.Time), find(t.Pass).At}
			if !math.IsInf(t.Cost, 1) {
				row[1] = percent(t.Cost)
			}
			if t.Took {
				row[3], row[4] = Bytes(t.Peak), "took"
			}
			rows = append(rows, row)
		}
		Table(w, "=lrrrlrl1", rows)
	}
	if len(s.Passes) > 0 {
		fmt.Fprintf(w, "\nAll limits and placings together\n")
		rows := [][]string{{"pass", "ran", "won", "ms", "what it does"}}
		for _, r := range s.Passes {
			rows = append(rows, []string{r.Pass, fmt.Sprint(r.Ran), fmt.Sprint(r.Won), milliseconds(r.Time), find(r.Pass).Doc})
		}
		Table(w, "=lrrrt", rows)
	}
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.3f %%", 100*share) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1000) }
