package memopt

import (
	"sync"
	"sync/atomic"
	"time"

	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/planner"
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

// programMemory is the allowance for the program itself, apart from the step.
const programMemory = 16 << 20

// memoryWatch samples the process's anonymous memory and keeps the peak.
type memoryWatch struct {
	most atomic.Int64
	stop chan struct{}
	over sync.WaitGroup
}

// watchMemory samples until end is called.
func watchMemory() *memoryWatch {
	w := &memoryWatch{stop: make(chan struct{})}
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

func (w *memoryWatch) look() {
	if n := AnonymousMemory(); n > w.most.Load() {
		w.most.Store(n)
	}
}

func (w *memoryWatch) end() {
	close(w.stop)
	w.over.Wait()
}

// against compares the measured peak with what a plan and the loading of weights promise. It returns nil if the system does not report
// anonymous memory.
func (w *memoryWatch) against(p *planner.Plan, t schedule.Trace, data *tensorfile.Set, load *loader.Report) *Anonymous {
	a := &Anonymous{Measured: w.most.Load()}
	if a.Measured == 0 {
		return nil
	}
	if data != nil {
		a.Data = data.Copied
	}
	if !p.Request.Lowered {
		step := p.Memory.Total + t.Workspace + a.Data
		if load != nil {
			step = max(step, load.Promised)
		}
		a.Promised = step + step/20 + programMemory
	}
	return a
}
