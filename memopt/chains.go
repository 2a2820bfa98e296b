package memopt

import "memopt/planner"

// schedule flattens a plan, with elementwise launches in chains as the settings
// say; chains is nil where they are not.
func (m *Model) schedule(p *planner.Plan) (s *planner.Schedule, chains *planner.Chains, err error) {
	on := m.Config.FuseChains
	if on == "on" || on == "auto" && p.Request.Lowered {
		return p.Chained()
	}
	s, err = p.Schedule()
	return s, nil, err
}
