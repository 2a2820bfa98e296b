package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"memopt/memopt/visible"
)

// Table writes rows in columns two spaces apart, each aligned by its letter in
// align: l or r. A cell that says nothing takes no space at the end of a line. A
// cell is one line, whatever names in it hold.
func Table(w io.Writer, align string, rows [][]string) {
	width := make([]int, len(align))
	lines := make([][]string, len(rows))
	for r, row := range rows {
		for i, cell := range row {
			lines[r] = append(lines[r], visible.Line(cell))
			width[i] = max(width[i], utf8.RuneCountInString(lines[r][i]))
		}
	}
	for _, row := range lines {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if align[i] == 'r' {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}
