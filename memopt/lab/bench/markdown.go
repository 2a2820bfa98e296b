package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"memopt/memopt/report"
)

// AnyFile is any bench's file.
type AnyFile struct {
	File
	Planner *PlannerReport `json:"planner,omitempty"`
	Torch   *TorchReport   `json:"torch,omitempty"`
}

// Markdown writes JSON files of several runs as the tables of docs/measurements.md: the machines,
// then each case with its range over all runs.
func Markdown(w io.Writer, files []AnyFile) {
	fmt.Fprint(w, "## Runs\n\n| runs | date | machine | command | peers |\n|---|---|---|---|---|\n")
	seen := map[string]int{}
	var lines []string
	for _, f := range files {
		m := f.Machine
		var peers []string
		for _, p := range f.Peers {
			peers = append(peers, strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Name, p.Version, p.Kernels)))
		}
		date, _, _ := strings.Cut(f.Date, "T")
		line := fmt.Sprintf("%s | %s, %s, %d cores, %s | `%s` | %s |", date, m.Processor, m.Model, m.Cores, m.Go, f.Command, strings.Join(peers, "; "))
		if seen[line]++; seen[line] == 1 {
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		fmt.Fprintf(w, "| %d | %s\n", seen[line], line)
	}
	var order []string
	groups := map[string][]*spread{}
	for _, f := range files {
		for _, row := range f.Rows {
			if f.Planner != nil && row.Unit == "plan" && row.Group != "scale" {
				continue // shown by planTable
			}
			group := f.Bench + ", " + row.Group
			if groups[group] == nil {
				order = append(order, group)
			}
			name, rival := strings.ReplaceAll(row.Case, "|", `\|`), ""
			if row.Rival != nil {
				rival = row.Rival.Name
			}
			i := slices.IndexFunc(groups[group], func(s *spread) bool { return s.name == name && s.rival == rival && s.threads == row.Threads })
			if i < 0 {
				i = len(groups[group])
				groups[group] = append(groups[group], &spread{name: name, rival: rival, threads: row.Threads})
			}
			groups[group][i].add(row)
		}
	}
	for _, group := range order {
		fmt.Fprintf(w, "\n## %s\n\n| case | threads | time | beside | ratio | bar |\n|---|---|---|---|---|---|\n", group)
		for _, s := range groups[group] {
			fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %s |\n", s.name, s.threads, s.time(), s.rival, s.ratio(), s.bar)
		}
	}
	var models []TorchModel
	for _, f := range files {
		if f.Planner != nil && len(f.Planner.Models)+len(f.Planner.Joint) > 0 {
			planTable(w, f)
		}
		if f.Planner != nil && len(f.Planner.Elsewhere) > 0 {
			elsewhereTable(w, f)
		}
		if f.Torch != nil {
			models = append(models, f.Torch.Models...)
		}
	}
	torchTables(w, models)
}

// planTable is the plans of one run, which are the same on every machine.
func planTable(w io.Writer, f AnyFile) {
	fmt.Fprint(w, "\n## planner, plans\n\n| model | way | peak | extra compute | above the proven bound | time of one core |\n|---|---|---|---|---|---|\n")
	for _, r := range slices.Concat(f.Planner.Models, f.Planner.Joint) {
		extra, gap := report.Extra(r.Overhead, 2), "–"
		if r.Gap >= 0 {
			gap = fmt.Sprintf("%.2f points", 100*r.Gap)
		}
		if r.Note != "" {
			gap = r.Note
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %.3g ms |\n", r.Model, strings.ReplaceAll(r.Way, "|", `\|`), report.Bytes(r.Peak), extra, gap, r.CPUMS)
	}
}

// spread is the range of one case over several runs.
type spread struct {
	name, rival, of, bar string
	threads              int
	times, ratios        []float64
}

func (s *spread) add(row FileRow) {
	t := row.Ours.Wall
	if row.Clock == "cpu" {
		t = row.Ours.CPU
	}
	s.times = append(s.times, t)
	if row.Rival != nil {
		s.of = row.RatioOf
		s.ratios = append(s.ratios, row.Ratio)
	}
	switch b := row.Bar; {
	case b.Speed > 0:
		s.bar = fmt.Sprintf("≥ %.3g × its speed", b.Speed)
	case b.Time > 0:
		s.bar = fmt.Sprintf("≤ %.3g × its time", b.Time)
	case b.MS > 0:
		s.bar = fmt.Sprintf("≤ %.4g ms", b.MS)
	}
}

func (s *spread) time() string {
	lo, hi := slices.Min(s.times), slices.Max(s.times)
	unit, scale := "s", 1.0
	switch {
	case lo < 1e-3:
		unit, scale = "µs", 1e6
	case lo < 1:
		unit, scale = "ms", 1e3
	}
	return span(lo*scale, hi*scale) + " " + unit
}

func (s *spread) ratio() string {
	if len(s.ratios) == 0 {
		return ""
	}
	return span(slices.Min(s.ratios), slices.Max(s.ratios)) + " × its " + s.of
}

// span prints a range, or one number if both ends print alike.
func span(lo, hi float64) string {
	a, b := digits(lo), digits(hi)
	if a == b {
		return a
	}
	return a + "–" + b
}

// digits prints a number with three significant digits.
func digits(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
