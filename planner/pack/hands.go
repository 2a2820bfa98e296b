package pack

import (
	"runtime"
	"sync/atomic"
	"time"

	"memopt/memopt/stop"
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
	stop.All(work, work)
	return int(first.Load())
}

// crew does the same few things again and again, so often that to wake up another core each time would take longer than what it
// is for.
type crew struct {
	things     int32
	do         func(i int)
	next, done atomic.Int32
	away       atomic.Bool
}

// newCrew is one that does so many things each time, until it is dismissed: on one core, or on two if there are two.
func newCrew(things int, do func(i int)) *crew {
	c := &crew{things: int32(things), do: do}
	c.next.Store(c.things)
	if runtime.GOMAXPROCS(0) > 1 {
		go func() {
			for !c.away.Load() {
				c.work()
				until(func() bool { return c.next.Load() < c.things || c.away.Load() })
			}
		}()
	}
	return c
}

func (c *crew) dismiss() { c.away.Store(true) }

// each does each thing once. Those that are last begin last.
func (c *crew) each() {
	c.done.Store(0)
	c.next.Store(0)
	c.work()
	until(func() bool { return c.done.Load() == c.things })
}

func (c *crew) work() {
	for i := c.next.Add(1) - 1; i < c.things; i = c.next.Add(1) - 1 {
		c.do(int(i))
		c.done.Add(1)
	}
}

const awake = 20_000 // looks at whether it is there yet, a few milliseconds

// until waits for what comes soon, wide awake at first: unless another has the core that it is to come from.
func until(is func() bool) {
	for k := 0; !is(); k++ {
		switch {
		case k > awake:
			time.Sleep(time.Microsecond)
		case k > 100:
			runtime.Gosched()
		}
	}
}

// never stops nothing.
func never() bool { return false }
