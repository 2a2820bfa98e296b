package planner

import "math"

// relate tells what a step costs against the plain form that the request names: the difference counts as extra cost of
// every plan. It prices both.
func (m *model) relate(r Request) error {
	if err := m.reprice(r.Costs); err != nil {
		return err
	}
	if r.Plain == nil || r.Plain == m.g {
		return nil
	}
	plain, err := newModel(r.Plain, r)
	if err != nil {
		return err
	}
	if err := plain.reprice(r.Costs); err != nil {
		return err
	}
	m.plain, m.own, m.total = plain, m.total-plain.total, plain.total
	m.ownFlops = m.flopsSum - plain.flopsSum
	return nil
}

// baseline is everything kept, in the plain form; base is that in the step's.
func (m *model) baseline(base *candidate) (Summary, error) {
	if m.plain == nil {
		return m.summary(base), nil
	}
	c, err := m.plain.candidate(make([]bool, len(m.plain.g.Nodes)))
	if err != nil {
		return Summary{}, err
	}
	return m.plain.summary(c), nil
}

// overhead is an extra cost as a share of the plain step's.
func (m *model) overhead(extra float64) float64 { return share(m.own+extra, m.total) }

// share is a cost as a share of another, which may be far below 1: measured costs are in seconds. Of nothing it is 0,
// never -0, which files would tell.
func share(cost, of float64) float64 {
	if cost == 0 || of == 0 {
		return 0
	}
	return cost / of
}

// allows is the extra cost that a limit of overhead leaves for what runs again; without one it leaves any.
func (m *model) allows(overhead float64) float64 {
	if overhead <= 0 {
		return math.Inf(1)
	}
	return overhead*m.total - m.own
}

// Cost is what a step under the plan costs, in the units of its costs, and what the plain step does.
func (p *Plan) Cost() (cost, plain float64) {
	return p.m.total + p.m.own + p.m.againCost(p.Steps), p.m.total
}

// FormOverhead is what the form of the step costs above the plain step, as a share of that: the plan's overhead if
// nothing ran again.
func (p *Plan) FormOverhead() float64 { return p.m.overhead(0) }
