package recompute

import (
	"cmp"
	"math"
	"slices"
)

// saving is a value that the plan forgets and makes again, and what keeping it would save.
type saving struct {
	event
	border bool
	worth  float64
}

// restore keeps again whatever fits, the dearest first, until nothing more does. The plan must
// be within the limit. It returns what the plan costs.
func (x *search) restore(p *plan) float64 {
	x.sim.run(*p, x.limit)
	extra := x.sim.extra
	for before := math.Inf(1); extra < before && extra > 0 && !x.ended(); {
		before = extra
		extra = x.restoreList(p, x.savings(p), extra)
	}
	return extra
}

// restoreList keeps a whole list again; if that does not fit, each half of it.
func (x *search) restoreList(p *plan, list []saving, extra float64) float64 {
	if len(list) == 0 || x.ended() {
		return extra
	}
	if len(list) == 1 {
		return x.restoreOne(p, list[0], extra)
	}
	if len(list) <= blockOf(len(p.events)) {
		q := *p
		x.scrape = append(x.scrape[:0], p.events...)
		q.events = x.scrape
		for _, c := range list {
			q.remove(c)
		}
		ok := x.sim.run(q, x.limit) && x.sim.peak <= x.limit && x.sim.extra < extra
		if ok {
			p.events = append(p.events[:0], q.events...)
			return x.sim.extra
		}
		for _, c := range list {
			if c.border {
				p.gone[c.value] = true
			}
		}
	}
	half := (len(list) + 1) / 2
	extra = x.restoreList(p, list[:half], extra)
	return x.restoreList(p, list[half:], extra)
}

// restoreOne keeps one value again if that fits.
func (x *search) restoreOne(p *plan, c saving, extra float64) float64 {
	if x.trial.walks != x.sim.walks && x.walked != x.sim.walks {
		x.sim.run(*p, x.limit)
	}
	if !x.try(p, c.event, false, extra) || x.trial.peak > x.limit {
		return extra
	}
	p.remove(c)
	x.sim.run(*p, x.limit)
	x.walked = x.sim.walks
	return x.sim.extra
}

// blockOf is how many values are kept again at once: one, but for plans of very many events.
func blockOf(events int) int { return max(1, events/16) }

func (p *plan) remove(c saving) {
	if c.border {
		p.gone[c.value] = false
	} else if i, known := p.search(c.event); known {
		p.events = slices.Delete(p.events, i, i+1)
	}
}

// savings lists what a plan forgets and makes again, by the cost of the maker.
// Events that nothing follows from are removed.
func (x *search) savings(p *plan) []saving {
	x.sim.run(*p, x.limit)
	all := x.losses(p, nil)
	slices.SortStableFunc(all, func(a, b saving) int { return cmp.Compare(b.worth, a.worth) })
	return all
}

// losses adds to a list what the plan that was simulated last forgets and makes
// again, and removes events that nothing follows from.
func (x *search) losses(p *plan, all []saving) []saving {
	sim, prob := x.sim, x.s.p
	// used is here the last place at which a value's maker ran again.
	for v := range x.used {
		x.used[v] = -1
	}
	for k, op := range sim.ops[:sim.launches] {
		if op != sim.place[k] {
			for _, v := range prob.Outputs.Of(op) {
				x.used[v] = sim.place[k]
			}
		}
	}
	for v, gone := range p.gone {
		if gone && x.used[v] >= 0 && !x.s.forced(int32(v)) {
			all = append(all, saving{event{max(prob.Border, prob.until(int32(v))), int32(v)}, true, prob.Cost[sim.maker[v]]})
		}
	}
	p.events = slices.DeleteFunc(p.events, func(e event) bool { return x.used[e.value] < e.at })
	for _, e := range p.events {
		all = append(all, saving{e, false, prob.Cost[sim.maker[e.value]]})
	}
	return all
}
