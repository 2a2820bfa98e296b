package step

import (
	"fmt"
	"io"
	"strings"

	"memopt/internal/visible"
	"memopt/planner"
	"memopt/planner/cluster"
)

// Summary writes what ONNX Runtime logs about a trainer's program: the line of its memory optimizer and, for levels
// below "warn", its plans and notes; for levels "devinfo" and "debug" also the report by node.
func (m *Model) Summary(w io.Writer, p *planner.Plan, level string) error {
	if p.Analysis == nil {
		return nil
	}
	a := p.Analysis
	asked := p.Request.Clusters
	lines, err := a.Table(asked, m.sizes())
	if err != nil {
		return err
	}
	if m.Config.Level > 0 {
		level := cluster.Level(cluster.KeysOf(lines), m.Config.Level)
		if m.Config.Compat != "" {
			asked = nil // a level replaces the requests
		}
		asked = append(level, asked...)
		if lines, err = a.Table(asked, m.sizes()); err != nil {
			return err
		}
	}
	quiet := level != "info" && level != "devinfo" && level != "debug"
	h := cluster.Heading{On: m.Config.Level > 0 || len(m.Config.Requests) > 0, Level: m.Config.Level, Path: m.planFile()}
	shown := lines
	if quiet {
		shown = nil
	}
	if err := cluster.PrintTable(w, h, shown); err != nil {
		return err
	}
	if quiet || len(lines) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := cluster.PrintNotes(w, a.Outline, m.sizes()); err != nil {
		return err
	}
	if err := m.printPeaks(w, p); err != nil {
		return err
	}
	if level == "info" {
		return nil
	}
	_, err = fmt.Fprintf(w, "\n%s", a.Report(asked, h.Path))
	return err
}

// printPeaks adds peaks, which ONNX Runtime's table does not have: of the program as it is, with the requested
// recomputation, and at the same level with the other setting of boundary, all executed in ONNX Runtime's order.
func (m *Model) printPeaks(w io.Writer, p *planner.Plan) error {
	before, err := m.simulate(p.Analysis, nil)
	if err != nil {
		return err
	}
	visible.Fprintf(w, "\nPeak in ONNX Runtime's order, each value in a place of its own:\n  everything kept    %s\n", before)
	if len(p.Asked) == 0 {
		return nil
	}
	after, err := m.simulate(p.Analysis, p.Asked)
	if err != nil {
		return err
	}
	visible.Fprintf(w, "  with what is ON    %s\n", after)
	if m.Config.Level == 0 {
		return nil
	}
	rules, way := p.Analysis.Rules, "without layers"
	if !rules.Boundary {
		way = "with layers"
	}
	rules.Boundary = !rules.Boundary
	a, err := cluster.Analyse(p.Analysis.Outline, rules)
	if err != nil {
		return err
	}
	lines, err := a.Table(nil, m.sizes())
	if err != nil {
		return err
	}
	other, err := m.simulate(a, a.Choose(cluster.Level(cluster.KeysOf(lines), m.Config.Level)).Choices)
	if err != nil {
		return err
	}
	more := other.lives.Peak - after.lives.Peak
	compared := "more"
	if more < 0 {
		more, compared = -more, "less"
	}
	_, err = visible.Fprintf(w, "  %-18s %s: %d %s\n", way, other, more, compared)
	return err
}

// simulated is a program's memory with some recomputation, and the node at its peak.
type simulated struct {
	lives cluster.Lives
	at    string
}

func (r simulated) String() string {
	if r.lives.At < 0 {
		return "nothing runs"
	}
	told := fmt.Sprintf("%d bytes at %s", r.lives.Peak, r.at)
	if r.lives.Border {
		told += fmt.Sprintf(", %d kept for the backward pass", r.lives.Stored)
	}
	return told
}

func (m *Model) simulate(a *cluster.Analysis, choices []cluster.Choice) (r simulated, err error) {
	o := cluster.Rewrite(a, choices, 0)
	order, err := cluster.MemoryEfficientOrder(o)
	if err != nil {
		return r, err
	}
	if r.lives, err = cluster.Simulate(o, order, m.sizes()); err == nil && r.lives.At >= 0 {
		r.at = o.Nodes[r.lives.At].Name
	}
	return r, err
}

// planFile is the file that requested the clusters; "" if a level did.
func (m *Model) planFile() string {
	from, ok := m.Config.Source("config")
	switch {
	case m.Config.Level > 0 || !ok:
		return ""
	case from.Pos.File != "" && from.Pos.File != from.Name && !strings.HasPrefix(from.Pos.File, "--"):
		return from.Pos.File
	}
	text, _ := m.Config.Given("config") // the setting's text, as before version 1.19
	return text
}

// sizes are the sizes of all dim names in the file. The graph has one name for dims that must be equal; the file's
// other names for them get the same size.
func (m *Model) sizes() map[string]int64 {
	sizes := map[string]int64{}
	for name, n := range m.Config.Dims {
		sizes[name] = n
	}
	for range m.Graph.Assumed {
		for _, e := range m.Graph.Assumed {
			a, b := e.A.Names(), e.B.Names()
			if len(a) != 1 || len(b) != 1 || e.A.String() != a[0] || e.B.String() != b[0] {
				continue
			}
			for _, pair := range [][2]string{{a[0], b[0]}, {b[0], a[0]}} {
				if n, ok := sizes[pair[0]]; ok && sizes[pair[1]] == 0 {
					sizes[pair[1]] = n
				}
			}
		}
	}
	return sizes
}
