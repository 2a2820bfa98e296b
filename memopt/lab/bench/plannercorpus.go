package bench

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"memopt/internal/graph"
	"memopt/memopt/lab/corpus"
	"memopt/memopt/report"
	"memopt/planner"
	"memopt/planner/pack"
)

// CorpusRow is the plan of a corpus step at one budget, and the placement of its live ranges.
type CorpusRow struct {
	Step   string  `json:"step"`
	Nodes  int     `json:"nodes"`
	Share  int64   `json:"share"` // between the floor (0) and everything kept (100)
	Limit  int64   `json:"limit"`
	Found  bool    `json:"found"`
	Lowest int64   `json:"lowest,omitempty"` // lowest arena found, if the budget is not met
	Cost   float64 `json:"cost"`             // share of the step's cost
	Bound  float64 `json:"bound"`
	Peak   int64   `json:"peak"`
	Height int64   `json:"height"` // of the placed live ranges
	Least  int64   `json:"least"`  // lower bound of the height
	Choice string  `json:"choice"` // the pass that chose what runs again
	Placer string  `json:"placer"` // the pass that placed the lives
	MS     float64 `json:"cpu_ms"` // of the plan
	PackMS float64 `json:"pack_cpu_ms"`
}

// corpusPlan is a row, its input, and the passes that took part.
type corpusPlan struct {
	CorpusRow
	g      *graph.Graph
	dims   map[string]int64
	ran    map[string]bool // for the plan
	lives  pack.Problem
	placed map[string]bool // ran for the placing
}

// quickShares are the budgets of a quick run.
var quickShares = []int64{50, 15}

// corpus plans the corpus.
func (b *plannerBench) corpus() error {
	plans, err := b.corpusPlans(corpus.Steps())
	for _, p := range plans {
		b.report.Corpus = append(b.report.Corpus, p.CorpusRow)
	}
	return err
}

// corpusPlans makes a plan for each step and budget.
func (b *plannerBench) corpusPlans(steps []corpus.Step) (plans []*corpusPlan, err error) {
	shares := corpus.Shares
	if b.o.Quick {
		shares = quickShares
	}
	for _, s := range steps {
		b.says("%s", s.Name)
		g, err := s.Graph()
		if err != nil {
			return nil, err
		}
		kept, err := planner.Make(g, planner.Request{Dims: s.Dims, Strategy: "keep-all"})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, share := range shares {
			p := &corpusPlan{g: g, dims: s.Dims}
			p.Step, p.Nodes, p.Share, p.Limit = s.Name, len(g.Nodes), share, corpus.Budget(kept.Floor.Peak, kept.Arena, share)
			if err := p.plan(nil); err != nil {
				return nil, fmt.Errorf("%s, %d %%: %w", s.Name, share, err)
			}
			plans = append(plans, p)
		}
	}
	return plans, nil
}

// plan makes the row without some passes, and notes which of the others ran.
func (p *corpusPlan) plan(without []string) error {
	begin := processTime()
	made, err := planner.Make(p.g, planner.Request{Dims: p.dims, ActivationBudget: planner.Size{Bytes: p.Limit}, Without: without})
	p.MS = milliseconds(processTime() - begin)
	p.Found, p.ran = err == nil, map[string]bool{}
	var beyond *planner.BudgetError
	if errors.As(err, &beyond) {
		p.Lowest, p.ran = beyond.Best, nil
		return nil
	}
	if err != nil {
		return err
	}
	p.Cost, p.Bound, p.Peak, p.Choice = made.Result.Overhead, made.Bound.Overhead, made.Result.Peak, made.Search.Choice
	for _, row := range made.Search.Passes {
		p.ran[row.Pass] = true
	}
	p.lives = pack.Problem{}
	for _, l := range made.Picture().Lives { // also of steps that another program places
		p.lives.Buffers = append(p.lives.Buffers, pack.Buffer{First: int32(l.First), Last: int32(l.Last), Size: l.Bytes})
	}
	return p.place(nil)
}

// place places the live ranges without some passes, and notes which of the others ran.
func (p *corpusPlan) place(without []string) error {
	off := map[string]bool{}
	for _, name := range without {
		if pass, ok := strings.CutPrefix(name, packing); ok {
			off[pass] = true
		}
	}
	begin := processTime()
	s, err := pack.Solve(p.lives, pack.Effort{Without: off})
	var beyond *pack.CapacityError
	if err != nil && !errors.As(err, &beyond) {
		return err
	}
	p.Height, p.Least, p.Placer, p.PackMS = s.Height, s.Bound, packing+s.By, milliseconds(processTime()-begin)
	p.placed = map[string]bool{p.Placer: true}
	for _, t := range s.Tries {
		p.placed[packing+t.Pass] = true
	}
	return nil
}

// packing is the prefix of the names of placement passes.
const packing = "pack/"

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// above is a height relative to the lower bound.
func above(height, least int64) string {
	return fmt.Sprintf("%+.3f %%", 100*float64(height-least)/float64(max(least, 1)))
}

// corpusText prints rows as lines, with or without times, which alone differ from run to run.
func corpusText(w io.Writer, rows []CorpusRow, times bool) {
	table := [][]string{{"step", "budget", "extra", "bound", "peak", "height", "chosen by", "placed by"}}
	layout := "=lrrrrrll"
	if times {
		table[0], layout = append(table[0], "plan ms", "place ms"), layout+"rr"
	}
	for i, r := range rows {
		line := []string{r.Step, fmt.Sprintf("%d %%", r.Share), "none", "", "", "", fmt.Sprintf("lowest %s", report.Thousands(r.Lowest)), ""}
		if i > 0 && rows[i-1].Step == r.Step {
			line[0] = ""
		}
		if r.Found {
			line = append(line[:2], fmt.Sprintf("%.3f", 100*r.Cost), fmt.Sprintf("%.3f", 100*r.Bound), report.Thousands(r.Peak),
				above(r.Height, r.Least), r.Choice, r.Placer)
		}
		if times {
			line = append(line, fmt.Sprintf("%.0f", r.MS), fmt.Sprintf("%.0f", r.PackMS))
		}
		table = append(table, line)
	}
	report.Table(w, layout, table)
}
