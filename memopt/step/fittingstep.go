package step

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"

	"memopt/configs"
	"memopt/internal/bytesize"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/memopt/devices"
	"memopt/memopt/fit"
	"memopt/memopt/machine"
	"memopt/planner"
)

// WouldFit adds to the error of a device with too little memory for a plan what would fit in the available memory:
// the plan under a budget, smaller dims, ONNX Runtime's levels, and lossy storage if nothing else does. Any other
// error is returned unchanged.
func (m *Model) WouldFit(p *planner.Plan, s *schedule.Schedule, err error) error {
	e := machine.AsMemoryError(err)
	switch {
	case e == nil && errors.Is(err, syscall.ENOMEM): // the memory was available when stepFits checked
		e = &machine.MemoryError{Err: err, Short: devices.StepShort(s), Room: -1}
		if most := machine.Memory(); most > 0 && most < e.Short.Requested {
			e.Room = most
		}
	case e == nil:
		return err
	}
	f := m.Fitting(p.Request.Dims)
	f.Config.Budget, f.Config.ActivationBudget = configs.Budget{}, configs.Budget{}
	takes := func(m *Model, s *schedule.Schedule) int64 {
		load, err := devices.Loads(m.Config)
		if err != nil {
			return math.MaxInt64
		}
		return devices.StepBytes(s) + devices.LoadBytes(s, load, nil)
	}
	f.holds = func(other *Model, q *planner.Plan) bool {
		s, _, err := other.Schedule(q)
		return e.Room < 0 || err == nil && takes(other, s) <= e.Room
	}
	all := takes(m, s)
	if e.Room >= 0 && all > devices.StepBytes(s) {
		f.Offer(fit.Change("load_mode", string(loader.Streamed)))
	}
	switch beside := all - p.Memory.Total; {
	case e.Room < 0:
		f.least()
	case e.Room > beside:
		f.within(e.Room - beside)
	}
	f.Spell()
	e.Changes, e.Note = f.Found, f.Note()
	return e
}

// least looks for the lowest plan there is, for devices that do not report how much memory they have.
func (f *Fitting) least() {
	lowest := f.Config
	f.Config.MaxOverhead = 1000 // unlimited in effect: the plan under such a limit is the lowest
	p, err := f.Plan()
	f.Config = lowest
	if err == nil {
		f.Offer(fit.Change("budget", bytesize.Below(p.Memory.Total+1<<20/10)).Costing().And("nothing lower was found, and the driver does not say how much it has"))
	}
}

// within looks for changes that fit in a budget.
func (f *Fitting) within(bytes int64) {
	budget := fit.Change("budget", bytesize.Below(bytes)).Costing()
	fits := f.Offer(budget)
	rows, beside := f.m.BatchDim(), budget.Set
	for _, dim := range f.m.Graph.Names() {
		if f.Config.Dims[dim] < 2 {
			continue
		}
		free := f.dim(dim, budget.Set, true)
		if !free && !fits {
			f.dim(dim, budget.Set, false)
		}
		if free && dim == rows {
			beside = nil
		}
	}
	f.accumulates(beside...)
	var levels []fit.Row
	for level := f.Config.Level + 1; level <= 2; level++ {
		levels = append(levels, fit.Change("level", fmt.Sprint(level)).Costing())
	}
	f.First(levels...)
	if !fits && len(f.Found) == 0 && !f.m.Steps.Brought() && f.Config.Compat == "" && f.Config.Lossy == "off" {
		f.Offer(fit.All(budget, fit.Change("lossy", "bf16")).Costing().And("gradients are not exact"))
	}
}

// dim looks for the largest size of a dim that fits in a budget, either without extra compute (free) or with any.
func (f *Fitting) dim(dim string, budget []planner.Setting, free bool) bool {
	const solves = 4 // approximate number of plans that the search for a size makes
	work := solves * len(f.m.Graph.Nodes)
	if err := f.spend(work); err != nil {
		f.Late(err, planner.Setting{Name: "dims"})
		return false
	}
	set := slices.Clone(budget)
	if free {
		set = append(set, planner.Setting{Name: "max_overhead", Value: "0%"})
	}
	c, ok := f.With(set)
	if !ok {
		return false
	}
	other, err := f.m.With(c)
	if err != nil {
		return false
	}
	own, err := other.Steps.Own(other.Ask())
	if err != nil {
		return false
	}
	q, err := own.Largest(dim, 0)
	if err != nil || q == nil {
		return false
	}
	now := f.Config.Dims[dim]
	size := min(q.Request.Dims[dim], now-1)
	// Inputs count twice outside the arena, and their share depends on the size.
	for tries := 0; size > 0 && tries < 4; tries++ {
		c := fit.Smaller(dim, size, now)
		if !free {
			c.Set = append(c.Set, budget...)
		}
		if p := f.tried(c.Set); p != nil {
			if !free {
				c.Note = f.m.takes(p).Cost()
			}
			f.Found = append(f.Found, c)
			return true
		}
		size -= max(1, size/16)
	}
	return false
}
