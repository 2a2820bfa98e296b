package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"memopt/planner"
)

// Line is one promise beside its measurement.
type Line struct {
	Name               string
	Promised, Measured int64
}

// Lines compares a plan's spaces with what a device used. Equal is the
// promise on our own devices.
func Lines(p *planner.Plan, s *planner.Schedule, t planner.Trace) []Line {
	return []Line{
		{"arena", p.Arena, t.Arena},
		{"parameters and states", s.State, t.State},
		{"inputs", s.Staging, t.Staging},
		{"total", p.Arena + s.State + s.Staging, t.Arena + t.State + t.Staging},
	}
}

// Measured writes promised beside measured.
func Measured(w io.Writer, lines []Line) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tpromised\tmeasured\t\t")
	for _, l := range lines {
		verdict := "equal"
		if l.Promised != l.Measured {
			verdict = fmt.Sprintf("%+d bytes", l.Measured-l.Promised)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t\n", l.Name, Thousands(l.Promised), Thousands(l.Measured), verdict)
	}
	t.Flush()
}
