package cpu

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// crew is the workers of a device. Launches are short and come one after the
// other, and so do steps: to wake a thread for each takes as long as many of
// them, so a worker that has nothing to do looks for the next job a while before
// it sleeps.
type crew struct {
	workers int
	job     atomic.Pointer[job]
	asleep  atomic.Int32
	lock    sync.Mutex
	wake    *sync.Cond
	home    sync.WaitGroup // of the workers that have left
}

// job is f for parts of [0, n), which are taken as workers get free.
type job struct {
	n, parts   int
	f          func(lo, hi int)
	next, done atomic.Int64
	failed     atomic.Pointer[any]
	state      atomic.Int32
	finished   chan struct{} // for who waits
}

// What is known of who asked for a job, and waits for its last part.
const (
	working  = iota
	waiting  // asleep: must be told
	complete // all parts are done
)

// dismissed is the job after which a worker goes home.
var dismissed = new(job)

// patience is how often is looked before somebody goes to sleep: tens of
// microseconds.
const patience = 150_000

// newCrew has so many workers, one of which is who calls run.
func newCrew(workers int) *crew {
	c := &crew{workers: workers}
	c.wake = sync.NewCond(&c.lock)
	for range min(workers, runtime.GOMAXPROCS(0)) - 1 {
		c.home.Go(c.work)
	}
	return c
}

// dismiss sends the workers home.
func (c *crew) dismiss() { c.post(dismissed) }

func (c *crew) post(j *job) {
	c.job.Store(j)
	if c.asleep.Load() > 0 {
		c.lock.Lock()
		c.wake.Broadcast()
		c.lock.Unlock()
	}
}

// work does jobs until it is dismissed.
func (c *crew) work() {
	debug.SetPanicOnFault(true) // what a part reads may be mapped, of a file that is cut short meanwhile
	var last *job
	for {
		j := c.after(last)
		if j == dismissed {
			return
		}
		j.work()
		last = j
	}
}

// after waits for another job than the last.
func (c *crew) after(last *job) *job {
	for range patience {
		if j := c.job.Load(); j != last {
			return j
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.asleep.Add(1)
	defer c.asleep.Add(-1)
	for {
		if j := c.job.Load(); j != last {
			return j
		}
		c.wake.Wait()
	}
}

// run is Parallel by these workers.
func (c *crew) run(n, grain int, f func(lo, hi int)) {
	parts := parts(c.workers, n, grain)
	if parts <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	j := &job{n: n, parts: parts, f: f, finished: make(chan struct{}, 1)}
	c.post(j)
	j.work()
	j.wait()
	if r := j.failed.Load(); r != nil {
		panic(*r)
	}
}

// parts is in how many parts [0, n) is dealt out.
func parts(workers, n, grain int) int {
	if workers == 1 {
		return 1
	}
	grain = max(grain, 1)
	return min((n+grain-1)/grain, 4*workers)
}

// work does parts as long as there are any.
func (j *job) work() {
	for {
		p := int(j.next.Add(1)) - 1
		if p >= j.parts {
			return
		}
		j.part(p)
		if int(j.done.Add(1)) == j.parts && j.state.Swap(complete) == waiting {
			j.finished <- struct{}{}
		}
	}
}

func (j *job) part(p int) {
	defer func() {
		if r := recover(); r != nil {
			j.failed.CompareAndSwap(nil, &r)
		}
	}()
	j.f(j.n*p/j.parts, j.n*(p+1)/j.parts)
}

// wait returns when all parts are done.
func (j *job) wait() {
	for range patience {
		if j.state.Load() == complete {
			return
		}
	}
	if j.state.CompareAndSwap(working, waiting) {
		<-j.finished
	}
}

// Crew is workers for those who have calls for the processor in the midst of other
// work. Close sends them home.
type Crew struct{ *crew }

// NewCrew has as many workers as the processor has cores.
func NewCrew() *Crew { return &Crew{newCrew(runtime.GOMAXPROCS(0))} }

// NewCrewOf has so many workers, if there are as many cores.
func NewCrewOf(workers int) *Crew { return &Crew{newCrew(max(workers, 1))} }

// Parallel deals ranges of [0, n) to workers as they get free. It is what a
// graph.Call wants.
func (c *Crew) Parallel(n, grain int, f func(lo, hi int)) { c.run(n, grain, f) }

// Close sends the workers home and waits until they are there.
func (c *Crew) Close() {
	c.dismiss()
	c.home.Wait()
}
