package machine

import (
	"sync"
	"sync/atomic"
	"time"
)

// Anonymous compares the promised with the measured anonymous memory of the process. Models, data and checkpoints
// are mapped files, so anonymous memory is that of the step and of the program itself.
type Anonymous struct {
	// Promised is the plan's total, the device's work space and Data, plus a twentieth of their sum and 16 MiB for
	// the program. It is 0 for Vulkan devices: there the plan's memory is elsewhere (drivers for the processor use
	// shared memory), and most of what is measured belongs to the driver's compiler.
	Promised int64
	Measured int64 // peak
	Data     int64 // bytes of data that could not be mapped: compressed arrays, or arrays in another order
}

// ProgramMemory is the allowance for the program itself, apart from the step.
const ProgramMemory = 16 << 20

// Watch samples the process's anonymous memory and keeps the peak.
type Watch struct {
	most atomic.Int64
	stop chan struct{}
	over sync.WaitGroup
}

// NewWatch samples until End is called.
func NewWatch() *Watch {
	w := &Watch{stop: make(chan struct{})}
	w.look() // a short run may end before the goroutine starts
	w.over.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *Watch) look() {
	if n := AnonymousMemory(); n > w.most.Load() {
		w.most.Store(n)
	}
}

// Peak is the most that was seen so far.
func (w *Watch) Peak() int64 { return w.most.Load() }

// End ends sampling.
func (w *Watch) End() {
	close(w.stop)
	w.over.Wait()
}
