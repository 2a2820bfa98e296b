package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"memopt/internal/loader"
	"memopt/memopt/phases"
	"memopt/memopt/report"
)

// phasesFlag requests the table of phases.
func phasesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "phases", Usage: "show what each phase takes, from the start of the process to its end: device memory by owner and the process as the system counts it, promised beside measured"}
}

// phasesFile is the table of phases in a command's JSON, and the division of the run's memory; it is empty if not
// requested.
type phasesFile struct {
	Phases []loader.Phase `json:"phases,omitempty"`
	Parts  *phaseParts    `json:"phase_parts,omitempty"`
}

type phaseParts struct {
	phases.Parts
	Unified bool   `json:"unified"`
	Rule    string `json:"rule"`
}

func phasesJSON(t *phases.Table) (f phasesFile) {
	if t != nil {
		f.Phases, f.Parts = t.Rows, &phaseParts{t.Parts, t.Unified, t.Rule}
	}
	return f
}

// phasesText writes the table of phases, if there is one, and the division of the run's memory.
func phasesText(w io.Writer, t *phases.Table) {
	if t == nil {
		return
	}
	fmt.Fprintln(w)
	report.Phases(w, t.Rows)
	fmt.Fprintln(w)
	p, n := t.Parts, report.Thousands
	if t.Forward {
		report.Text(w, 2, "M = W + A + io: %s = %s + %s + %s bytes\n", n(p.M), n(p.W), n(p.A), n(p.IO))
	} else {
		report.Text(w, 2, "M = W + G + O + A + io: %s = %s + %s + %s + %s + %s bytes\n", n(p.M), n(p.W), n(p.G), n(p.O), n(p.A), n(p.IO))
		if p.C > 0 {
			report.Text(w, 2, "beside M, c: %s bytes that everything passes on its way to the device\n", n(p.C))
		}
		report.Text(w, 2, "%s bytes were brought to the device before or between steps; %s bytes of gradients and optimizer states begin as zeros and were not\n", n(p.Uploaded), n(p.Zeroed))
	}
	report.Text(w, 2, "%s\n", t.Rule)
}
