package bench

import (
	"fmt"
	"io"

	"memopt/memopt/report"
)

// Text writes the report as tables for people.
func (r *PlannerReport) Text(w io.Writer) {
	plans := func(title string, rows []PlannerRow) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintln(w, title)
		table := [][]string{{"model", "nodes", "way", "peak", "of all kept", "extra", "gap", "ms", "CPU ms", "heap", "bar", "", ""}}
		for i, row := range rows {
			line := []string{row.Model, report.Thousands(int64(row.Nodes)), row.Way, report.Bytes(row.Peak), fmt.Sprintf("%.1f %%", 100*row.Share), report.Extra(row.Overhead, 2), "–"}
			line = append(append(line, row.columns()...), row.Note)
			if i > 0 && rows[i-1].Model == row.Model && rows[i-1].Nodes == row.Nodes {
				line[0], line[1] = "", ""
			}
			if row.Gap >= 0 {
				line[6] = fmt.Sprintf("%.2f", 100*row.Gap)
			}
			if row.Note != "" {
				line[3], line[4], line[5] = "–", "–", "–"
			}
			table = append(table, line)
		}
		report.Table(w, "lrlrrrrrrrlll", table)
		fmt.Fprintln(w)
	}
	plans("Five training steps (AdamW); the gap is the distance to the proven bound, in points", r.Models)
	plans("Long programs under half their arena", r.Scale)
	if len(r.Whole) > 0 {
		wholeText(w, r.Whole)
	}
	if len(r.Questions) > 0 {
		fmt.Fprintln(w, "Questions that take many plans to answer")
		table := [][]string{{"model", "nodes", "question", "answer", "ms", "CPU ms", "heap", "bar", ""}}
		for _, row := range r.Questions {
			table = append(table, append([]string{row.Model, report.Thousands(int64(row.Nodes)), row.Question, row.Answer}, row.columns()...))
		}
		report.Table(w, "lrllrrrll", table)
		fmt.Fprintln(w)
	}
	if len(r.Elsewhere) > 0 {
		fmt.Fprintln(w)
		elsewhereText(w, r.Elsewhere)
	}
	if len(r.Corpus) > 0 {
		fmt.Fprintln(w, "The corpus: recorded steps and the zoo's, budgets between their floor (0 %) and everything kept (100 %)")
		corpusText(w, r.Corpus, true)
		fmt.Fprintln(w)
	}
	if len(r.Earned) > 0 {
		fmt.Fprintln(w, "What passes earn on the corpus")
		earnedText(w, r.Earned)
		return
	}
	plans("Recorded graphs", r.Joint)
	packs := func(title string, rows []PackRow, together *Clock) {
		if len(rows) == 0 {
			return
		}
		table := [][]string{{title, "buffers", "capacity", "height", "bound", "above", "placed by", "ms", "CPU ms", "heap", "bar", ""}}
		for _, row := range rows {
			line := []string{row.Problem, report.Thousands(int64(row.Buffers)), "–", report.Thousands(row.Height), report.Thousands(row.Bound),
				above(row.Height, row.Bound), row.By}
			if row.Capacity > 0 {
				line[2] = report.Thousands(row.Capacity)
			}
			table = append(table, append(line, row.columns()...))
		}
		if together != nil {
			table = append(table, append([]string{"those with a capacity", "", "", "", "", "", ""}, together.columns()...))
		}
		report.Table(w, "lrrrrrlrrrll", table)
		fmt.Fprintln(w)
	}
	packs("packings of others", r.Packing, &r.Together)
	packs("packing", r.Pack, nil)
	fmt.Fprintln(w, "The quickest rounds count. A bar is of the lesser of wall and CPU time: a machine that does nothing else takes no more than either.")
}

// PlannerFile is the report as JSON: rows as of any bench, and all details.
type PlannerFile struct {
	File
	Planner *PlannerReport `json:"planner"`
}

// File converts the report.
func (r *PlannerReport) File(h Head) PlannerFile {
	f := PlannerFile{(&Report{}).File(h), r}
	add := func(group, name, unit string, c Clock) {
		s := FileSide{"memopt", c.MS / 1000, c.CPUMS / 1000, c.MS / 1000}
		clock := "wall"
		if c.CPUMS < c.MS {
			clock = "cpu"
		}
		f.Rows = append(f.Rows, FileRow{Group: group, Case: name, Threads: h.Machine.Cores, Work: 1, Unit: unit, Clock: clock, Ours: s, Bar: FileBar{MS: c.BarMS}, Met: c.Met})
	}
	for _, plans := range []struct {
		group string
		rows  []PlannerRow
	}{{"models", r.Models}, {"scale", r.Scale}, {"files", r.Joint}} {
		for _, row := range plans.rows {
			add(plans.group, fmt.Sprintf("%s, %d nodes, %s", row.Model, row.Nodes, row.Way), "plan", row.Clock)
		}
	}
	for _, row := range r.Whole {
		add("plan", fmt.Sprintf("gpt, %d nodes", row.Nodes), "command", row.Clock)
	}
	for _, row := range r.Questions {
		add("questions", fmt.Sprintf("%s, %d nodes, %s", row.Model, row.Nodes, row.Question), "answer", row.Clock)
	}
	for _, row := range r.Packing {
		add("packing", row.Problem, "packing", row.Clock)
	}
	for _, row := range r.Pack {
		add("files", row.Problem, "packing", row.Clock)
	}
	return f
}
