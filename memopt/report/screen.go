package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"memopt/memopt/visible"
)

// UsualWidth is the width of lines on a writer that does not say how wide it is, such
// as a file: what programs read does not depend on anybody's window.
const UsualWidth = 100

// Width is how many columns lines on w may take; 0 is no limit.
func Width(w io.Writer) int {
	if s, is := w.(interface{ Width() int }); is {
		return s.Width()
	}
	return UsualWidth
}

// Strong and Plain stand around what a screen with colours shows strongly. They are
// characters that no text has, and that only a writer with colours is given.
const (
	Strong = "\ufdd0"
	Plain  = "\ufdd1"
)

// Headline is a text as a headline on w.
func Headline(w io.Writer, text string) string {
	if s, is := w.(interface{ Colours() bool }); is && s.Colours() && text != "" {
		return Strong + text + Plain
	}
	return text
}

// Text writes a text in lines that fit w, with its arguments spelled as visible.Fprintf
// does. Lines after the first of each of its own
// are indented by hang more than that one.
func Text(w io.Writer, hang int, format string, args ...any) {
	fmt.Fprint(w, Wrap(visible.Sprintf(format, args...), Width(w), hang))
}

// Wrap breaks lines at spaces so that they have at most width characters, as far as
// words are that short; 0 is no limit. What is broken off is indented like the
// line, and by hang more.
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
