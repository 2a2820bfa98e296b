package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"memopt/internal/visible"
)

// UsualWidth is the width of lines on writers without a width, such as files: output for programs
// does not depend on a terminal.
const UsualWidth = 100

// Width is the width of lines on w; 0: unlimited.
func Width(w io.Writer) int {
	if s, is := w.(interface{ Width() int }); is {
		return s.Width()
	}
	return UsualWidth
}

// Strong and Plain mark the beginning and end of strong text on a screen with colours. They are
// noncharacters, which text does not contain, and are written to screens with colours only.
const (
	Strong = "\ufdd0"
	Plain  = "\ufdd1"
)

// Headline formats a headline for w.
func Headline(w io.Writer, text string) string {
	if s, is := w.(interface{ Colours() bool }); is && s.Colours() && text != "" {
		return Strong + text + Plain
	}
	return text
}

// Text prints a text wrapped to the width of w, with its arguments escaped as in visible.Fprintf.
// Continuation lines are indented by hang more than the first.
func Text(w io.Writer, hang int, format string, args ...any) {
	fmt.Fprint(w, Wrap(visible.Sprintf(format, args...), Width(w), hang))
}

// Wrap breaks lines at spaces to at most width characters, if words are short enough; 0: do not
// wrap. Continuation lines are indented like the line, and by hang more.
func Wrap(text string, width, hang int) string {
	if width <= 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		inner := strings.TrimLeft(body, " ")
		indent := len(body) - len(inner)
		for i, part := range broken(inner, width-indent, width-indent-hang) {
			if i > 0 {
				out.WriteString("\n" + strings.Repeat(" ", hang))
			}
			out.WriteString(strings.Repeat(" ", indent) + part)
		}
		if end {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// broken is a line in parts of at most first, then rest characters. Spaces at which it
// is not broken stay as they are.
func broken(line string, first, rest int) (parts []string) {
	for room := first; ; room = rest {
		cut := breakAt(line, room)
		if cut < 0 {
			return append(parts, line)
		}
		parts = append(parts, strings.TrimRight(line[:cut], " "))
		line = strings.TrimLeft(line[cut:], " ")
	}
}

// breakAt is the last space of a line before which there are at most room characters,
// or else its first; negative if the line fits or is one word.
func breakAt(line string, room int) int {
	if utf8.RuneCountInString(line) <= room {
		return -1
	}
	at, n := -1, 0
	for i, r := range line {
		if r == ' ' && i > 0 && strings.Trim(line[i:], " ") != "" {
			if n > room && at >= 0 {
				break
			}
			at = i
			if n > room {
				break
			}
		}
		n++
	}
	return at
}
