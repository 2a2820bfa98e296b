package pack_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/planner/pack"
)

// TestNested: the lives of a training step, made forwards and read backwards,
// with chains of short ones between, are nested, and within a ten-thousandth of
// what is alive at once.
func TestNested(t *testing.T) {
	const layers = 4000
	r := rand.New(rand.NewPCG(5, 6))
	var p pack.Problem
	put := func(first, last int, size int64) {
		p.Buffers = append(p.Buffers, pack.Buffer{First: int32(first), Last: int32(last), Size: 64 * size, Align: 64})
	}
	end := 8 * layers
	for i := range layers {
		at := 4 * i
		put(at, end-at, 1+r.Int64N(400))
		put(at+1, end-at-1, 1+r.Int64N(400))
		for _, at := range []int{at, end - at - 4} {
			for k := range 4 { // each lives until the next is made of it
				put(at+k, at+k+2, 1+r.Int64N(60))
			}
		}
	}
	s, err := pack.Solve(p, pack.Effort{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pack.Check(p, s); err != nil {
		t.Fatal(err)
	}
	live, _ := pack.MaxLive(p)
	if !strings.HasPrefix(s.By, "nested") || s.Height > live+live/10000 {
		t.Errorf("%s: %d bytes for %d alive at once", s.By, s.Height, live)
	}
	p.Capacity = s.Height
	if s, err = pack.Solve(p, pack.Effort{}); err != nil || s.Height > p.Capacity {
		t.Errorf("within its own height: %d, %v", s.Height, err)
	}
}
