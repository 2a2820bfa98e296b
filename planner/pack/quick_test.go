package pack

import (
	"testing"

	"pgregory.net/rapid"
)

// Quick and Again give solutions like any other, only higher ones.
func TestQuick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		s := Quick(p)
		if err := Check(p, s); err != nil {
			t.Fatal(err)
		}
		var q Problem
		var from []int
		for i, b := range p.Buffers {
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0: // gone
				continue
			case 1:
				b.Last++
			case 2:
				b.Size += 3
			case 3:
				from, q.Buffers = append(from, -1), append(q.Buffers, b)
			}
			from, q.Buffers = append(from, i), append(q.Buffers, b)
		}
		if err := Check(q, Again(q, s, from)); err != nil {
			t.Fatal(err)
		}
	})
}

// What has not changed stays where it was.
func TestAgainKeeps(t *testing.T) {
	p := step(1000, 3)
	s, err := Solve(p)
	if err != nil {
		t.Fatal(err)
	}
	from := make([]int, len(p.Buffers))
	for i := range from {
		from[i] = i
	}
	p.Buffers[17].Last++
	again := Again(p, s, from)
	if err := Check(p, again); err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i, offset := range again.Offsets {
		if offset != s.Offsets[i] && i != 17 {
			moved++
		}
	}
	if moved > 2 || again.Height > s.Height+s.Height/50 {
		t.Errorf("%d others moved; height %d, before %d", moved, again.Height, s.Height)
	}
}
