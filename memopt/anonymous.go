package memopt

import (
	"sync"
	"sync/atomic"
	"time"

	"memopt/memopt/tensorfile"
	"memopt/planner"
)

// Anonymous is the memory of the whole process that no file is behind, as the
// operating system counts it. Models, data and checkpoints are mapped, so what is
// left is the step and the program itself.
type Anonymous struct {
	// Promised is the plan's total, the device's work space, Data, a twentieth of
	// these and 16 MiB for the program. It is 0 for Vulkan devices: the plan's memory is
	// elsewhere (a driver for the processor has it in shared memory), and what is
	// counted here is mostly the driver's compiler.
	Promised int64
	Measured int64 // the most that was seen
	Data     int64 // of the data, what could not be mapped: packed arrays, or another order
}

// programMemory is what the program may take beside the step.
const programMemory = 16 << 20

// memoryWatch looks at the anonymous memory again and again.
type memoryWatch struct {
	most atomic.Int64
	stop chan struct{}
	over sync.WaitGroup
}

// watchMemory looks until ended is called.
func watchMemory() *memoryWatch {
	w := &memoryWatch{stop: make(chan struct{})}
	w.look() // a short run may be over before the other goroutine begins
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

func (w *memoryWatch) look() {
	if n := AnonymousMemory(); n > w.most.Load() {
		w.most.Store(n)
	}
}

func (w *memoryWatch) end() {
	close(w.stop)
	w.over.Wait()
}

// against is what was seen beside what a plan promises; nil where the system does not
// tell.
func (w *memoryWatch) against(p *planner.Plan, t planner.Trace, data *tensorfile.Set) *Anonymous {
	a := &Anonymous{Measured: w.most.Load()}
	if a.Measured == 0 {
		return nil
	}
	if data != nil {
		a.Data = data.Copied
	}
	if !p.Request.Lowered {
		step := p.Memory.Total + t.Workspace + a.Data
		a.Promised = step + step/20 + programMemory
	}
	return a
}
