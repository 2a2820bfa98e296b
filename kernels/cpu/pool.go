package cpu

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// pool is the worker pool of a device. Launches are short and follow each other closely;
// waking a thread takes longer than many of them, so an idle worker spins for a while before
// it sleeps.
type pool struct {
	workers int
	job     atomic.Pointer[job]
	asleep  atomic.Int32
	lock    sync.Mutex
	wake    *sync.Cond
	home    sync.WaitGroup // of the workers that have not ended
}

// job is f over parts of [0, n), which workers claim dynamically.
type job struct {
	n, parts   int
	f          func(lo, hi int)
	next, done atomic.Int64
	failed     atomic.Pointer[any]
	state      atomic.Int32
	finished   chan struct{} // wakes the waiting caller
}

// The state of a job and its caller.
const (
	working  = iota
	waiting  // the caller sleeps and must be woken
	complete // all parts are done
)

// dismissed is the job that ends a worker.
var dismissed = new(job)

// patience is the number of spins before sleeping: tens of microseconds.
const patience = 150_000

// newPool starts workers − 1 goroutines; the caller of run is a worker, too.
func newPool(workers int) *pool {
	c := &pool{workers: workers}
	c.wake = sync.NewCond(&c.lock)
	for range min(workers, runtime.GOMAXPROCS(0)) - 1 {
		c.home.Go(c.work)
	}
	return c
}

// dismiss ends the workers.
func (c *pool) dismiss() { c.post(dismissed) }

func (c *pool) post(j *job) {
	c.job.Store(j)
	if c.asleep.Load() > 0 {
		c.lock.Lock()
		c.wake.Broadcast()
		c.lock.Unlock()
	}
}

// work runs jobs until dismissed.
func (c *pool) work() {
	debug.SetPanicOnFault(true) // data may be mapped from a file that is truncated meanwhile
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

// after waits for a job other than last.
func (c *pool) after(last *job) *job {
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

// run calls f for parts of [0, n) on the workers.
func (c *pool) run(n, grain int, f func(lo, hi int)) {
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

// parts is the number of parts that [0, n) is split into.
func parts(workers, n, grain int) int {
	if workers == 1 {
		return 1
	}
	grain = max(grain, 1)
	return min((n+grain-1)/grain, 4*workers)
}

// work runs parts until none are left.
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

// Pool is a worker pool for other devices that run some launches on the CPU.
type Pool struct{ *pool }

// NewPool makes a pool with GOMAXPROCS workers.
func NewPool() *Pool { return &Pool{newPool(runtime.GOMAXPROCS(0))} }

// NewPoolOf makes a pool with the given number of workers, at most GOMAXPROCS.
func NewPoolOf(workers int) *Pool { return &Pool{newPool(max(workers, 1))} }

// Parallel calls f for ranges of [0, n) on the workers; see graph.Call.Parallel.
func (c *Pool) Parallel(n, grain int, f func(lo, hi int)) { c.run(n, grain, f) }

// Close ends the workers and waits for them.
func (c *Pool) Close() {
	c.dismiss()
	c.home.Wait()
}
