package forms

import (
	"errors"
	"maps"

	"memopt/planner"
)

// Largest finds the largest size of a dim that fits in any form, and its plan. If none fits, the
// error says what would.
func (s *Steps) Largest(ask Ask, dim string) (*planner.Plan, error) {
	if ask.StatesByBudget { // most fits with all states elsewhere; of that size the plan may have more of them stay
		all := ask
		all.StatesByBudget = false
		p, err := s.Largest(all, dim)
		if err != nil {
			return nil, err
		}
		ask.Dims = p.Request.Dims
		if q, err := s.Plan(ask); err == nil {
			q.SearchEnded = p.SearchEnded
			return q, nil
		}
		return p, nil
	}
	if ask.States != "" && ask.HostBudget > 0 {
		of := ask // states have one size at all sizes of a dim
		of.Dims = maps.Clone(ask.Dims)
		if of.Dims == nil {
			of.Dims = map[string]int64{}
		}
		of.Dims[dim] = 1
		within, err := s.sent(of)
		if err != nil {
			return nil, err
		}
		ask.StatesStay, ask.Elsewhere, ask.HostBudget = within.StatesStay, within.Elsewhere, 0
	}
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	p, wrong := own.Largest(dim, 0)
	best := own
	for other := range own.others(ask) {
		above := int64(0)
		if wrong == nil {
			above = p.Request.Dims[dim]
		}
		if q, err := other.Largest(dim, above); err == nil && q != nil {
			best, p, wrong = other, q, nil
		}
	}
	if t, ok := best.tiling(own); ok && wrong == nil && ask.MaxOverhead > 0 { // at any cost, all layers in tiles need least
		_, err := around(t.whole(), t.layers, func(whole int) (bool, error) {
			other, err := t.in(own, tiled(whole, 0))
			if err != nil {
				return false, nil
			}
			q, err := other.Largest(dim, p.Request.Dims[dim])
			if err != nil || q == nil {
				return false, nil
			}
			best, p = other, q
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if wrong == nil {
		if best != own {
			p.Warnings = append(p.Warnings, best.Does()+", which allows more than "+best.Without())
		}
		if wrong = p.Tabulate(); wrong == nil {
			best.describe(p)
			return p, nil
		}
	}
	var short *planner.BudgetError
	if errors.As(wrong, &short) {
		ask.Dims = maps.Clone(ask.Dims)
		if ask.Dims == nil {
			ask.Dims = map[string]int64{}
		}
		ask.Dims[dim] = short.Least
	}
	return best.advised(wrong, ask)
}

// Largest finds the largest size above another one that fits in this form, and its plan, which has
// no table; nil if there is none.
func (f *Form) Largest(dim string, above int64) (*planner.Plan, error) {
	plan := func(on []bool, above int64) (*planner.Plan, error) {
		g, r, err := f.at(on)
		if err != nil {
			return nil, err
		}
		return planner.Largest(g, r, dim, above)
	}
	p, err := plan(f.on, above)
	if !f.open {
		return p, err
	}
	var choices [][]bool
	if f.mayExtract() {
		choices = append(choices, f.extracted(f.on))
	}
	if most := all(len(f.found)); f.lossy(most) > 0 {
		choices = append(choices, most)
	}
	for _, on := range choices {
		var none *planner.BudgetError
		if p != nil {
			above = p.Request.Dims[dim]
		}
		other, wrong := plan(on, above)
		if other == nil || wrong != nil || err != nil && !errors.As(err, &none) {
			continue
		}
		p, err = other, nil
		f.on, f.Graph = on, other.Graph
	}
	return p, err
}
