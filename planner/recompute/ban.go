package recompute

// ban is what may not run again in a narrower problem. The plans of that are plans
// of the whole one. Where much is forgotten, repairs begin with dear operators that
// are better left alone, and no few changes lead back. With those out of the question
// they begin with others.
type ban struct {
	dear float64 // what costs more, as a part of the whole cost, does not run again
	but  float64 // for what the forward pass begins with, up to this part of it
}

// Backward passes read last what was made first. When that runs again, most else is
// gone, so it is what is made last that is better kept.
var bans = []ban{
	{0.002, 7. / 16},
	{0.02, 0},
}

const (
	far     = 0.03    // a gap for which a narrower problem is looked at
	banWork = 5 << 19 // launches simulated for a limit in one
	nearer  = 0.85    // the part of the gap that is enough to close
)

// ban looks for a plan in narrower problems as long as the best is far from the least
// that one may cost. It reports whether it found a better one.
func (x *search) ban(least float64) (better bool) {
	if x.best.gone == nil {
		return false
	}
	for _, s := range x.s.narrower() {
		if x.extra <= least+far*x.s.total {
			break
		}
		if s == nil {
			continue
		}
		s.last = plan{}
		s.solve(x.limit, x.extra-nearer*(x.extra-least), banWork)
		if p := s.last; p.gone != nil && x.sim.run(p, x.limit) && x.sim.peak <= x.limit && x.sim.extra < x.extra {
			x.best, x.extra, better = p, x.sim.extra, true
		}
	}
	return better
}

// narrower lists solvers for narrower problems; nil is one for a problem that is not.
func (s *Solver) narrower() []*Solver {
	if s.narrowed != nil {
		return s.narrowed
	}
	for _, b := range bans {
		p, same := *s.p, true
		p.Again = make([]bool, len(p.Cost))
		for op, again := range s.p.Again {
			p.Again[op] = again && (p.Cost[op] <= b.dear*s.total || float64(op) < b.but*float64(p.Border))
			same = same && p.Again[op] == again
		}
		var t *Solver
		if !same && p.Forced == nil { // what must be forgotten must run again
			t, _ = New(&p)
		}
		s.narrowed = append(s.narrowed, t)
	}
	return s.narrowed
}
