package main

import (
	"fmt"
	"io"

	"memopt/internal/compare"
	"memopt/internal/visible"
	"memopt/memopt/report"
)

// writePartings lists the values at which a step on one device differs from the same on another.
func writePartings(w io.Writer, device string, limit float64, all []compare.Parting) {
	if len(all) == 0 {
		visible.Fprintf(w, "\nno value differs from that on %s by more than %g, relative\n", device, limit)
		return
	}
	const few = 10
	rows := [][]string{{fmt.Sprintf("differs from %s", device), "operator", "relative", "elements off"}}
	for _, p := range all[:min(few, len(all))] {
		n := 1
		for _, d := range p.Shape {
			n *= d
		}
		rows = append(rows, []string{p.Value, p.Op, fmt.Sprintf("%.2e", p.RelErr), fmt.Sprintf("%d of %d", p.Off, n)})
	}
	fmt.Fprintln(w)
	report.Table(w, "=nlrr", rows)
	if more := len(all) - few; more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
}
