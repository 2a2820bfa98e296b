package pack

import (
	"errors"
	"testing"
)

// What is to be packed soon is a packing, within the capacity if it says so, and mostly it is.
func TestReach(t *testing.T) {
	reached, n := 0, 0
	for _, f := range all() {
		for _, lives := range []int{800, 2500} {
			problem := f.make(lives, 1)
			if len(problem.Fixed) > 0 {
				continue
			}
			most, _ := MaxLive(problem)
			n++
			problem.Capacity = most + most/100
			s, err := Solve(problem, Effort{Looks: 1 << 24})
			var beyond *CapacityError
			if err != nil && !errors.As(err, &beyond) || s.Height > 0 && (err == nil) != (s.Height <= problem.Capacity) {
				t.Errorf("%s, %d: %d high, %v", f.name, lives, s.Height, err)
			}
			if err == nil {
				reached++
			}
			if problem.Capacity = 0; s.Height > 0 && Check(problem, s) != nil {
				t.Errorf("%s, %d: %v", f.name, lives, Check(problem, s))
			}
		}
	}
	if reached < n*3/4 {
		t.Errorf("%d of %d are reached", reached, n)
	}
}
