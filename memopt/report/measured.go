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
	// Most says that the promise is a bound, which is met from below; 0 promises nothing.
	Most bool
}

// Anonymous is the line of what the operating system counts.
func Anonymous(promised, measured int64) Line {
	return Line{Name: "anonymous memory", Promised: promised, Measured: measured, Most: true}
}

// Lines compares what a plan promises, which is what budgets bind, with what a
// device used. Equal is the promise on our own devices.
func Lines(p *planner.Plan, t planner.Trace) []Line {
	m := p.Memory
	return []Line{
		{Name: "arena", Space: "arena", Promised: p.Arena, Measured: t.Arena},
		{Name: "parameters and states", Space: "state", Promised: m.Weights + m.Optimizer, Measured: t.State},
		{Name: "inputs", Space: "staging", Promised: m.Staging, Measured: t.Staging},
		{Name: "total", Space: "", Promised: m.Total, Measured: t.Arena + t.State + t.Staging},
	}
}

// Workspace writes what a device worked in beside its spaces, if anything. It
// does not grow with the model: budgets leave it out.
func Workspace(w io.Writer, t planner.Trace) {
	if t.Workspace > 0 {
		Text(w, 2, "work space of the device, which no budget counts: %s bytes\n", Thousands(t.Workspace))
	}
}

// Measured writes promised beside measured.
func Measured(w io.Writer, lines []Line) {
	rows := [][]string{{"bytes", "promised", "measured", ""}}
	for _, l := range lines {
		promised := Thousands(l.Promised)
		if l.Most {
			promised = "≤ " + promised
			if l.Promised == 0 {
				promised = ""
			}
		}
		rows = append(rows, []string{l.Name, promised, Thousands(l.Measured), verdict(l)})
	}
	Table(w, "=lrrt", rows)
}

func verdict(l Line) string {
	switch {
	case l.Most && l.Promised == 0:
		return "with the driver's own"
	case l.Most && l.Measured <= l.Promised:
		return "as the system counts it"
	case l.Promised == l.Measured:
		return "equal"
	}
	return fmt.Sprintf("%+d bytes", l.Measured-l.Promised)
}
