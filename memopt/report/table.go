package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table writes rows in columns two spaces apart, each aligned by its letter in
// align: l or r. A cell that says nothing takes no space at the end of a line.
func Table(w io.Writer, align string, rows [][]string) {
	width := make([]int, len(align))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
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
