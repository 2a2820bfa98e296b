package pack

import (
	"runtime"
	"sync/atomic"
)

// attempt tries something, and says whether that is good enough. Once it is stopped nobody asks for what it comes to.
type attempt func(stopped func() bool) bool

// firstOf makes attempts in their order, two side by side if there are cores for it, and says which is the first that is
// good enough, or how many they are if none is. Those before it come to their ends and those behind it are stopped, so
// that it does not matter which was quicker.
func firstOf(attempts ...attempt) int {
	var next, first atomic.Int32
	first.Store(int32(len(attempts)))
	work := func() {
		for i := next.Add(1) - 1; i < first.Load(); i = next.Add(1) - 1 {
			if !attempts[i](func() bool { return first.Load() < i }) {
				continue
			}
			for f := first.Load(); i < f && !first.CompareAndSwap(f, i); {
				f = first.Load()
			}
		}
	}
	if len(attempts) == 1 || runtime.GOMAXPROCS(0) == 1 {
		work()
		return int(first.Load())
	}
	done := make(chan bool)
	go func() { work(); done <- true }()
	work()
	<-done
	return int(first.Load())
}

// never stops nothing.
func never() bool { return false }
