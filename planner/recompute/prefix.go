package recompute

import (
	"cmp"
	"slices"
	"sort"

	"memopt/planner/internal/numbers"
)

// A cut that keeps something of some of many equal layers or steps does not say of which; but that decides how long
// what is made of them waits. If the first steps of a recurrent net are dropped as a whole, but for what passes on from
// them, they are rerun when the backward pass is through with all others and there is room; if that is too much at
// once, part by part. Evictors recompute what is cheap to make of what is kept.
const (
	longForward = 256 // operators of the forward pass; for shorter ones other passes find plans as good
	prefixCuts  = 2   // places whose cuts keep some and not all
	prefixEnds  = 48  // candidate ends of the prefix; more take more time and rarely find better ones
)

// prefixParts are the numbers of parts in which the prefix may be rerun.
var prefixParts = []int64{1, 2, 3, 4, 6, 8, 12}

// prefixScores are the scores that evictors try for all prefixes.
var prefixScores = []score{{1, 1, 1, 0}, {0.5, 1, 1, 0}}

// prefixPlans are the cheapest plans of evictors that keep one of the prefixes, those within the limit first. All
// prefixes are tried by few scores, and the best of them by all.
func (s *Solver) prefixPlans(at []bounded, limit int64, most float64) (all []func() plan) {
	e := s.newEvictions(limit, prefixWork, most)
	e.launches, e.shorten = prefixReruns*len(s.p.Cost), true
	for _, kept := range s.prefixes(at) {
		e.tryAll(prefixScores, kept)
	}
	if e.kept != nil {
		e.tryAll(slices.DeleteFunc(slices.Clone(scores), func(by score) bool { return slices.Contains(prefixScores, by) }), e.kept)
	}
	for _, fits := range []bool{true, false} {
		plans := e.cheapest(fits)
		for _, f := range plans[:min(len(plans), prefixMost)] {
			all = append(all, f.p.clone)
		}
	}
	return all
}

// prefixes are the hints for evictors: what to keep up to the place of a cut.
func (s *Solver) prefixes(at []bounded) (kept []keep) {
	f := s.forward()
	all := f.grown[s.p.Border]
	ends := append(f.parted(all/prefixEnds), s.p.Border)
	for _, b := range at[:min(prefixCuts, len(at))] {
		less, more := b.nearest(b.sets)
		if less.kept == nil || more.kept == nil {
			continue
		}
		l := s.newPrefix(b.c, less, more)
		add := func() {
			one := l.keep()
			if !slices.ContainsFunc(kept, func(k keep) bool { return slices.Equal(k, one) }) {
				kept = append(kept, one)
			}
		}
		for _, front := range []bool{true, false} {
			l.divide(b.room, front)
			add()
		}
		for _, count := range prefixParts {
			fits := func(n int) bool {
				var parts []int32
				for k := range count {
					i := sort.Search(n, func(i int) bool { return f.grown[ends[i]]*count >= f.grown[ends[n]]*(k+1) })
					parts = append(parts, ends[i])
				}
				return l.forget(slices.Compact(parts), f.through) <= b.room
			}
			if n := sort.Search(len(ends), fits); n < len(ends) && fits(n) {
				add()
			}
		}
	}
	return kept
}

// prefix chooses what to keep at the place of a cut, between two of its sets.
type prefix struct {
	s          *Solver
	c          *cut
	less, more set
	price      float64     // of a byte, between the sets
	order      []int32     // indices of the cut's values, in the order in which they are made
	kept       []bool      // by index
	there      numbers.Set // values that are kept
	ran        numbers.Set // operators that rerunCost counted
}

func (s *Solver) newPrefix(c *cut, less, more set) *prefix {
	l := &prefix{s: s, c: c, less: less, more: more, order: numbers.Below(len(c.values)), kept: make([]bool, len(c.values)), there: numbers.New(len(s.p.Bytes)), ran: numbers.New(len(s.p.Cost))}
	l.price = (less.cost - more.cost) * s.unit / float64(c.bytes(more)-c.bytes(less))
	slices.SortStableFunc(l.order, func(i, j int32) int { return cmp.Compare(s.sim.maker[c.values[i]], s.sim.maker[c.values[j]]) })
	return l
}

// divide keeps what the larger set does of the values made first, or last, as far as there is room, and what the
// smaller one does of the others.
func (l *prefix) divide(room int64, front bool) {
	order := slices.Clone(l.order)
	if !front {
		slices.Reverse(order)
	}
	room -= l.c.bytes(l.less)
	for _, i := range order {
		k := l.c.foldedOf[i]
		bytes := l.c.value[k].bytes
		l.kept[i] = l.less.kept[k]
		switch {
		case room < 0 || l.less.kept[k] == l.more.kept[k]:
		case l.less.kept[k]:
			room += bytes
			l.kept[i] = false
		default:
			if room -= bytes; room >= 0 {
				l.kept[i] = true
			}
		}
	}
}

// forget keeps what the larger set does of the values made after the last of some parts. Of the others it keeps what
// the smaller set does, and what passes from part to part and costs more to recompute than its bytes are worth. It
// returns the bytes kept.
func (l *prefix) forget(parts, through []int32) (sum int64) {
	s, last := l.s, parts[len(parts)-1]
	clear(l.there)
	for _, i := range l.order {
		v, k := l.c.values[i], l.c.foldedOf[i]
		if made := s.sim.maker[v]; made >= last {
			l.kept[i] = l.more.kept[k]
		} else if l.kept[i] = l.less.kept[k]; !l.kept[i] && s.droppable(v) {
			at, _ := slices.BinarySearch(parts, made+1)
			if end := parts[at]; end <= through[v] && end < s.p.Border {
				clear(l.ran)
				l.kept[i] = l.again(v) > l.price*float64(s.p.Bytes[v])
			}
		}
		if l.kept[i] {
			l.there.Add(v)
			sum += s.p.Bytes[v]
		}
	}
	return sum
}

// again is the cost to recompute a value from what is kept.
func (l *prefix) again(v int32) (cost float64) {
	m := l.s.sim.maker[v]
	if l.ran.Has(m) {
		return 0
	}
	l.ran.Add(m)
	cost = l.s.p.Cost[m]
	for _, u := range l.s.p.Inputs.Of(m) {
		if l.s.droppable(u) && !l.there.Has(u) {
			cost += l.again(u)
		}
	}
	return cost
}

// keep is what is kept, as a hint for evictors.
func (l *prefix) keep() keep {
	all := make(keep, len(l.s.p.Bytes))
	for i, v := range l.c.values {
		if l.kept[i] {
			all[v].to = l.c.at + 1
		}
	}
	return all
}
