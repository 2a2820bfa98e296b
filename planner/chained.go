package planner

import (
	"fmt"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/planner/chains"
	"memopt/planner/check"
)

// Chained is Schedule with pointwise launches put into chains.
func (p *Plan) Chained() (*schedule.Schedule, *chains.Chains, error) {
	s, err := p.Schedule()
	if err != nil {
		return nil, nil, err
	}
	if len(p.Moves) > 0 { // copies begin and end between launches
		return s, &chains.Chains{}, nil
	}
	owner := func(v *graph.Value) int32 { return p.m.owner[v.ID] }
	launches, report, err := chains.Of(p.Graph, s.Launches, owner, func(v *graph.Value) bool {
		o := owner(v)
		return p.m.lasting[o] || p.m.until(p.m.number[o]) > 0
	})
	if err != nil {
		return nil, nil, err
	}
	s.Launches = launches
	x, err := check.ReplayAs(p.decided(), s)
	if err == nil {
		s.Lives, err = x.Lives()
	}
	if err != nil {
		panic(fmt.Sprintf("planner: its own chains are wrong: %v", err))
	}
	return s, report, nil
}
