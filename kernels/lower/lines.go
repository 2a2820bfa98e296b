package lower

import (
	"fmt"

	"memopt/internal/graph"
)

// RowHeld has a workgroup for each line, which reads it once.
var (
	rowKernel  = Halved(Shader("row", "row.comp", "-DV=float"))
	rowsByFour = Halved(Shader("row-wide", "row.comp", "-DV=vec4"))
	RowHeld    = TeamShader("row-held", "rowheld.comp")
)

// The rules of row.comp.
const (
	RowSoftmax, RowLogSoftmax, RowSoftmaxGrad, RowLogSoftmaxGrad, RowSafeSoftmax = 0, 1, 2, 3, 4
)

// Lines lowers a rule from buffers a and b to output 0, over lines of n elements that are inner apart.
func Lines(l *graph.Lowering, rule uint32, lines, n, inner int, a, b graph.Buffer) {
	LinesInto(l, Writes(0), rule, lines, n, inner, a, b)
}

// LinesInto is Lines into a given buffer.
func LinesInto(l *graph.Lowering, out graph.Buffer, rule uint32, lines, n, inner int, a, b graph.Buffer) {
	if lines*n == 0 || l.Refused != "" {
		return
	}
	row := int64(4 * n)
	operands := 1
	if rule == RowSoftmaxGrad || rule == RowLogSoftmaxGrad {
		operands = 2
	}
	if t, ok := TeamOf(l, fmt.Sprint("lines by rule ", rule), lines, n, inner, operands, true); ok {
		byLines(l, lines, inner, []graph.Buffer{out, a, b}, row, func(lines int, buffers []graph.Buffer) {
			l.Dispatches = append(l.Dispatches, graph.Dispatch{
				Kernel: t.Of(RowHeld), Spec: t.Spec(rule), Push: Words(l, lines, n/t.Wide, inner), Buffers: buffers, Groups: t.Groups(l, lines),
			})
		})
		return
	}
	kernel := rowKernel
	if inner == 1 && n%4 == 0 {
		kernel, n = rowsByFour, n/4
	}
	byLines(l, lines, inner, []graph.Buffer{out, a, b}, row, func(lines int, buffers []graph.Buffer) {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: kernel, Spec: []uint32{uint32(l.Limits.Subgroup), rule}, Push: Words(l, lines, n, inner), Buffers: buffers, Groups: InLine(l, lines),
		})
	})
}

// byLines calls f for as many lines at a time as fit the descriptor range, if they are rows in memory.
func byLines(l *graph.Lowering, lines, inner int, buffers []graph.Buffer, row int64, f func(lines int, buffers []graph.Buffer)) {
	if inner > 1 {
		f(lines, buffers)
		return
	}
	InPieces(l, lines, buffers, []int64{row, row, row}, f)
}
