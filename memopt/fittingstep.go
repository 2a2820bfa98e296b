package memopt

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"memopt/configs"
	"memopt/planner"
)

// wouldFit adds to the error of a device with too little memory for a plan what would fit in the available memory:
// the plan under a budget, smaller dims, ONNX Runtime's levels, and lossy storage if nothing else does. Any other
// error is returned unchanged.
func (m *Model) wouldFit(p *planner.Plan, s *planner.Schedule, err error) error {
	e := asMemoryError(err)
	switch {
	case e == nil && errors.Is(err, syscall.ENOMEM): // the memory was available when stepFits checked
		e = &MemoryError{Err: err, Short: stepShort(s), Room: -1}
		if most := machineMemory(); most > 0 && most < e.Short.Requested {
			e.Room = most
		}
	case e == nil:
		return err
	}
	f := m.fitting(p.Request.Dims)
	f.config.Budget, f.config.ActivationBudget = configs.Budget{}, configs.Budget{}
	switch beside := stepBytes(s) - p.Memory.Total; {
	case e.Room < 0:
		f.least()
	case e.Room > beside:
		f.holds = func(other *Model, q *planner.Plan) bool {
			s, _, err := other.schedule(q)
			return err == nil && stepBytes(s) <= e.Room
		}
		f.within(e.Room - beside)
	}
	spell(m.Config, f.found)
	e.Changes = f.found
	for _, note := range f.unlooked() {
		e.Note = note
	}
	return e
}

// least looks for the lowest plan there is, for devices that do not report how much memory they have.
func (f *fitting) least() {
	lowest := f.config
	f.config.MaxOverhead = 1000 // unlimited in effect: the plan under such a limit is the lowest
	_, p := f.plan()
	f.config = lowest
	if p == nil {
		return
	}
	set := budgetSetting(p.Memory.Total + 1<<20/10)
	if _, p = f.plan(set); p != nil {
		f.found = append(f.found, planner.Change{Set: []planner.Setting{set}, Note: costNote(p) + "; nothing lower was found, and the driver does not say how much it has"})
	}
}

// within looks for changes that fit in a budget.
func (f *fitting) within(bytes int64) {
	budget := budgetSetting(bytes)
	_, p := f.plan(budget)
	if p != nil {
		f.found = append(f.found, planner.Change{Set: []planner.Setting{budget}, Note: costNote(p)})
	}
	rows, beside := f.m.batchDim(), []planner.Setting{budget}
	for _, dim := range f.m.Graph.Names() {
		if f.config.Dims[dim] < 2 {
			continue
		}
		free := f.dim(dim, budget, true)
		if !free && p == nil {
			f.dim(dim, budget, false)
		}
		if free && dim == rows {
			beside = nil
		}
	}
	f.accumulates(beside...)
	f.levels()
	if p == nil && len(f.found) == 0 && !f.m.steps.Brought() && f.config.Compat == "" && f.config.Lossy == "off" {
		lossy := planner.Setting{Name: "lossy", Value: "bf16"}
		if _, p := f.plan(budget, lossy); p != nil {
			f.found = append(f.found, planner.Change{Set: []planner.Setting{budget, lossy}, Note: costNote(p) + "; gradients are not exact"})
		}
	}
}

// dim looks for the largest size of a dim that fits in a budget, either without extra compute (free) or with any.
func (f *fitting) dim(dim string, budget planner.Setting, free bool) bool {
	const solves = 4 // approximate number of plans that the search for a size makes
	work := solves * len(f.m.Graph.Nodes)
	if f.left < work {
		f.short = append(f.short, "dims")
		return false
	}
	f.left -= work
	set := []planner.Setting{budget}
	if free {
		set = append(set, planner.Setting{Name: "max_overhead", Value: "0%"})
	}
	c, ok := f.with(set)
	if !ok {
		return false
	}
	other, err := f.m.with(c)
	if err != nil {
		return false
	}
	own, err := other.steps.Own(other.ask())
	if err != nil {
		return false
	}
	q, err := own.Largest(dim, 0)
	if err != nil || q == nil {
		return false
	}
	now := f.config.Dims[dim]
	size := min(q.Request.Dims[dim], now-1)
	// Inputs count twice outside the arena, and their share depends on the size.
	for tries := 0; size > 0 && tries < 4; tries++ {
		set := []planner.Setting{{Name: "dims", Value: fmt.Sprintf("%s=%d", dim, size)}}
		if !free {
			set = append(set, budget)
		}
		if _, p := f.plan(set...); p != nil {
			c := planner.Change{Set: set, Share: float64(now-size) / float64(now)}
			if !free {
				c.Note = costNote(p)
			}
			f.found = append(f.found, c)
			return true
		}
		size -= max(1, size/16)
	}
	return false
}

// levels tries ONNX Runtime's levels of recomputation.
func (f *fitting) levels() {
	for level := f.config.Level + 1; level <= 2; level++ {
		set := planner.Setting{Name: "level", Value: fmt.Sprint(level)}
		if _, p := f.plan(set); p != nil {
			f.found = append(f.found, planner.Change{Set: []planner.Setting{set}, Note: costNote(p)})
			return
		}
	}
}

// budgetSetting is a budget of at most this many bytes, rounded down to a short number.
func budgetSetting(bytes int64) planner.Setting {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}} {
		if bytes >= 16*u.bytes {
			return planner.Setting{Name: "budget", Value: fmt.Sprintf("%.1f%s", math.Floor(10*float64(bytes)/float64(u.bytes))/10, u.name)}
		}
	}
	return planner.Setting{Name: "budget", Value: fmt.Sprint(bytes)}
}
