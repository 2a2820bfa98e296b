package report

import (
	"fmt"
	"io"

	"memopt/internal/schedule"
	"memopt/planner"
)

// Line is a promised figure and its measurement.
type Line struct {
	Name               string
	Space              string // of the device, as JSON calls it; "" for the total
	Promised, Measured int64
	// Most: the promise is an upper bound; 0 then means no promise.
	Most bool
}

// Anonymous is the line of the process's anonymous memory.
func Anonymous(promised, measured int64) Line {
	return Line{Name: "anonymous memory", Promised: promised, Measured: measured, Most: true}
}

// Lines compares the memory promised by a plan, which budgets bind, with the memory that a device
// used. On our own devices the two are equal.
func Lines(p *planner.Plan, t schedule.Trace) []Line {
	m := p.Memory
	lines := []Line{
		{Name: "arena", Space: "arena", Promised: p.Arena, Measured: t.Arena},
		{Name: "parameters and states", Space: "state", Promised: m.Weights + m.Optimizer, Measured: t.State},
		{Name: "inputs", Space: "staging", Promised: m.Staging, Measured: t.Staging},
		{Name: "total", Space: "", Promised: m.Total, Measured: t.Arena + t.State + t.Staging},
	}
	if p.Moved != nil { // beside the total, which budgets bind
		lines = append(lines, Line{Name: "on the " + p.Moved.Place, Space: p.Moved.Place, Promised: p.Moved.Peak, Measured: t.Moved.Far})
	}
	if s := p.Streamed(); s != nil && s.Bytes > 0 {
		lines = append(lines, Line{Name: "states on the " + s.Place, Space: "states", Promised: s.Bytes, Measured: t.Streamed.Far})
	}
	return lines
}

// Workspace prints the device's own work space, if any. It does not grow with the model, so budgets
// do not include it.
func Workspace(w io.Writer, t schedule.Trace) {
	if t.Workspace > 0 {
		Text(w, 2, "work space of the device, which budgets do not include: %s bytes\n", Thousands(t.Workspace))
	}
}

// Measured prints promised and measured memory.
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
