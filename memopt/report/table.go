package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"memopt/internal/visible"
)

// Table prints rows in columns separated by two spaces, in lines that fit w. In layout a letter
// stands for each column:
//
//	l  left-aligned
//	r  right-aligned
//	n  a name, left-aligned; its middle is cut out if necessary
//	t  text, left-aligned; wrapped if necessary
//
// A digit after the letter marks a column that may be left out, 1 before 2; a line under the table
// lists those. A leading = marks the first row as the head. A cell is one line, whatever names in
// it contain; empty cells take no space at the end of a line.
func Table(w io.Writer, layout string, rows [][]string) {
	layout, headed := strings.CutPrefix(layout, "=")
	t := table{fields: fieldsOf(layout)}
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			cells = append(cells, visible.Line(cell))
			f := &t.fields[i]
			f.natural = max(f.natural, utf8.RuneCountInString(cells[i]))
			for word := range strings.FieldsSeq(cells[i]) {
				f.word = max(f.word, utf8.RuneCountInString(word))
			}
		}
		t.rows = append(t.rows, cells)
	}
	t.fit(Width(w))
	for i, row := range t.rows {
		for _, line := range t.lines(row) {
			if headed && i == 0 {
				line = Headline(w, line)
			}
			fmt.Fprintln(w, line)
		}
	}
	var out []string
	for i, c := range t.fields {
		if c.out {
			out = append(out, rows[0][i])
		}
	}
	if len(out) > 0 {
		Text(w, 2, "(no room for %s; --columns 0 shows all)\n", strings.Join(out, ", "))
	}
}

// table is rows and their layout.
type table struct {
	fields []field
	rows   [][]string
}

type field struct {
	letter  byte
	rank    byte // 0: never left out
	natural int  // characters of the longest cell
	word    int  // characters of the longest word
	width   int
	out     bool
}

func fieldsOf(layout string) (all []field) {
	for i := range len(layout) {
		if c := layout[i]; '1' <= c && c <= '9' {
			all[len(all)-1].rank = c
		} else {
			all = append(all, field{letter: c})
		}
	}
	return all
}

// least is the width below which a column is left out rather than narrowed.
func (c field) least() int {
	switch c.letter {
	case 'n':
		return min(c.natural, 28)
	case 't':
		return min(c.natural, max(24, min(c.word, 36)))
	}
	return c.natural
}

const gap = 2

// fit sets the widths of columns, leaving out columns as necessary.
func (t *table) fit(limit int) {
	for i := range t.fields {
		t.fields[i].width = t.fields[i].natural
	}
	if limit <= 0 || t.need(field.full) <= limit {
		return
	}
	for t.need(field.least) > limit {
		next := t.nextOut()
		if next < 0 {
			break
		}
		t.fields[next].out = true
	}
	t.press(limit)
}

func (c field) full() int { return c.natural }

// need is the length of lines with the given widths.
func (t *table) need(width func(field) int) (n int) {
	for _, c := range t.fields {
		if !c.out {
			n += width(c) + gap
		}
	}
	return max(0, n-gap)
}

// nextOut is the column to leave out next; negative: none.
func (t *table) nextOut() int {
	next := -1
	for i, c := range t.fields {
		if c.rank > 0 && !c.out && (next < 0 || c.rank < t.fields[next].rank) {
			next = i
		}
	}
	return next
}

// press distributes the available width among columns that can be narrowed.
func (t *table) press(limit int) {
	var soft []int
	room := limit - t.need(func(c field) int {
		if c.soft() {
			return 0
		}
		return c.natural
	})
	for i, c := range t.fields {
		if c.soft() && !c.out {
			soft = append(soft, i)
		}
	}
	slices.SortStableFunc(soft, func(a, b int) int { return t.fields[a].natural - t.fields[b].natural })
	const scant = 8
	for _, i := range soft {
		room -= t.fields[i].least()
	}
	for k, i := range soft {
		c := &t.fields[i]
		more := room / (len(soft) - k) // negative if all must be narrower than least
		c.width = min(c.natural, max(scant, c.least()+more))
		room -= c.width - c.least()
	}
}

func (c field) soft() bool { return c.letter == 'n' || c.letter == 't' }

// lines formats a row, in several lines if texts are wrapped.
func (t *table) lines(row []string) (lines []string) {
	cells := make([][]string, len(row))
	height := 1
	for i, cell := range row {
		c := t.fields[i]
		switch {
		case c.out:
			continue
		case c.letter == 'n':
			cells[i] = []string{middle(cell, c.width)}
		case c.letter == 't' && utf8.RuneCountInString(cell) > c.width:
			cells[i] = broken(cell, c.width, c.width)
		default:
			cells[i] = []string{cell}
		}
		height = max(height, len(cells[i]))
	}
	for k := range height {
		var line strings.Builder
		for i, c := range t.fields[:len(row)] {
			if c.out {
				continue
			}
			cell := ""
			if k < len(cells[i]) {
				cell = cells[i][k]
			}
			pad := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(cell)))
			if c.letter == 'r' {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
			line.WriteString(strings.Repeat(" ", gap))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// middle cuts the middle out of a name to at most n characters: names of one model begin alike and
// differ at the end.
func middle(name string, n int) string {
	r := []rune(name)
	if len(r) <= n || n < 3 {
		return name
	}
	head := (n - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}
