package step

import (
	"slices"
	"time"

	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/planner"
)

// Plan decides which values to keep, which to recompute and where to place each.
func (m *Model) Plan() (*planner.Plan, error) { return stop.When(m.Ctx, m.plan) }

func (m *Model) plan() (p *planner.Plan, err error) {
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.sized(m.Config.Dims); err != nil {
		return nil, err
	}
	if err := m.budgetsStates(); err != nil {
		return nil, err
	}
	begin := time.Now()
	if p, err = m.Steps.Plan(m.Ask()); err != nil {
		return nil, m.advised(err, m.Config.Dims)
	}
	suggest(p, m.Config.Requests)
	p.Trains = m.Trains()
	p.Warnings = slices.Concat(p.Warnings, m.strayDims(), m.idleSettings(), m.attentionInPieces(p), m.storedStatistics(), m.UnclearRoles(), m.indexRange(p))
	p.Took = time.Since(begin)
	return p, nil
}
