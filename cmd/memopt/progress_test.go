package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

func TestBar(t *testing.T) {
	for _, test := range []struct {
		done, all int
		took      time.Duration
		want      string
	}{
		{0, 4, 0, "[------------------------] 0 of 4"},
		{1, 4, 20 * time.Second, "[######------------------] 1 of 4, 1m0s left"},
		{3, 4, 30 * time.Second, "[##################------] 3 of 4, 10s left"},
		{4, 4, 40 * time.Second, "[########################] 4 of 4"},
	} {
		if got := bar(test.done, test.all, test.took); got != test.want {
			t.Errorf("%d of %d: %q, want %q", test.done, test.all, got, test.want)
		}
	}
}

// TestStatus: nothing for work under a second, then a line that is replaced
// and cleared, and nothing where there is no terminal.
func TestStatus(t *testing.T) {
	var out bytes.Buffer
	to := newScreen(&out)
	s := &status{to: to, on: true, since: time.Now()}
	s.show("early")
	s.clear()
	if out.Len() > 0 {
		t.Errorf("under a second it shows %q", out.String())
	}
	s.since = s.since.Add(-patience)
	s.show("%d of %d", 1, 2)
	s.show("too soon after")
	s.clear()
	s.clear()
	if got, want := out.String(), "\r\033[K1 of 2\r\033[K"; got != want {
		t.Errorf("it shows %q, want %q", got, want)
	}
	out.Reset()
	off := newStatus(cli.NewContext(&cli.App{ErrWriter: to}, nil, nil))
	off.since = s.since
	off.show("not a terminal")
	if out.Len() > 0 {
		t.Errorf("without a terminal it shows %q", out.String())
	}
}
