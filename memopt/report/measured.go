package report

import (
	"fmt"
	"io"

	"memopt/planner"
)

// Line is one promise beside its measurement.
type Line struct {
	Name               string
	Space              string // of the device, as JSON calls it; "" for the total
	Promised, Measured int64
}

// Lines compares what a plan promises, which is what budgets bind, with what a
// device used. Equal is the promise on our own devices.
func Lines(p *planner.Plan, t planner.Trace) []Line {
	m := p.Memory
	return []Line{
		{"arena", "arena", p.Arena, t.Arena},
		{"parameters and states", "state", m.Weights + m.Optimizer, t.State},
		{"inputs", "staging", m.Staging, t.Staging},
		{"total", "", m.Total, t.Arena + t.State + t.Staging},
	}
}

// Workspace writes what a device worked in beside its spaces, if anything. It
// does not grow with the model: budgets leave it out.
func Workspace(w io.Writer, t planner.Trace) {
	if t.Workspace > 0 {
		fmt.Fprintf(w, "beside these, the device works in %s bytes\n", Thousands(t.Workspace))
	}
}

// Measured writes promised beside measured.
func Measured(w io.Writer, lines []Line) {
	rows := [][]string{{"bytes", "promised", "measured", ""}}
	for _, l := range lines {
		rows = append(rows, []string{l.Name, Thousands(l.Promised), Thousands(l.Measured), verdict(l)})
	}
	Table(w, "lrrl", rows)
}

func verdict(l Line) string {
	if l.Promised == l.Measured {
		return "equal"
	}
	return fmt.Sprintf("%+d bytes", l.Measured-l.Promised)
}
