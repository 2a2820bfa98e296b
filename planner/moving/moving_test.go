package moving

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomLine has spans that are touched at their ends and now and then between.
func randomLine(rng *rand.Rand) *Line {
	n := 4 + rng.IntN(40)
	l := &Line{Far: Far{Bytes: int64(rng.IntN(2000)), Out: Engine{int64(rng.IntN(20)), 0.1 + rng.Float64()*9}, In: Engine{int64(rng.IntN(20)), 0.1 + rng.Float64()*9}, One: rng.IntN(3) == 0}}
	for range n {
		l.Time, l.Work = append(l.Time, int64(rng.IntN(50))), append(l.Work, int64(rng.IntN(30)))
	}
	for range rng.IntN(12) {
		first := int32(rng.IntN(n - 1))
		touched := []int32{first}
		for i := first + 1; i < int32(n); i++ {
			if rng.IntN(6) == 0 {
				touched = append(touched, i)
			}
		}
		s := Span{First: first, Last: touched[len(touched)-1] + 1, Bytes: int64(rng.IntN(300))}
		for k := 1; k < len(touched); k++ {
			if touched[k-1]+1 < touched[k] {
				s.Idle = append(s.Idle, Idle{touched[k-1] + 1, touched[k]})
			}
		}
		l.Spans = append(l.Spans, s)
	}
	return l
}

func TestWithin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	found, waited := 0, 0
	for range 3000 {
		l := randomLine(rng)
		top := slices.Max(l.live(nil))
		limit := top * int64(40+rng.IntN(70)) / 100
		moves, wait, ok := l.Within(limit, math.MaxInt64, math.MaxInt64)
		if !ok {
			continue
		}
		near, far, checked, err := Check(l, moves)
		if err != nil || near > limit || far > l.Far.Bytes || checked != wait {
			t.Fatalf("%+v\n%+v: %d of %d bytes, %d of %d elsewhere, waits %d, not %d: %v", l, moves, near, limit, far, l.Far.Bytes, checked, wait, err)
		}
		if top <= limit && len(moves) > 0 {
			t.Fatalf("%d bytes are within %d, and %d moves were made", top, limit, len(moves))
		}
		if len(moves) > 0 {
			found++
		}
		if wait > 0 {
			waited++
		}
	}
	if found < 500 || waited < 100 {
		t.Fatalf("%d lines had moves, %d waited", found, waited)
	}
}

// A copy that takes longer than the launches beside it is waited for, for exactly the rest.
func TestWaits(t *testing.T) {
	l := &Line{Time: []int64{10, 10, 10, 10}, Work: make([]int64, 4), Far: Far{Bytes: 100, Out: Engine{0, 10}, In: Engine{5, 4}},
		Spans: []Span{{First: 0, Last: 4, Bytes: 100, Idle: []Idle{{1, 3}}}}}
	for _, c := range []struct {
		x    Move
		wait int64
	}{
		{Move{0, 1, 2, 3, 3}, 30}, // hidden out; back is not begun before it is needed
		{Move{0, 1, 1, 2, 3}, 30}, // 10 out, and 30 back of which 10 hide
		{Move{0, 1, 1, 3, 3}, 40},
	} {
		if got := l.Wait([]Move{c.x}); got != c.wait {
			t.Errorf("%+v waits %d, not %d", c.x, got, c.wait)
		}
		if _, _, got, err := Check(l, []Move{c.x}); err != nil || got != c.wait {
			t.Errorf("%+v waits %d by the other route, not %d: %v", c.x, got, c.wait, err)
		}
	}
	for _, x := range []Move{{0, 0, 2, 3, 3}, {0, 1, 2, 2, 3}, {0, 1, 2, 3, 4}, {1, 1, 2, 3, 3}} {
		if _, _, _, err := Check(l, []Move{x}); err == nil {
			t.Errorf("%+v passes", x)
		}
	}
}
