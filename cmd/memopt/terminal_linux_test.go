package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal of some columns: what a program has, and what a person sees.
func terminal(t *testing.T, columns uint16) (program *os.File, seen func() string) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		data, _ := io.ReadAll(person) // ends with an error once nobody has the other end
		text <- string(data)
	}()
	return program, func() string {
		program.Close()
		defer person.Close()
		return strings.ReplaceAll(<-text, "\r\n", "\n")
	}
}

// TestTerminal: text fits a terminal's width and has headlines in bold, unless the
// terminal or the user says no; errors are broken into lines there.
func TestTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	t.Setenv("CLICOLOR_FORCE", "")
	for _, test := range []struct {
		term, noColour string
		bold           bool
	}{{"xterm", "", true}, {"dumb", "", false}, {"xterm", "1", false}} {
		t.Setenv("TERM", test.term)
		t.Setenv("NO_COLOR", test.noColour)
		program, seen := terminal(t, 60)
		if code := run([]string{"memopt", "ops"}, program, program); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		run([]string{"memopt", "plan", "--dims", "batch=4", "model with a name that is rather long, so that it takes lines.onnx"}, program, program)
		text := seen()
		if strings.Contains(text, "\x1b[1m") != test.bold {
			t.Errorf("%+v: bold is %v", test, !test.bold)
		}
		if !test.bold && strings.Contains(text, "\x1b") {
			t.Errorf("%+v: it steers the terminal", test)
		}
		text = strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(text)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 60 {
				t.Errorf("%+v: %d columns: %s", test, n, line)
			}
		}
		if !strings.Contains(text, "memopt: model with a name that is rather long, so that it\n  takes lines.onnx: no such file\n") {
			t.Errorf("%+v: the error is not broken:\n%s", test, text[max(0, len(text)-300):])
		}
	}
}
