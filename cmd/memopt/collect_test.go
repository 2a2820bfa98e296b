package main

import (
	"runtime/debug"
	"slices"
	"testing"
)

// TestCollect: commands that stay, or whose memory is what matters, keep Go's own ways with garbage, and whoever
// sets GOGC is listened to.
func TestCollect(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, gogc := range []string{"", "70"} {
		t.Setenv("GOGC", gogc)
		for _, c := range commands {
			want := 300
			if slices.Contains([]string{"train", "run", "load", "leaks", "serve"}, c.Name) {
				want = 100
			}
			if gogc != "" {
				want = 70
			}
			debug.SetGCPercent(70)
			gcForPlanning()
			if c.Before != nil {
				if err := c.Before(nil); err != nil {
					t.Fatal(err)
				}
			}
			if got := debug.SetGCPercent(70); got != want {
				t.Errorf("GOGC=%q: %s runs at %d %%, want %d", gogc, c.Name, got, want)
			}
		}
	}
}
