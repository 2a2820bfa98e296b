package recompute

import (
	"math"
	"slices"
)

// BruteForce is the least extra cost within a limit of all plans that forget
// any set of values at the border, and at most one event more; +Inf if none
// fits.
func (s *Solver) BruteForce(limit int64) float64 {
	var values []int32
	for v, x := range s.spans {
		if s.may(int32(v)) && x.made < s.p.Border {
			values = append(values, int32(v))
		}
	}
	least := math.Inf(1)
	try := func(p plan) {
		if s.sim.run(p, limit) && s.sim.peak <= limit {
			least = min(least, s.sim.extra)
		}
	}
	p := plan{gone: make([]bool, len(s.p.Bytes))}
	for set := range 1 << min(len(values), 12) {
		for i, v := range values {
			p.gone[v] = set>>i&1 == 1
		}
		p.events = nil
		try(p)
		for at := range int32(len(s.p.Cost)) {
			v := values[(int(at)+set)%len(values)]
			p.events = []event{{at, v}}
			try(p)
		}
	}
	p.gone = slices.Clone(s.keep.gone)
	p.events = nil
	try(p)
	return least
}
