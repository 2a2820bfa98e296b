package pack

import "testing"

// TestAlignedBound: buffers of one alignment take whole multiples of it, but for the highest, whatever else is alive.
func TestAlignedBound(t *testing.T) {
	var p Problem
	for i := range int64(40) {
		p.Buffers = append(p.Buffers,
			Buffer{First: 0, Last: 2, Size: 1 + i%3, Align: 4096},
			Buffer{First: 1, Last: 3, Size: 5, Align: 1},
			Buffer{First: 2, Last: 3, Size: 100, Align: 8})
	}
	s := solved(t, p)
	if want := int64(40*4096 - 4096 + 1); s.Bound != want || s.Height > s.Bound+s.Bound/100 {
		t.Errorf("%d bytes, and a bound of %d, which is %d", s.Height, s.Bound, want)
	}
}
