// Package report prints plans and measurements: the plan table for people, promised beside measured
// memory, and HTML pages.
package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"memopt/internal/bytesize"
	"memopt/planner"
)

// Setting is a non-default setting and its source.
type Setting struct{ Name, Value, Source string }

// maxRows is the number of clusters shown in the table; the JSON has all.
const maxRows = 24

// Plan prints the plan table. Its rows and columns are those of ONNX Runtime; above them are the
// plan's own figures.
func Plan(w io.Writer, p *planner.Plan, model string, settings []Setting) {
	head := [][]string{{"model", fmt.Sprintf("%s: %d nodes, %d of them forward", model, len(p.Graph.Nodes), forward(p))}}
	if len(p.Request.Dims) > 0 {
		head = append(head, []string{"dims", dims(p.Request.Dims)})
	}
	head = append(head, []string{"strategy", strategy(p)})
	if p.Request.Profile != nil && len(p.Request.Costs) == 0 {
		head = append(head, []string{"time", "of " + p.Request.Profile.String()})
	}
	if p.Whole != p.Baseline {
		head = append(head, []string{"form", fmt.Sprintf("differs from the plain step: %s and %s %s with everything kept", Bytes(p.Whole.Peak), Extra(p.FormOverhead(), 2), p.Unit())})
	}
	if text := Tiles(p.Tiles()); text != "" {
		head = append(head, []string{"rows", text})
	}
	for _, s := range settings {
		if s.Name != "dims" {
			head = append(head, []string{"setting", fmt.Sprintf("%s = %s (%s)", s.Name, s.Value, s.Source)})
		}
	}
	Table(w, "lt", head)
	if p.Trains != nil {
		Text(w, 2, "\n%s\n", p.Trains.String())
	}

	totals := [][]string{
		{"", "everything kept", "this plan", "proven minimum"},
		{"peak", Bytes(p.Baseline.Peak), Bytes(p.Result.Peak), Bytes(p.Floor.Peak)},
		{"arena", Bytes(p.Baseline.Arena), Bytes(p.Arena), ""},
		{"kept for backward", Bytes(p.Baseline.Stashed), Bytes(p.Result.Stashed), ""},
	}
	extra := []string{"extra " + p.Unit(), "–", Extra(p.Result.Overhead, 2), ""}
	if p.Result.Again == 0 {
		totals = append(totals, extra)
	} else {
		extra[3] = Extra(p.Bound.Overhead, 2) // the bound for this arena
		totals = append(totals, extra, []string{"above that minimum", "", fmt.Sprintf("%.2f points", 100*p.Bound.Gap), ""})
	}
	if p.Request.Profile != nil && len(p.Request.Costs) == 0 { // nanoseconds
		cost, plain := p.Cost()
		totals = append(totals, []string{"time of a step", Nanoseconds(plain), Nanoseconds(cost), ""})
	}
	totals = append(totals, []string{"nodes run again", "–", fmt.Sprint(p.Result.Again), ""})
	if p.Moved != nil {
		totals = append(totals, []string{"moved to the " + p.Moved.Place, "–", Bytes(p.Moved.Bytes), ""})
	}
	fmt.Fprintln(w)
	Table(w, "=lrrr", totals)
	_, limited := p.Room()
	if text := Offload(p.Moved, limited || p.Request.MaxOverhead > 0, p.Baseline.Peak, p.Result.Peak, p.Result.Overhead); text != "" {
		Text(w, 2, "\n%s\n", text)
	}

	if text := States(p.Streamed()); text != "" {
		Text(w, 2, "\n%s\n", text)
	}

	peak := [][]string{{"peak at", p.Result.PeakNode}}
	if p.Result.PeakFormula != fmt.Sprint(p.Result.Peak) { // without named dims the formula is the number above
		peak = append(peak, []string{"", clip(p.Result.PeakFormula, 300)})
	}
	fmt.Fprintln(w)
	Table(w, "lt", slices.Concat(peak, Largest(p.Dominant, p.Result.Peak), [][]string{
		{"floor at", p.Floor.Node},
	}))

	fmt.Fprintln(w)
	owners := [][]string{{"memory", ""}}
	for _, o := range Owners(p) {
		owners = append(owners, []string{o.Name, Bytes(o.Bytes)})
	}
	Table(w, "=lr", owners)

	if len(p.Clusters) > 0 {
		fmt.Fprintln(w)
		clusters(w, p)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Fprintf(w, "\nplanned in %.1f ms\n", ms(p.Took))
}

// Largest lists the values that take the most of a peak.
func Largest(largest []planner.Holding, peak int64) (rows [][]string) {
	for _, h := range largest {
		why := ""
		if h.Until != "" {
			why = "; the program holds it until " + h.Until
		}
		rows = append(rows, []string{"", fmt.Sprintf("%s %s (%.0f %% of the peak%s)", Bytes(h.Bytes), h.Value, 100*float64(h.Bytes)/float64(max(peak, 1)), why)})
	}
	if len(rows) > 0 {
		rows[0][0] = "largest"
	}
	return rows
}

// strategy is the strategy in use, and whether settings turn on clusters, too.
func strategy(p *planner.Plan) string {
	if p.Request.Level > 0 || len(p.Request.Clusters) > 0 {
		return p.Strategy + ", and the clusters that settings turn on"
	}
	return p.Strategy
}

// Owner is one owner's part of the memory at the peak.
type Owner struct {
	Name  string
	Key   string // in JSON
	Bytes int64
}

// Owners splits the total that budgets bind by owner.
func Owners(p *planner.Plan) []Owner {
	m := p.Memory
	return []Owner{{"parameters and constants", "weights", m.Weights}, {"optimizer states", "optimizer", m.Optimizer},
		{"inputs", "staging", m.Staging}, {"gradients at the peak", "gradients", m.Gradients},
		{"activations and work space", "activations", m.Activations}, {"total", "total", m.Total}}
}

func clusters(w io.Writer, p *planner.Plan) {
	if len(p.Boundaries) > 0 {
		Text(w, 2, "%s\n", clip(fmt.Sprintf("layers begin at %d nodes: %s", len(p.Boundaries), strings.Join(p.Boundaries, ", ")), 300))
	}
	symbolic := saving
	if p.Request.Compat != "" {
		symbolic = func(text string) string { return text } // digit by digit as ONNX Runtime has it
	}
	rows := [][]string{{"", "", "Configs", "Freq", "Max Saving(Bytes)", "Saving Symbolic(Bytes)", "Peak alone", "Peak here", strings.ToUpper(p.Unit()[:1]) + p.Unit()[1:], "Keeps"}}
	for i, r := range p.Clusters {
		if i == maxRows {
			rows = append(rows, []string{"", "", fmt.Sprintf("and %d more (the JSON has all)", len(p.Clusters)-maxRows), "", "", "", "", "", "", ""})
			break
		}
		on := "OFF"
		switch {
		case r.Applied == r.Freq:
			on = "ON"
		case r.Applied > 0:
			on = fmt.Sprintf("ON %d", r.Applied)
		}
		rows = append(rows, []string{fmt.Sprintf(" - Plan %d", i+1), on, clip(r.Key, 60), fmt.Sprint(r.Freq), Thousands(r.Bytes), clip(symbolic(r.Saving), 60),
			fall(r.PeakAlone), fall(r.PeakEffect), Extra(r.Cost, 1), Bytes(r.Keeps)})
	}
	Table(w, "=llnrr3n1r4rrr2", rows)
	for _, r := range p.Clusters[:min(len(p.Clusters), maxRows)] {
		if r.How != "" {
			Text(w, 2, "   %s keeps %s\n", clip(r.Key, 60), clip(r.How, 200))
		}
	}
	selection(w, p)
}

// saving is the formula of a saving, or its bytes if it does not depend on a size.
func saving(formula string) string {
	if bytes, err := strconv.ParseFloat(formula, 64); err == nil {
		return Bytes(int64(bytes))
	}
	return formula
}

// fall is a reduction of the peak, with its sign.
func fall(n int64) string {
	switch {
	case n > 0:
		return "−" + Bytes(n)
	case n < 0:
		return "+" + Bytes(-n)
	}
	return "0 B"
}

// selection summarizes the rows that are on.
func selection(w io.Writer, p *planner.Plan) {
	s := p.Selection
	if s.Rows == 0 {
		return
	}
	way, drop := "falls", s.PeakDrop
	if drop < 0 {
		way, drop = "rises", -drop
	}
	Text(w, 0, "\n%d rows are on: their savings add up to %s bytes (ONNX Runtime would show %s); the peak %s by %s, at %s %s\n",
		s.Rows, Thousands(s.Bytes), Thousands(s.ORTBytes), way, Thousands(drop), Extra(s.Cost, 1), p.Unit())
	if s.Bytes > 0 && s.PeakDrop <= 0 {
		Text(w, 0, "the selection saves stored bytes, but does not lower the peak, where other values are alive\n")
	}
	if s.OtherBoundary == 0 {
		return
	}
	other, here := "without", "on"
	if !p.Request.Boundary {
		other, here = "with", "off"
	}
	more := ""
	if d := s.OtherBoundary - p.Result.Peak; d > 0 {
		more = ", " + Thousands(d) + " more"
	} else if d < 0 {
		more = ", " + Thousands(-d) + " less"
	}
	Text(w, 0, "layer boundaries are %s; %s them the peak of this level would be %s bytes instead of %s%s\n", here, other, Thousands(s.OtherBoundary), Thousands(p.Result.Peak), more)
}

func forward(p *planner.Plan) (n int) {
	for _, node := range p.Graph.Nodes {
		if node.Phase == 0 {
			n++
		}
	}
	return n
}

func dims(m map[string]int64) string {
	var parts []string
	for k, v := range m {
		parts = append(parts, fmt.Sprintf("%s=%d", k, v))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Bytes prints a number of bytes for a table.
func Bytes(n int64) string { return bytesize.Column(n) }

// Extra prints more or less work as a share of a step's, in percent, and never −0.
func Extra(share float64, digits int) string {
	text := fmt.Sprintf("%+.*f %%", digits, 100*share)
	if strings.Trim(text, "-0. %") == "" {
		text = "+" + text[1:]
	}
	return text
}

// Nanoseconds prints a time in the unit that suits it.
func Nanoseconds(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
	return fmt.Sprintf("%.1f µs", ns/1e3)
}

// Thousands prints a number with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
