package cpu

import "time"

// copier makes copies beside the launches, one after another in the order in which they are issued.
type copier struct {
	jobs   chan *copying
	late   bool           // copies are made where they are waited for, at the last moment
	waited *time.Duration // the time that launches have waited
}

// copying is a copy that is issued. Nil is one that is not.
type copying struct {
	do   func() error
	over chan struct{}
	err  error
}

// newCopier makes one to which most copies may be issued before the first has ended.
func newCopier(most int, late bool, waited *time.Duration) *copier {
	c := &copier{jobs: make(chan *copying, most), late: late, waited: waited}
	if !late {
		go func() {
			for x := range c.jobs {
				x.run()
			}
		}()
	}
	return c
}

func (x *copying) run() {
	defer close(x.over)
	x.err = x.do()
}

func (c *copier) issue(do func() error) *copying {
	x := &copying{do: do, over: make(chan struct{})}
	if !c.late {
		c.jobs <- x
	}
	return x
}

// wait waits for the end of a copy, and returns its error.
func (c *copier) wait(x *copying) error {
	if x == nil {
		return nil
	}
	select {
	case <-x.over:
	default:
		if c.late {
			x.run()
			break
		}
		begin := time.Now()
		<-x.over
		*c.waited += time.Since(begin)
	}
	return x.err
}

// settle waits for the copies that are under way, as they use memory, and returns the first error.
func (c *copier) settle(all []*copying) (err error) {
	for _, x := range all {
		if x == nil || c.late {
			continue
		}
		if <-x.over; err == nil {
			err = x.err
		}
	}
	return err
}

func (c *copier) close() { close(c.jobs) }
