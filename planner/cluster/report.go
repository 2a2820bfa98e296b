package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"memopt/internal/visible"
)

// row is a block of the node-level report: entries with equal options.
type row struct {
	key     string
	options []*Option
	freq    int
	reused  []map[int]int // by option and output: number of entries whose output is a view of another buffer
}

// Report is ONNX Runtime's node-level report: for every kind of entry the savings of its options,
// and how the requests in the file at path were met. All stashed outputs of an entry are listed in
// ascending order; ONNX Runtime lists them in any order, and so may list one kind of entry several
// times. Applied counts are the places that are recomputed; under Compat, the places that the
// request matched.
func (a *Analysis) Report(requests []Request, path string) string {
	rows := a.nodeRows()
	const title = " Memory Optimization Opportunities (Clustered by node-level activation patterns)"
	const head = "For each row options are mutually exclusive, only one of them can be enabled."
	blocks := make([][]string, len(rows))
	wide := len(title)
	status := a.statuses(requests)
	for i, r := range rows {
		lines := []string{head}
		for k, o := range r.options {
			what := "Recompute"
			if o.Type == Compromise {
				what = "RecomputeWithCompromise"
			}
			lines = append(lines, "",
				field(fmt.Sprintf(">>Option %d", k+1), what+" subgraph "+a.ID(o)),
				field("  Status", status[Part{a.ID(o), o.Type}]),
				"  Stashed Activations:")
			lines = append(lines, r.outputs(k)...)
		}
		blocks[i] = lines
		for _, l := range lines {
			wide = max(wide, len(l))
		}
	}
	wide++
	wide += 1 - wide%2
	var sb strings.Builder
	if path == "" {
		path = "not provided"
	}
	border := strings.Repeat("=", wide+10) + "\n"
	between := "|_ _ _ _|" + strings.Repeat("_ ", wide/2) + "_|\n"
	visible.Fprintf(&sb, "MemoryInsight Summary - User config file path: %s\n%s|Freq   |%-*s|\n%s", path, visible.Lines(border), wide, title, visible.Lines(between))
	for i, lines := range blocks {
		freq := fmt.Sprint(rows[i].freq)
		for _, l := range lines {
			visible.Fprintf(&sb, "|%-7s|%-*s|\n", freq, wide, l)
			freq = ""
		}
		sb.WriteString(between)
	}
	sb.WriteString(border + "Note: use comma as a separator for enabling more than one subgraphs.\n")
	return sb.String()
}

func field(title, text string) string { return fmt.Sprintf("%-15s: %s", title, text) }

// outputs is the lines about the outputs of option k.
func (r *row) outputs(k int) (lines []string) {
	o := r.options[k]
	var reused strings.Builder
	for _, s := range o.Outputs {
		if n := r.reused[k][s.Index]; n > 0 {
			fmt.Fprintf(&reused, " Output %d(%d),", s.Index, n)
		}
	}
	if reused.Len() > 0 {
		lines = append(lines, field("   - ReuseFreq", reused.String()))
	}
	for _, s := range o.Outputs {
		lines = append(lines, field(fmt.Sprintf("   - Output %d", s.Index),
			fmt.Sprintf("[%s], byte/elem: %d, %d%% saved", s.Shape, s.Type.Size(), int(o.Ratio*100))))
	}
	return lines
}

// nodeRows groups entries by kind: by falling frequency, then by falling key.
func (a *Analysis) nodeRows() []*row {
	byKey := map[string]*row{}
	var rows []*row
	for p := range a.Plans {
		plan := &a.Plans[p]
		var key strings.Builder
		for k := range plan.Options {
			o := &plan.Options[k]
			fmt.Fprintf(&key, "recompute:%s-%d-", a.Outline.Nodes[plan.Entry].Op, o.Type-Full)
			for _, s := range o.Outputs {
				fmt.Fprintf(&key, "%d:%s:%d-", s.Index, s.Shape, s.Type)
			}
			key.WriteString(a.ID(o))
		}
		r := byKey[key.String()]
		if r == nil {
			r = &row{key: key.String()}
			for k := range plan.Options {
				r.options = append(r.options, &plan.Options[k])
				r.reused = append(r.reused, map[int]int{})
			}
			byKey[r.key] = r
			rows = append(rows, r)
		}
		r.freq++
		for k := range plan.Options {
			for _, s := range plan.Options[k].Outputs {
				if s.Shows {
					r.reused[k][s.Index]++
				}
			}
		}
	}
	slices.SortFunc(rows, func(x, y *row) int {
		return cmp.Or(cmp.Compare(y.freq, x.freq), strings.Compare(y.key, x.key))
	})
	return rows
}

// statuses is the status line of every plan.
func (a *Analysis) statuses(requests []Request) map[Part]string {
	status := map[Part]string{}
	for _, kind := range []int{Full, Compromise} {
		a.each(kind, func(_ Choice, o *Option) { status[Part{a.ID(o), kind}] = "Disabled." })
	}
	chosen := a.Choose(requests)
	for i, r := range requests {
		t := chosen.Tallies[i]
		if r.Type == 0 || r.Count == 0 || t.Matched == 0 {
			continue
		}
		places, _ := a.Match(r.ID, r.Type)
		n := t.Applied
		if a.Rules.compat() {
			n = t.Matched
		}
		for _, c := range places {
			o := a.Option(c)
			if a.Rules.compat() && a.ID(o) != r.ID {
				continue
			}
			status[Part{a.ID(o), o.Type}] = fmt.Sprintf("Enabled, requested count=%d, actual applied count=%d", r.Count, n)
		}
	}
	return status
}
