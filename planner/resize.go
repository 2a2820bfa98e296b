package planner

import (
	"errors"
	"fmt"

	"memopt/memopt/graph"
	"memopt/planner/pack"
)

// planOf is a whole plan of steps that were chosen elsewhere. A limit that it does not keep is none of its request.
func (m *model) planOf(g *graph.Graph, r Request, steps []Step) (*Plan, error) {
	if err := m.relate(r); err != nil {
		return nil, err
	}
	p, base, err := m.begin(g, r)
	if err != nil {
		return nil, err
	}
	c, err := m.candidateOf(steps)
	if room, limited := p.Room(); err == nil && limited {
		c, err = m.into(c, room)
	}
	if err != nil {
		return nil, err
	}
	p.adopt(c)
	if room, limited := p.Room(); limited && p.Arena > room {
		p.Request.Budget, p.Request.ActivationBudget = Size{}, Size{}
	}
	if p.Request.MaxOverhead > 0 && c.cost > m.allows(p.Request.MaxOverhead) {
		p.Request.MaxOverhead = 0
	}
	if p.Bound, err = m.bound(c, c.placed.Height, nil); err != nil {
		return nil, err
	}
	p.s, p.c = &search{m: m, base: base, plan: p}, c
	if err := Check(p); err != nil {
		panic(fmt.Sprintf("planner: a resized plan is wrong: %v", err))
	}
	return p, nil
}

// candidateOf simulates and places given steps.
func (m *model) candidateOf(steps []Step) (*candidate, error) {
	return m.place(&candidate{again: ranAgain(steps, len(m.g.Nodes)), t: m.simulate(steps), by: given})
}

// into is a candidate in an arena of so many bytes, or as it was if it has no places there. Who was solved for that
// room has: the lowest arena that is found without one may end above it.
func (m *model) into(c *candidate, room int64) (*candidate, error) {
	if c.placed.Height <= room || c.t.peak > room {
		return c, nil
	}
	within, err := m.placeWithin(c.anew(), room)
	var beyond *pack.CapacityError
	if errors.As(err, &beyond) {
		return c, nil
	}
	return within, err
}
