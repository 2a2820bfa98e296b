package recompute

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// starts are plans to begin with: what the cuts of the places that bind most keep, and blends of two such sets.
func (s *Solver) starts(at []bounded, limit int64) (all []func() plan) {
	for _, b := range at[:min(3, len(at))] {
		for _, sets := range [][]set{b.fine, b.sets} {
			if len(sets) == 0 {
				continue
			}
			around := sync.OnceValue(func() [2]set {
				less, more := s.around(b, sets, limit)
				return [2]set{less, more}
			})
			for _, front := range []bool{true, false} {
				mix := sync.OnceValue(func() plan {
					x := around()
					return s.blend(b.c, x[0], x[1], front, limit)
				})
				all = append(all, func() plan { return mix().clone() })
			}
		}
		for _, x := range b.fine[max(0, len(b.fine)-2):] {
			all = append(all, func() plan { return s.planOf(b.c, x) })
		}
		for _, x := range b.sets[max(0, len(b.sets)-3):] {
			all = append(all, func() plan { return s.planOf(b.c, x) })
		}
	}
	return all
}

// around are neighbouring sets by bytes: the largest whose plan is within the limit everywhere, and the next larger
// one. Where the largest set that fits at the place exceeds the limit elsewhere, sets are cut for so much less room.
func (s *Solver) around(b bounded, sets []set, limit int64) (less, more set) {
	room := b.room
	for range 4 {
		sorted := slices.Clone(sets)
		slices.SortStableFunc(sorted, func(x, y set) int { return cmp.Compare(b.c.bytes(y), b.c.bytes(x)) })
		over := int64(0) // by how much the largest set that fits exceeds the limit elsewhere
		for i, x := range sorted {
			less = x
			if more = x; i > 0 {
				more = sorted[i-1]
			}
			if b.c.bytes(x) > room {
				continue
			}
			w := s.walkOf(b.c, x)
			switch {
			case !w.complete:
				continue
			case w.peak <= limit:
				return less, more
			case over == 0:
				over = w.peak - limit
			}
		}
		if room -= over; over == 0 || room < 0 {
			break
		}
		_, lower, ok := b.c.best(1, float64(room), nil)
		s.count(b.c)
		if !ok || lower == nil {
			break
		}
		sets = lower
	}
	return less, more
}

// blend keeps what more does of the values made before some place (front) or from it on, and what less does of the
// others, with the place as far as the limit allows. It divides equal layers, of which a price takes all or none.
func (s *Solver) blend(c *cut, less, more set, front bool, limit int64) plan {
	var made Lists // by operator: the places of what it makes
	made.rebuild(len(s.p.Cost), func(put func(list, item int32)) {
		for i, v := range c.values {
			put(s.sim.maker[v], int32(i))
		}
	})
	order := made.items
	if !front {
		slices.Reverse(order)
	}
	kept := make([]bool, len(c.values))
	first := func(n int) plan {
		for at, i := range order {
			if at < n {
				kept[i] = more.kept[c.foldedOf[i]]
			} else {
				kept[i] = less.kept[c.foldedOf[i]]
			}
		}
		return s.keeping(c, func(i int) bool { return kept[i] })
	}
	room, near := limit-c.fixed-c.bytes(less), 0 // a guess: how many fit at the cut's place
	for ; near < len(order) && room >= 0; near++ {
		switch k := c.foldedOf[order[near]]; {
		case more.kept[k] && !less.kept[k]:
			room -= c.value[k].bytes
		case less.kept[k] && !more.kept[k]:
			room += c.value[k].bytes
		}
	}
	return first(lastOf(len(order), near, func(n int) bool { return s.sim.run(first(n), limit) && s.sim.peak <= limit }))
}

// lastOf is the largest number up to n for which holds is true, which it is for 0; it is true up to some number. The
// search begins at a guess, in growing steps, and ends by halves.
func lastOf(n, guess int, holds func(int) bool) int {
	from, to := 0, n+1
	for step, at := 1, max(1, min(guess, n)); from+1 < to; {
		if holds(at) {
			from = at
			at += step
		} else {
			to = at
			at -= step
		}
		if step *= 2; at <= from || at >= to {
			at = (from + to) / 2
		}
	}
	return from
}

// planOf is the plan that has what a cut keeps at the border.
func (s *Solver) planOf(c *cut, x set) plan {
	return s.keeping(c, func(i int) bool { return x.kept[c.foldedOf[i]] })
}

// keeping is the plan that has some values of a cut, by their index, at the border.
func (s *Solver) keeping(c *cut, kept func(i int) bool) plan {
	p := s.plainPlan.clone()
	for i, v := range c.values {
		if s.droppable(v) && s.spans[v].made < s.p.Border {
			p.gone[v] = !kept(i) || s.forced(v)
		}
	}
	return p
}

// cheapest is, of some plans, the cheapest that is within the limit everywhere, and its cost.
func (s *Solver) cheapest(starts []pricedStart, limit int64) (best plan, least float64) {
	least = math.Inf(1)
	for _, start := range starts {
		if p := start.plan(); s.sim.run(p, limit) && s.sim.peak <= limit && s.sim.extra < least {
			best, least = p, s.sim.extra
		}
	}
	return best, least
}

// near are the plan that drops nothing, and blends of the sets closest to the room of each place, which may be over the
// limit elsewhere.
func (s *Solver) near(at []bounded, limit int64) (all []func() plan) {
	all = append(all, s.plainPlan.clone)
	for _, b := range at[:min(3, len(at))] {
		less, more := b.nearest(b.sets)
		if less.kept == nil || more.kept == nil {
			continue // a room so scarce that no set is known to fit
		}
		for _, front := range []bool{true, false} {
			all = append(all, func() plan { return s.blend(b.c, less, more, front, limit) })
		}
	}
	return all
}

// nearest are the largest set within the room and the smallest beyond it.
func (b bounded) nearest(sets []set) (less, more set) {
	low, high := int64(-1), int64(math.MaxInt64)
	for _, x := range sets {
		switch sum := b.c.bytes(x); {
		case sum <= b.room && sum > low:
			less, low = x, sum
		case sum > b.room && sum < high:
			more, high = x, sum
		}
	}
	return less, more
}

// bytes is the bytes of what a set keeps.
func (c *cut) bytes(x set) (sum int64) {
	for k, v := range c.value {
		if x.kept[k] {
			sum += v.bytes * v.times
		}
	}
	return sum
}
