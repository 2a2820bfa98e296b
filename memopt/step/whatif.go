package step

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/memopt/exit"
	"memopt/planner"
)

// Frontier is the curve of peak against extra cost for the model under its dims, over all forms that a budget may
// select.
func (m *Model) Frontier() (*planner.Curve, error) { return stop.When(m.Ctx, m.frontiers) }

func (m *Model) frontiers() (c *planner.Curve, err error) {
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.sized(m.Config.Dims); err != nil {
		return nil, err
	}
	if c, err = m.Steps.Frontier(m.Ask()); err != nil {
		return nil, exit.Classify(err)
	}
	c.Warnings = slices.Concat(m.strayDims(), m.storedStatistics(), m.UnclearRoles(), kernels.Beyond(m.Graph, m.Config.Dims))
	return c, nil
}

// Largest finds the largest size of a dim that fits in the settings' budget, and returns the plan for it.
func (m *Model) Largest(dim string) (*planner.Plan, error) {
	return stop.When(m.Ctx, func() (*planner.Plan, error) { return m.makeLargest(dim) })
}

func (m *Model) makeLargest(dim string) (p *planner.Plan, err error) {
	begin := time.Now()
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	if !slices.Contains(m.Graph.Names(), dim) {
		return nil, exit.Input(errors.New(m.noDim(dim)))
	}
	dims := map[string]int64{dim: 1}
	for name, n := range m.Config.Dims {
		dims[name] = n
	}
	if err := m.sized(dims); err != nil {
		return nil, err
	}
	if err := m.budgetsStates(); err != nil {
		return nil, err
	}
	if p, err = m.Steps.Largest(m.Ask(), dim); err != nil {
		var short *planner.BudgetError
		if !errors.As(err, &short) {
			return nil, exit.Classify(err)
		}
		dims[dim] = short.Least
		return nil, exit.Classify(fmt.Errorf("not even %s=%d fits: %w", dim, short.Least, m.advised(err, dims)))
	}
	p.Trains = m.Trains()
	p.Warnings = slices.Concat(p.Warnings, m.strayDims(), m.UnclearRoles(), m.indexRange(p))
	p.Took = time.Since(begin)
	return p, nil
}

// sized reports the model's dims that have no size.
func (m *Model) sized(dims map[string]int64) error {
	msg := m.Config.Unsized(m.Graph.Names(), dims)
	if msg == "" {
		return nil
	}
	for _, stray := range m.strayDims() {
		msg += "; " + stray
	}
	return exit.Input(errors.New(msg))
}
