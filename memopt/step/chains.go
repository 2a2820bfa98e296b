package step

import (
	"memopt/internal/schedule"
	"memopt/planner"
	"memopt/planner/chains"
)

// Schedule flattens a plan, and fuses elementwise launches into chains if the settings say so; fused is nil if
// not.
func (m *Model) Schedule(p *planner.Plan) (s *schedule.Schedule, fused *chains.Chains, err error) {
	on := m.Config.FuseChains
	if on == "on" || on == "auto" && p.Request.Lowered {
		return p.Chained()
	}
	s, err = p.Schedule()
	return s, nil, err
}
