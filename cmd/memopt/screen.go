package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"memopt/internal/visible"
	"memopt/memopt/report"
)

// screen is standard output or standard error: the width of its lines, and whether it shows
// colours.
type screen struct {
	*visible.Writer
	width   int
	known   bool // the width is a terminal's, or was given
	live    bool // a terminal on which lines can be overwritten
	colours bool
}

// narrowest is the least width that text is wrapped to.
const narrowest = 40

// newScreen makes a screen for a terminal, or for a file or program, whose text does not depend on
// the terminal.
func newScreen(w io.Writer) *screen {
	s := &screen{Writer: visible.NewWriter(w), width: report.UsualWidth}
	if f, is := w.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		s.live = os.Getenv("TERM") != "dumb"
		s.colours = s.live
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			s.width, s.known = max(width, narrowest), true
		}
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		s.colours = true
	}
	if os.Getenv("NO_COLOR") != "" {
		s.colours = false
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		s.width, s.known = max(n, narrowest), true
	}
	return s
}

func (s *screen) Width() int    { return s.width }
func (s *screen) Colours() bool { return s.colours }

// Write writes text, with text marked by report.Strong in bold.
func (s *screen) Write(p []byte) (int, error) {
	if !s.colours || !bytes.ContainsAny(p, report.Strong+report.Plain) {
		return s.Writer.Write(p)
	}
	for rest := p; len(rest) > 0; {
		at := bytes.IndexAny(rest, report.Strong+report.Plain)
		if at < 0 {
			at = len(rest)
		}
		if _, err := s.Writer.Write(rest[:at]); err != nil {
			return 0, err
		}
		if rest = rest[at:]; len(rest) == 0 {
			break
		}
		code := bold
		if bytes.HasPrefix(rest, []byte(report.Plain)) {
			code = plain
		}
		if err := s.Control(code); err != nil {
			return 0, err
		}
		rest = rest[len(report.Strong):]
	}
	return len(p), nil
}

// Control sequences.
const (
	bold      = "\x1b[1m"
	plain     = "\x1b[0m"
	eraseLine = "\r\x1b[K"
)

// note writes an error or a warning: on one line for programs, wrapped for people.
func (s *screen) note(msg string) {
	if s.known {
		msg = report.Wrap(msg, s.width, 2)
	}
	if head, rest, ok := strings.Cut(msg, ": "); ok {
		msg = report.Headline(s, head+":") + " " + rest
	}
	fmt.Fprintln(s, msg)
}

// replace overwrites the current line of a terminal with as much of a text as fits.
func (s *screen) replace(text string) {
	if r := []rune(text); s.width > 0 && len(r) >= s.width {
		text = string(r[:s.width-1])
	}
	s.Control(eraseLine)
	fmt.Fprint(s, text)
}

// columnsFlag is the flag for the width of text.
func columnsFlag() cli.Flag {
	return &cli.IntFlag{Name: "columns", Usage: "`N` longest line of text; 0 is no limit (default: COLUMNS, else the terminal's, else 100)"}
}

// setColumns applies that flag.
func setColumns(c *cli.Context) error {
	if !c.IsSet("columns") {
		return nil
	}
	n := c.Int("columns")
	if n < 0 || n > 0 && n < narrowest {
		return usage("--columns is %d or more, or 0 for no limit, not %d", narrowest, n)
	}
	for _, w := range []io.Writer{c.App.Writer, c.App.ErrWriter} {
		if s, is := w.(*screen); is {
			s.width, s.known = n, true
		}
	}
	return nil
}
