package planner

import "memopt/planner/outside"

// Streamed sums up what states take elsewhere and in memory.
type Streamed = outside.Streamed

// Streamed is what states of the plan stream, or nil where none were asked to.
func (p *Plan) Streamed() *Streamed {
	r := p.Request
	if r.States == "" {
		return nil
	}
	return p.m.leavers().Sum(r.States, r.StatesStay, &p.m.outside, r.Prices())
}

// leavers are the states that can stream.
func (m *model) leavers() *outside.States {
	if m.senders == nil {
		m.senders = outside.StatesOf(m.g, m.binding)
	}
	return m.senders
}

// Leavers is of how many parameters the states can stream.
func (s *Search) Leavers() int { return s.m.leavers().Parameters() }

// Leave is what streams where the states of so many parameters leave, and what then lies outside the arena.
func (s *Search) Leave(parameters int) (sent *Streamed, fixed int64) {
	all := s.m.leavers()
	stay := all.Parameters() - parameters
	l := outside.Of(s.m.g, s.m.bytes, all.Streams(stay))
	return all.Sum(s.r.States, stay, &l, s.r.Prices()), l.Fixed()
}

// Floor is what no plan's arena goes below.
func (s *Search) Floor() int64 { return s.m.floor(s.r.Elsewhere).Peak }
