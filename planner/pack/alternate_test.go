package pack

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// Where no three lives meet they are packed as low as can be; where three do they are not packed.
func TestAlternate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		aligns := []int64{1}
		if rapid.Bool().Draw(t, "aligned") {
			aligns = []int64{1, 2, 3, 8}
		}
		var p Problem
		at := int32(0)
		for range rapid.IntRange(1, 30).Draw(t, "lives") {
			at += rapid.Int32Range(0, 3).Draw(t, "later")
			p.Buffers = append(p.Buffers, Buffer{
				First: at, Last: at + rapid.Int32Range(1, 5).Draw(t, "length"),
				Size: rapid.Int64Range(1, 20).Draw(t, "size"), Align: rapid.SampledFrom(aligns).Draw(t, "align"),
			})
		}
		q, goal := wholeOf(p)
		q.unplaced()
		meet := 0
		for a := range q.sections {
			alive := 0
			for _, l := range q.lives {
				if l.l <= a && a < l.r {
					alive++
				}
			}
			meet = max(meet, alive)
		}
		if got := q.alternate(); got != (meet <= 2) {
			t.Fatalf("%d meet, and they alternate: %v", meet, got)
		}
		if meet > 2 {
			return
		}
		if len(aligns) == 1 && q.top != goal {
			t.Errorf("%d bytes, %d are alive", q.top, goal)
		}
		s := Solution{Offsets: make([]int64, len(p.Buffers))}
		s.read(p, []*part{q})
		if err := Check(p, s); err != nil {
			t.Error(err)
		}
	})
}

// So are long chains, whose links begin as the one before the last ends.
func TestChain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var p Problem
	for i := range int32(20_000) {
		p.Buffers = append(p.Buffers, Buffer{First: i, Last: i + 2, Size: 1 + r.Int64N(1000)})
	}
	if s := solved(t, p); s.Height != s.Bound || s.By != "alternate" {
		t.Errorf("%s: %d bytes, %d are alive", s.By, s.Height, s.Bound)
	}
}
