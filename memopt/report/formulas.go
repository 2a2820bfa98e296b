package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"memopt/planner/formulas"
)

// Formulas prints a plan's peak and cost as functions of the dims, and the sizes for which they
// hold.
func Formulas(w io.Writer, f *formulas.Formulas) {
	fmt.Fprintln(w, "the peak is the largest of")
	for _, p := range f.Peaks {
		Text(w, 4, "  %s\n      at %s\n", p.Formula, p.Node)
	}
	rows := [][]string{{"flops", clip(f.Flops, 200)}, {"extra flops", clip(f.ExtraFlops, 200)}}
	Table(w, "lt", rows)
	switch named := func(p formulas.PeakFormula) bool { return strings.ContainsFunc(p.Formula, unicode.IsLetter) }; {
	case len(f.Ranges) > 0:
		fmt.Fprintln(w)
		Ranges(w, f)
	case slices.ContainsFunc(f.Peaks, named):
		Text(w, 0, "\nthey are known to hold for the planned dims only: for other sizes kernels may need other work space, or values may be unable to share memory\n")
	}
}

// Ranges prints the sizes of each dim, with the others as planned, for which a plan's decisions
// hold, and the formula of its peak in each part of that range.
func Ranges(w io.Writer, f *formulas.Formulas) {
	for _, r := range f.Ranges {
		Text(w, 2, "%s from %d to %d (planned for %d)\n", r.Dim, r.From, r.To, r.At)
		rows := [][]string{}
		for _, p := range r.Pieces {
			rows = append(rows, []string{"", fmt.Sprintf("%d to %d", p.From, p.To), clip(p.Formula, 100), "at " + p.Node})
		}
		Table(w, "lltn", rows)
	}
}
