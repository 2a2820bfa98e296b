package vulkan

import (
	"math/rand/v2"
	"memopt/internal/schedule"
	"testing"
)

// TestHazards: a barrier stands between two dispatches that touch the same
// bytes, unless both read; writes after writes are seen here alone, for the
// validation layer is blind to them.
func TestHazards(t *testing.T) {
	at := func(from, to int64) []span { return []span{{schedule.Arena, from, to}} }
	other := []span{{schedule.State, 0, 64}}
	for _, c := range []struct {
		name                             string
		reads1, writes1, reads2, writes2 []span
		want                             bool
	}{
		{"read after write", nil, at(0, 64), at(0, 64), at(64, 128), true},
		{"write after read", at(0, 64), nil, nil, at(0, 64), true},
		{"write after write", nil, at(0, 64), nil, at(0, 64), true},
		{"one byte in common", nil, at(0, 64), at(63, 127), nil, true},
		{"neighbours", nil, at(0, 64), at(64, 128), nil, false},
		{"both read", at(0, 64), nil, at(0, 64), nil, false},
		{"other space", nil, at(0, 64), other, nil, false},
		{"in place, then elsewhere", at(0, 64), at(0, 64), at(64, 128), at(64, 128), false},
	} {
		var h hazards
		if h.next(c.reads1, c.writes1) {
			t.Errorf("%s: the first dispatch waits", c.name)
		}
		if got := h.next(c.reads2, c.writes2); got != c.want {
			t.Errorf("%s: barrier %v, not %v", c.name, got, c.want)
		}
	}
	// A barrier settles all that was before it.
	var h hazards
	h.next(nil, at(0, 64))
	h.next(at(0, 64), nil)
	if h.next(at(0, 32), nil) {
		t.Error("waits twice for one write")
	}
}

// TestCuts: pieces are at most as large as asked for, no span crosses one, and
// what cannot be parted is an error.
func TestCuts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var spans []span
		height := int64(0)
		for range 1 + rng.IntN(12) {
			s := span{at: 64 * rng.Int64N(40)}
			s.end = s.at + 1 + rng.Int64N(600)
			height = max(height, s.end)
			spans = append(spans, s)
		}
		limit := 64 * (1 + rng.Int64N(40))
		starts, err := cuts(spans, height, limit)
		if err != nil {
			continue
		}
		for i, at := range starts {
			end := height
			if i+1 < len(starts) {
				end = starts[i+1]
			}
			if end-at > limit {
				t.Fatalf("piece [%d, %d) is larger than %d: %v", at, end, limit, spans)
			}
			for _, s := range spans {
				if s.at < at && s.end > at {
					t.Fatalf("%v crosses %d", s, at)
				}
			}
		}
	}
	if _, err := cuts([]span{{at: 0, end: 1000}}, 1000, 640); err == nil {
		t.Error("one span was parted")
	}
	if starts, err := cuts([]span{{at: 0, end: 640}, {at: 640, end: 1280}, {at: 1280, end: 1300}}, 1300, 640); err != nil || len(starts) != 3 {
		t.Errorf("three values in pieces of one: %v, %v", starts, err)
	}
}
