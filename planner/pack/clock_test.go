package pack

import (
	"runtime"
	"slices"
	"testing"
)

// A clock that is short ends what it is for, wherever that is, with a packing of all lives, and says the same on one core and on
// two.
func TestClock(t *testing.T) {
	const n = 4000
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	over := 0
	for _, f := range all() {
		problem := f.make(n, 5)
		for _, looks := range []int{perLife * 3 / 4} {
			var first part
			left := 0
			for cores := 1; cores <= 2; cores++ {
				runtime.GOMAXPROCS(cores)
				p, goal := wholeOf(problem)
				goal = max(goal, fixedEnd(problem))
				p.clock = &clock{left: looks * len(p.lives)}
				portfolio(p, goal, goal+goal/fine)
				if cores == 1 {
					first, left = *p, p.clock.left
				} else if left != p.clock.left || !slices.Equal(first.offsets, p.offsets) {
					t.Errorf("%s: one core comes to %d with %d looks left, two to %d with %d", f.name, first.top, left, p.top, p.clock.left)
				}
			}
			apartAt(t, &first, first.offsets, first.top)
			if left < 0 {
				over++
			}
			if left < -looks*len(first.lives) {
				t.Errorf("%s: %d looks more than the %d there were", f.name, -left, looks*len(first.lives))
			}
		}
	}
	t.Logf("%d are over", over)
}

// Parts have the share of the looks of all that they have of the lives, and what is left goes to the next.
func TestTimed(t *testing.T) {
	long := make([]life, few+1)
	parts := []*part{{lives: long}, {lives: make([]life, 1)}, {lives: long}}
	share := worthOf(2*len(long)+1) / (2*len(long) + 1) * len(long)
	var had []int
	timed(parts, func(p *part) {
		if p.clock == nil {
			had = append(had, -1)
			return
		}
		had = append(had, p.clock.left)
		p.clock.spend(100)
	})
	if want := []int{share, -1, 2*share - 100}; !slices.Equal(had, want) {
		t.Errorf("parts had %v, not %v", had, want)
	}
}

// What two attempts side by side have spent is as much as the longer took, or both if they shared one core.
func TestClockApart(t *testing.T) {
	for _, busy := range []bool{false, true} {
		c := &clock{left: 1000, busy: busy}
		a, b := c.apart(1), c.apart(1)
		a.share(300)
		b.spend(100)
		c.joined([]*clock{a, b})
		want := 700
		if busy {
			want = 600
		}
		if c.left != want {
			t.Errorf("busy %v: %d left, not %d", busy, c.left, want)
		}
	}
	if c := (*clock)(nil); c.apart(1) != nil || c.alone() < 1<<40 {
		t.Error("few lives have a clock")
	}
}
