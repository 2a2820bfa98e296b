package pack

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// The first attempt that is good enough wins, however late, and those behind it are stopped.
func TestFirstOf(t *testing.T) {
	const none, slow, quick = 0, 1, 2
	for _, kinds := range [][]int{{}, {none}, {quick}, {none, none}, {slow, quick}, {none, slow, quick, quick}, {slow, none, none}, {none, none, quick}} {
		var ended atomic.Int64
		var attempts []attempt
		for i, kind := range kinds {
			attempts = append(attempts, func(stopped func() bool) bool {
				if kind == slow {
					time.Sleep(time.Millisecond)
				}
				if !stopped() {
					ended.Or(1 << i)
				}
				return kind != none
			})
		}
		want := slices.IndexFunc(kinds, func(kind int) bool { return kind != none })
		if want < 0 {
			want = len(kinds)
		}
		if got := firstOf(attempts...); got != want {
			t.Errorf("%v: %d, not %d", kinds, got, want)
		}
		for i := range min(want+1, len(kinds)) {
			if ended.Load()>>i&1 == 0 {
				t.Errorf("%v: %d was stopped", kinds, i)
			}
		}
	}

	// One that goes on until it is stopped comes to its end.
	if got := firstOf(
		func(func() bool) bool { time.Sleep(time.Millisecond); return true },
		func(stopped func() bool) bool {
			for !stopped() {
				time.Sleep(10 * time.Microsecond)
			}
			return false
		},
	); got != 0 {
		t.Errorf("%d, not the first", got)
	}
}

// A crew does each thing once each time, whether another core helps or not, and nothing is left undone.
func TestCrew(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for cores := 1; cores <= 2; cores++ {
		runtime.GOMAXPROCS(cores)
		var did [5]int
		c := newCrew(len(did), func(i int) { did[i]++ })
		for times := 1; times <= 2000; times++ {
			c.each()
			for i, n := range did {
				if n != times {
					t.Fatalf("thing %d was done %d times, not %d", i, n, times)
				}
			}
		}
		c.dismiss()
	}
}
