package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"memopt/internal/visible"
)

// patience is how long a command works before it shows progress; pace is the least time between
// updates.
const (
	patience = time.Second
	pace     = 100 * time.Millisecond
)

// status is the progress line of a terminal. Elsewhere, and with --quiet, it shows nothing.
type status struct {
	to    *screen
	since time.Time
	on    bool
	mu    sync.Mutex
	shown bool
	last  time.Time
}

func newStatus(c *cli.Context) *status {
	to := c.App.ErrWriter.(*screen)
	return &status{to: to, since: time.Now(), on: to.live && !c.Bool("quiet")}
}

// show replaces the line, after patience.
func (s *status) show(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.on && now.Sub(s.since) >= patience && now.Sub(s.last) >= pace {
		s.to.replace(visible.Sprintf(format, args...))
		s.shown, s.last = true, now
	}
}

// clear erases the line, for other output.
func (s *status) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		s.to.replace("")
		s.shown, s.last = false, time.Time{}
	}
}

// busy shows what a command is doing until done is called.
func busy(c *cli.Context, what string) (done func()) {
	s := newStatus(c)
	if !s.on {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(patience)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.show("%s, %d s", what, int(time.Since(s.since).Seconds()))
			case <-stop:
				s.clear()
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// bar is a progress bar with the estimated time left.
func bar(done, all int, took time.Duration) string {
	const width = 24
	full := width * done / max(all, 1)
	left := ""
	if done > 0 && done < all {
		left = ", " + (took / time.Duration(done) * time.Duration(all-done)).Round(time.Second).String() + " left"
	}
	return fmt.Sprintf("[%s%s] %d of %d%s", strings.Repeat("#", full), strings.Repeat("-", width-full), done, all, left)
}
