package cpu

import (
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestPool: every element is somebody's, once, job after job, also where a job
// asks for another and where workers fall asleep in between.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newPool(rapid.IntRange(1, 4).Draw(t, "workers"))
		defer c.dismiss()
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			n, grain := rapid.IntRange(0, 40).Draw(t, "n"), rapid.IntRange(0, 9).Draw(t, "grain")
			done := make([]atomic.Int32, n)
			mark := func(lo, hi int) {
				for i := lo; i < hi; i++ {
					done[i].Add(1)
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "rest") == 0 {
				time.Sleep(time.Millisecond)
			}
			nested := rapid.Bool().Draw(t, "nested")
			c.run(n, grain, func(lo, hi int) {
				if nested {
					c.run(hi-lo, grain, func(l, h int) { mark(lo+l, lo+h) })
					return
				}
				mark(lo, hi)
			})
			for i := range done {
				if k := done[i].Load(); k != 1 {
					t.Fatalf("element %d of %d was done %d times", i, n, k)
				}
			}
		}
	})
}

// TestPoolFails: what goes wrong in a part goes wrong for who asked, and the
// pool works on.
func TestPoolFails(t *testing.T) {
	c := newPool(3)
	defer c.dismiss()
	for range 20 {
		func() {
			defer func() {
				if r := recover(); r != "part" {
					t.Errorf("recovered %v", r)
				}
			}()
			c.run(12, 1, func(lo, hi int) {
				if lo <= 7 && 7 < hi {
					panic("part")
				}
			})
		}()
	}
}

// TestPoolLeaves: nobody stays behind a step, whether asleep or awake.
func TestPoolLeaves(t *testing.T) {
	for i := range 40 {
		c := newPool(4)
		c.run(100, 1, func(lo, hi int) {})
		if i%2 == 0 {
			time.Sleep(time.Millisecond)
		}
		c.dismiss()
		c.home.Wait()
	}
}
