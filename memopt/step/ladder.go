package step

import (
	"errors"
	"math"

	"memopt/internal/fitwords"
	"memopt/planner"
)

// Rung is the largest size of a dim that fits in the settings' budget with up to some extra cost.
type Rung struct {
	Most float64 // limit of extra cost, as a share of the step's; infinite means none
	Size int64   // 0 if none fits
	// Plan is the plan at that size under the settings, and Model the model under those settings.
	Plan  *planner.Plan
	Model *Model
}

// Ladder finds the largest size of a dim at each of fitwords.Limits below the settings' own limit, and finally at that
// limit, or at any cost if there is none. It fails if even the last rung has no size.
func (m *Model) Ladder(dim string) ([]Rung, error) {
	last := math.Inf(1)
	if m.Config.MaxOverhead > 0 {
		last = m.Config.MaxOverhead
	}
	var all []Rung
	for _, most := range fitwords.Limits {
		if most < last && (most > 0 || last > math.SmallestNonzeroFloat64) {
			all = append(all, Rung{Most: most})
		}
	}
	all = append(all, Rung{Most: last})
	for i := range all {
		r := &all[i]
		if i > 0 && all[i-1].Plan != nil && all[i-1].Plan.SearchEnded { // the search tries no larger size
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

// rung finds the size for one limit. The search for the largest size may find a plan that planning for that size
// does not find: then the size is reduced until it does.
func (m *Model) rung(dim string, r *Rung) error {
	c := m.Config
	if c.MaxOverhead = r.Most; math.IsInf(r.Most, 1) {
		c.MaxOverhead = 0
	} else if r.Most == 0 {
		c.MaxOverhead = math.SmallestNonzeroFloat64
	}
	search, err := m.With(c)
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
	for step /= 4; step > 0; step /= 2 { // sizes that were skipped
		if r.Size+step < p.Request.Dims[dim] {
			fits(r.Size + step)
		}
	}
	return nil
}

// at is the model with another size of a dim.
func (m *Model) at(dim string, size int64) (*Model, error) {
	c := m.Config
	c.Dims = map[string]int64{dim: size}
	for name, n := range m.Config.Dims {
		if name != dim {
			c.Dims[name] = n
		}
	}
	return m.With(c)
}
