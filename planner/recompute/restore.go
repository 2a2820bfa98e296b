package recompute

import (
	"cmp"
	"math"
	"slices"
)

// drop is a value that a plan drops and reruns, with the cost of its maker.
type drop struct {
	change
	cost float64
}

// restore undoes drops as far as the plan stays within the limit, the most expensive first, until no more fits. It
// returns the cost.
func (x *search) restore(p *plan) float64 {
	x.sim.run(*p, x.limit)
	extra := x.sim.extra
	for before := math.Inf(1); extra < before && extra > 0 && !x.ended(); {
		before = extra
		extra = x.restoreList(p, x.drops(p), extra)
	}
	return extra
}

// restoreList undoes a whole block of drops; if that does not fit, each half of it.
func (x *search) restoreList(p *plan, list []drop, extra float64) float64 {
	if len(list) == 0 || x.ended() {
		return extra
	}
	if len(list) == 1 {
		return x.restoreOne(p, list[0].change, extra)
	}
	if len(list) <= len(p.events)/16 { // so many events that each walk takes long
		q := *p
		x.events = append(x.events[:0], p.events...)
		q.events = x.events
		for _, c := range list {
			q.remove(c.change)
		}
		if x.sim.run(q, x.limit) && x.sim.peak <= x.limit && x.sim.extra < extra {
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

// restoreOne undoes one drop if the plan stays within the limit.
func (x *search) restoreOne(p *plan, c change, extra float64) float64 {
	if x.triedAt != x.sim.walks && x.restored != x.sim.walks {
		x.sim.run(*p, x.limit)
	}
	if !x.try(p, c, false, extra) || x.tried.peak > x.limit {
		return extra
	}
	p.remove(c)
	x.sim.run(*p, x.limit)
	x.restored = x.sim.walks
	return x.sim.extra
}

// drops simulates a plan and lists its drops that cause reruns, the most expensive first. Events without effect are
// removed from the plan.
func (x *search) drops(p *plan) []drop {
	x.sim.run(*p, x.limit)
	all := x.appendDrops(p, nil)
	slices.SortStableFunc(all, func(a, b drop) int { return cmp.Compare(b.cost, a.cost) })
	return all
}

// appendDrops appends the drops of the plan that was simulated last that cause reruns, and removes its other events.
func (x *search) appendDrops(p *plan, all []drop) []drop {
	sim, prob, reran := x.sim, x.s.p, x.touched // by value: the last place at which its maker ran again
	for v := range reran {
		reran[v] = -1
	}
	for k, op := range sim.ops[:sim.launches] {
		if op != sim.place[k] {
			for _, v := range prob.Outputs.Of(op) {
				reran[v] = sim.place[k]
			}
		}
	}
	for v, gone := range p.gone {
		if gone && reran[v] >= 0 && !x.s.forced(int32(v)) {
			e := event{max(prob.Border, prob.until(int32(v))), int32(v)}
			all = append(all, drop{change{e, true}, prob.Cost[sim.maker[v]]})
		}
	}
	p.events = slices.DeleteFunc(p.events, func(e event) bool { return reran[e.value] < e.at })
	for _, e := range p.events {
		all = append(all, drop{change{e, false}, prob.Cost[sim.maker[e.value]]})
	}
	return all
}
