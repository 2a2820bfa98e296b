package report

import (
	"memopt/internal/loader"
)

// phasesView is the chart of phases: for each phase a column of the device's memory by owner, and
// one of the process's, with lines at the promised memory.
type phasesView struct {
	Rows   []phaseColumn
	Bars   []phaseBar
	Marks  []phaseMark
	Ticks  []mark
	Legend []phaseKey
	Rule   string
	Table  []loader.Phase
}

// phaseColumn is the horizontal range of a phase, in percent.
type phaseColumn struct {
	Name, What  string
	From, Width float64
}

// phaseBar is one owner's part of a column.
type phaseBar struct {
	X, Y, W, H int
	Class      string
	Text       string
}

// phaseMark is the line of a promise.
type phaseMark struct {
	X, Y, W int
	Text    string
}

type phaseKey struct{ Class, Name string }

// phaseColours maps classes of owners to colours of the page.
var phaseColours = map[string]string{"weights": "c4", "gradients": "c2", "optimizer": "c3", "activations": "c0", "staging": "c1", "imported": "c1", loader.Other: "c5"}

func phases(rows []loader.Phase, rule string) *phasesView {
	if len(rows) == 0 {
		return nil
	}
	most := int64(1)
	for _, p := range rows {
		most = max(most, p.Device.High, p.Promised, p.System.High, p.PromisedHost)
	}
	top := 1.05 * float64(most)
	v := &phasesView{Ticks: ticks(top), Rule: rule, Table: rows}
	n := len(rows)
	for i, p := range rows {
		v.Rows = append(v.Rows, phaseColumn{p.Name, p.What, percentOf(i, n), percentOf(1, n)})
		at := func(tenths int) int { return (10*i + tenths) * planeWidth / (10 * n) }
		stack := int64(0)
		bar := func(from, to int, bytes int64, class, name string) {
			if bytes <= 0 {
				return
			}
			y := planeHeight - height(stack+bytes, top)
			v.Bars = append(v.Bars, phaseBar{at(from), y, at(to) - at(from), planeHeight - height(stack, top) - y, class, p.Name + ": " + name + " " + Bytes(bytes)})
			stack += bytes
		}
		for _, c := range loader.Classes {
			bar(1, 5, p.Owned(c).Requested, phaseColours[c], c)
		}
		stack = 0
		bar(5, 9, p.System.High, "seen", "peak of the process")
		promise := func(from, to int, bytes int64, name string) {
			if bytes > 0 {
				v.Marks = append(v.Marks, phaseMark{at(from), planeHeight - height(bytes, top), at(to) - at(from), p.Name + ": promised " + name + ", at most " + Bytes(bytes)})
			}
		}
		promise(1, 5, p.Promised, "of the device")
		promise(5, 9, p.PromisedHost, "of the process")
	}
	for _, c := range usedClasses(rows) {
		v.Legend = append(v.Legend, phaseKey{phaseColours[c], c})
	}
	v.Legend = append(v.Legend, phaseKey{"seen", "peak of the process, as the system counts it"})
	return v
}
