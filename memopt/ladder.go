package memopt

import (
	"errors"
	"math"

	"memopt/planner"
)

// Rung is the largest size of a dim that fits the settings' budget at up to some
// extra compute.
type Rung struct {
	Most float64 // extra compute as a share of the step's; infinite for any
	Size int64   // 0: none fits
	// Plan is what Plan gives at that size under the settings, and Model the model under those.
	Plan  *planner.Plan
	Model *Model
}

// costLimits are the limits of extra compute that people ask about.
var costLimits = []float64{0, 0.05, 0.1, 0.3}

// Ladder is the largest size of a dim at each of a few limits of extra compute, and last
// at any cost, or within the settings' own limit. An error says why there is not even a last one.
func (m *Model) Ladder(dim string) ([]Rung, error) {
	last := math.Inf(1)
	if m.Config.MaxOverhead > 0 {
		last = m.Config.MaxOverhead
	}
	var all []Rung
	for _, most := range costLimits {
		if most < last && (most > 0 || last > math.SmallestNonzeroFloat64) {
			all = append(all, Rung{Most: most})
		}
	}
	all = append(all, Rung{Most: last})
	for i := range all {
		r := &all[i]
		if i > 0 && all[i-1].Plan != nil && all[i-1].Plan.SearchEnded { // budgets bind no size
			r.Size, r.Plan, r.Model = all[i-1].Size, all[i-1].Plan, all[i-1].Model
			continue
		}
		if err := m.rung(dim, r); err != nil {
			var short *planner.BudgetError
			if i < len(all)-1 && errors.As(err, &short) {
				continue
			}
			return nil, err
		}
	}
	return all, nil
}

// rung looks for the size of one limit. The search for the largest size may know a plan
// that planning that size does not find: then the size is less.
func (m *Model) rung(dim string, r *Rung) error {
	c := m.Config
	if c.MaxOverhead = r.Most; math.IsInf(r.Most, 1) {
		c.MaxOverhead = 0
	} else if r.Most == 0 {
		c.MaxOverhead = math.SmallestNonzeroFloat64
	}
	search, err := m.with(c)
	if err != nil {
		return err
	}
	p, err := search.Largest(dim)
	if err != nil {
		return err
	}
	fits := func(size int64) bool {
		var at *Model
		if at, err = m.at(dim, size); err != nil {
			return false
		}
		var q *planner.Plan
		if q, err = at.Plan(); err != nil || q.Result.Overhead > r.Most {
			return false
		}
		q.SearchEnded = p.SearchEnded && size == p.Request.Dims[dim]
		r.Size, r.Plan, r.Model = size, q, at
		return true
	}
	size, step := p.Request.Dims[dim], int64(1)
	for !fits(size) {
		if size == 1 {
			return err
		}
		size, step = max(1, size-step), 2*step
	}
	for step /= 4; step > 0; step /= 2 { // what was stepped over
		if r.Size+step < p.Request.Dims[dim] {
			fits(r.Size + step)
		}
	}
	return nil
}

// at is the model under its settings with another size of a dim.
func (m *Model) at(dim string, size int64) (*Model, error) {
	c := m.Config
	c.Dims = map[string]int64{dim: size}
	for name, n := range m.Config.Dims {
		if name != dim {
			c.Dims[name] = n
		}
	}
	return m.with(c)
}
