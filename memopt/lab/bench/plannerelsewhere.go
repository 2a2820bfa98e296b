package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/memopt/lab/corpus"
	"memopt/memopt/report"
	"memopt/planner"
	"memopt/planner/profile"
)

// ElsewhereRow is the plans of a corpus step at one budget on an H200: alone, and with a host that copies reach.
type ElsewhereRow struct {
	Step  string  `json:"step"`
	Share float64 `json:"share"` // of the arena with everything kept, percent
	Rate  float64 `json:"bytes_per_ns"`
	// Alone and Moved are extra costs, −1 where no plan fits; Bound is what no plan with moves costs less than.
	Alone   float64 `json:"alone"`
	Moved   float64 `json:"moved"`
	Bound   float64 `json:"bound"`
	Bytes   int64   `json:"bytes"` // that are moved
	AloneMS float64 `json:"alone_cpu_ms"`
	MovedMS float64 `json:"moved_cpu_ms"`
}

var (
	elsewhereRates  = []float64{8, 25, 50} // bytes a nanosecond each way
	elsewhereShares = []float64{80, 60, 45, 30}
)

// elsewhere plans the corpus with a place on the host.
func (b *plannerBench) elsewhere() error {
	shares, rates := elsewhereShares, elsewhereRates
	if b.o.Quick {
		shares, rates = shares[1:2], rates[1:2]
	}
	for _, s := range corpus.Steps() {
		b.says("%s", s.Name)
		g, err := s.Graph()
		if err != nil {
			return err
		}
		for _, rate := range rates {
			prices, err := profile.For("h200")
			if err != nil {
				return err
			}
			prices.Copies = map[string]profile.Copies{profile.Host: {Delay: 10000, Out: rate, In: rate}}
			for _, share := range shares {
				row := ElsewhereRow{Step: s.Name, Share: share, Rate: rate, Alone: -1, Moved: -1}
				r := planner.Request{Dims: s.Dims, Profile: prices, ActivationBudget: planner.Size{Percent: share}}
				for _, to := range []struct {
					elsewhere *planner.Elsewhere
					cost, ms  *float64
				}{{nil, &row.Alone, &row.AloneMS}, {&planner.Elsewhere{Place: profile.Host}, &row.Moved, &row.MovedMS}} {
					r.Elsewhere = to.elsewhere
					begin := processTime()
					p, err := planner.Make(g, r)
					*to.ms = milliseconds(processTime() - begin)
					var beyond *planner.BudgetError
					if errors.As(err, &beyond) {
						continue
					}
					if err != nil {
						return fmt.Errorf("%s, %g %%: %w", s.Name, share, err)
					}
					if *to.cost = p.Result.Overhead; p.Moved != nil {
						row.Bound, row.Bytes = p.Bound.Overhead, p.Moved.Bytes
					}
				}
				b.report.Elsewhere = append(b.report.Elsewhere, row)
			}
		}
	}
	return nil
}

// elsewhereText prints the rows, and sums them up.
func elsewhereText(w io.Writer, rows []ElsewhereRow) {
	extra := func(share float64) string {
		if share < 0 {
			return "none fits"
		}
		return report.Extra(share, 2)
	}
	table := [][]string{{"step", "GB/s", "arena", "alone", "with moves", "bound", "moved", "ms alone", "ms"}}
	for _, r := range rows {
		table = append(table, []string{r.Step, fmt.Sprint(r.Rate), fmt.Sprintf("%g %%", r.Share), extra(r.Alone), extra(r.Moved), extra(r.Bound), report.Bytes(r.Bytes), fmt.Sprintf("%.0f", r.AloneMS), fmt.Sprintf("%.0f", r.MovedMS)})
	}
	s := sumElsewhere(rows)
	report.Table(w, "=lrrrrrrrr", table)
	report.Text(w, 2, "\ndearer than alone: %d of %d; below 60 %%, cheaper: %d of %d; within 2 points of the bound: %d of %d; planning takes %.1f × the time\n",
		s.dearer, len(rows), s.cheaper, s.below, s.near, s.found, s.moved/max(s.alone, 1))
}

// elsewhereTable is the rows as a table of a page: a line for each step and height of the arena.
func elsewhereTable(w io.Writer, f AnyFile) {
	rows := f.Planner.Elsewhere
	var rates []float64
	for _, r := range rows {
		if !slices.Contains(rates, r.Rate) {
			rates = append(rates, r.Rate)
		}
	}
	fmt.Fprint(w, "\n## planner, values moved to the host\n\nExtra time of plans for an H200, alone and with values moved at so many GB/s each way; in parentheses what no such plan goes below.\n\n| step | arena | alone |")
	for _, rate := range rates {
		fmt.Fprintf(w, " %g GB/s |", rate)
	}
	fmt.Fprintf(w, "\n|---|---|---|%s\n", strings.Repeat("---|", len(rates)))
	extra := func(share float64) string {
		if share < 0 {
			return "–"
		}
		return report.Extra(share, 2)
	}
	for i, r := range rows {
		if r.Rate != rates[0] {
			continue
		}
		fmt.Fprintf(w, "| %s | %g %% | %s |", r.Step, r.Share, extra(r.Alone))
		for _, rate := range rates {
			j := slices.IndexFunc(rows[i:], func(x ElsewhereRow) bool { return x.Step == r.Step && x.Share == r.Share && x.Rate == rate })
			cell := "–"
			if x := rows[i+j]; j >= 0 && x.Moved >= 0 {
				cell = fmt.Sprintf("%s (%s)", extra(x.Moved), extra(x.Bound))
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
	s := sumElsewhere(rows)
	fmt.Fprintf(w, "\nDearer than alone: %d of %d. Below 60 %%, cheaper: %d of %d. Within 2 points of the bound: %d of %d. Planning takes %.1f × the time.\n",
		s.dearer, len(rows), s.cheaper, s.below, s.near, s.found, s.moved/max(s.alone, 1))
}

// elsewhereSums are what rows come to.
type elsewhereSums struct {
	dearer, cheaper, below, near, found int
	alone, moved                        float64 // ms
}

func sumElsewhere(rows []ElsewhereRow) (s elsewhereSums) {
	for _, r := range rows {
		s.alone, s.moved = s.alone+r.AloneMS, s.moved+r.MovedMS
		better := r.Moved >= 0 && (r.Alone < 0 || r.Moved < r.Alone-1e-9)
		if r.Alone >= 0 && (r.Moved < 0 || r.Moved > r.Alone+1e-9) {
			s.dearer++
		}
		if r.Share < 60 && (r.Alone >= 0 || r.Moved >= 0) {
			if s.below++; better {
				s.cheaper++
			}
		}
		if r.Moved >= 0 {
			if s.found++; r.Moved <= r.Bound+0.02 {
				s.near++
			}
		}
	}
	return s
}
