package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// validInPlace says what is wrong with the pairs of p.
func validInPlace(p Problem) error {
	gives := make(map[int]int, len(p.InPlace))
	takes := make(map[int]bool, len(p.InPlace))
	for _, x := range p.InPlace {
		takes[x.To] = true
	}
	for _, x := range p.InPlace {
		for _, i := range [...]int{x.From, x.To} {
			if i < 0 || i >= len(p.Buffers) {
				return fmt.Errorf("buffer %d is to share in place, but there are %d", i, len(p.Buffers))
			}
		}
		from, to := p.Buffers[x.From], p.Buffers[x.To]
		if x.From == x.To || to.First == to.Last || from.First == from.Last || to.First != from.Last-1 {
			return fmt.Errorf("%s cannot take over %s: it is alive from %d, not from the last moment of [%d, %d)",
				p.name(x.To), p.name(x.From), p.timestamp(to.First), p.timestamp(from.First), p.timestamp(from.Last))
		}
		if other, ok := gives[x.From]; ok {
			return fmt.Errorf("%s is to be taken over by both %s and %s", p.name(x.From), p.name(other), p.name(x.To))
		}
		if takes[x.From] && from.First == from.Last-1 {
			return fmt.Errorf("%s takes over another and is taken over in one moment", p.name(x.From))
		}
		gives[x.From] = x.To
	}
	return nil
}

// rectangle is bytes [lo, hi) that a buffer has during [first, last).
type rectangle struct {
	first, last int32
	lo, hi      int64
	buffer      int
}

// rectangles is what the buffers of p take up. One that has taken over another, as they have the same offset, begins
// as that has ended; what it has more than the other is its own in the moment they share.
func rectangles(p Problem, offset func(i int) int64) []rectangle {
	first := make([]int32, len(p.Buffers))
	all := make([]rectangle, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		first[i] = b.First
	}
	for _, x := range p.InPlace {
		from, to := p.Buffers[x.From], p.Buffers[x.To]
		if at := offset(x.To); offset(x.From) == at && first[x.To] == to.First && from.Size > 0 {
			first[x.To] = from.Last
			if to.Size > from.Size {
				all = append(all, rectangle{to.First, from.Last, at + from.Size, at + to.Size, x.To})
			}
		}
	}
	for i, b := range p.Buffers {
		if b.Size > 0 && first[i] < b.Last {
			all = append(all, rectangle{first[i], b.Last, offset(i), offset(i) + b.Size, i})
		}
	}
	return all
}

// collision is two buffers whose rectangles overlap. It walks through time with what is alive in the order of addresses,
// where a rectangle that comes in must fit between its neighbours.
func findOverlap(all []rectangle) (a, b int, ok bool) {
	slices.SortStableFunc(all, func(a, b rectangle) int { return cmp.Compare(a.first, b.first) })
	ends := slices.Clone(all)
	slices.SortStableFunc(ends, func(a, b rectangle) int { return cmp.Compare(a.last, b.last) })
	var live []rectangle // by address
	find := func(r rectangle) int {
		at, _ := slices.BinarySearchFunc(live, r.lo, func(l rectangle, lo int64) int { return cmp.Compare(l.lo, lo) })
		return at
	}
	ended := 0
	for _, r := range all {
		for ; ends[ended].last <= r.first; ended++ {
			at := find(ends[ended])
			live = slices.Delete(live, at, at+1)
		}
		at := find(r)
		if at > 0 && live[at-1].hi > r.lo {
			return min(live[at-1].buffer, r.buffer), max(live[at-1].buffer, r.buffer), true
		}
		if at < len(live) && r.hi > live[at].lo {
			return min(live[at].buffer, r.buffer), max(live[at].buffer, r.buffer), true
		}
		live = slices.Insert(live, at, r)
	}
	return 0, 0, false
}

// solveInPlace packs p with pairs joined into one buffer, which is their union: with those joined that do not raise the
// bytes alive at the worst moment, with those of them that nobody fixed, and with none. Where there are few pairs it
// tries every set of them.
func solveInPlace(p Problem, e Effort) (Solution, error) {
	floor := sharedBound(p)
	if p.Capacity > 0 && floor > p.Capacity {
		return Solution{}, tooSmall(p, floor)
	}
	var best Solution
	solved := false
	sets := pairSets(p)
	for _, on := range sets {
		q, of := joinPairs(p, on)
		if validFixed(q, math.MaxInt64) != nil {
			continue // one that is fixed has grown into another
		}
		s, err := solve(q, e)
		if len(s.Offsets) == 0 && len(q.Buffers) > 0 {
			continue // more is alive at once than the capacity
		}
		if len(best.Offsets) > 0 && (s.Height > best.Height || s.Height == best.Height && solved) {
			continue
		}
		best, solved = separate(p, s, of), err == nil
		if best.Height <= floor {
			break
		}
	}
	if len(best.Offsets) == 0 { // the last set joins none, which is always possible, if not within the capacity
		q, of := joinPairs(p, sets[len(sets)-1])
		q.Capacity = 0
		s, err := solve(q, e)
		if err != nil {
			return Solution{}, err
		}
		best = separate(p, s, of)
	}
	best.Bound = floor
	if !solved {
		return best, notReached(p, best)
	}
	return best, nil
}

// apartAgain is s, a solution of p with pairs joined, as one of p; of is which of its buffers each of p is part of.
func separate(p Problem, s Solution, of []int) Solution {
	joined := s.Offsets
	s.Offsets, s.Height = make([]int64, len(p.Buffers)), 0
	for i, b := range p.Buffers {
		s.Offsets[i] = joined[of[i]]
		if takesRoom(b) {
			s.Height = max(s.Height, s.Offsets[i]+b.Size)
		}
	}
	return s
}

// pairs is how many pairs every set of is tried.
const maxEnumerated = 4

// choices are the sets of pairs to join.
func pairSets(p Problem) (sets [][]bool) {
	n := len(p.InPlace)
	if n > maxEnumerated {
		on := harmlessPairs(p)
		loose, at := slices.Clone(on), p.fixedOffsets()
		for i, x := range p.InPlace {
			loose[i] = loose[i] && (at == nil || at[x.From] == notFixed && at[x.To] == notFixed)
		}
		sets = append(sets, on)
		if !slices.Equal(on, loose) {
			sets = append(sets, loose)
		}
		return append(sets, make([]bool, n))
	}
	for set := 1<<n - 1; set >= 0; set-- {
		on := make([]bool, n)
		for i := range on {
			on[i] = set>>i&1 == 1
		}
		sets = append(sets, on)
	}
	return sets
}

// worthwhile is the pairs that join without raising the bytes alive at the worst moment; equal ones always do.
func harmlessPairs(p Problem) (on []bool) {
	on = make([]bool, len(p.InPlace))
	order := make([]int, len(on))
	for i := range order {
		order[i] = i
	}
	extra := func(i int) int64 {
		a, b := p.Buffers[p.InPlace[i].From], p.Buffers[p.InPlace[i].To]
		return max(a.Size, b.Size) - min(a.Size, b.Size)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(extra(i), extra(j)) })
	equal, all := make([]bool, len(on)), make([]bool, len(on))
	for _, i := range order {
		equal[i], all[i] = extra(i) == 0, true
	}
	worst := func(on []bool) int64 { q, _ := joinPairs(p, on); live, _ := MaxLive(q); return live }
	floor := sharedBound(p)
	if worst(all) <= floor {
		return all
	}
	copy(on, equal)
	for step := len(order); step > 0; step /= 2 { // the longest run of order that does no harm, found by halving
		next := slices.Clone(on)
		added := 0
		for _, i := range order {
			if !next[i] && added < step {
				next[i] = true
				added++
			}
		}
		if added > 0 && worst(next) <= max(floor, worst(on)) {
			on = next
		}
	}
	return on
}

// join is p with the pairs that are on joined, and of which of its buffers each buffer of p is part. A pair is left
// out if one of the two is joined that way already, if both are fixed at different places, or if no offset suits both.
// Those fixed at the same place share it, joined or not.
func joinPairs(p Problem, on []bool) (q Problem, of []int) {
	q.Capacity = p.Capacity
	of = make([]int, len(p.Buffers))
	into := make([]int, len(p.Buffers)) // the buffer that each one is joined with, of all that are
	for i := range into {
		into[i] = i
	}
	whole := slices.Clone(p.Buffers)
	at := p.fixedOffsets()
	taken := make([]bool, len(p.Buffers))
	root := func(i int) int {
		for into[i] != i {
			i = into[i]
		}
		return i
	}
	for k, x := range p.InPlace {
		if !on[k] || taken[x.To] || p.Buffers[x.From].Size == 0 || p.Buffers[x.To].Size == 0 {
			continue
		}
		i, j := root(x.From), root(x.To)
		a, b := whole[i], whole[j]
		x, y := max(a.Align, 1), max(b.Align, 1)
		if i == j || max(x, y)%min(x, y) != 0 {
			continue
		}
		c := Buffer{min(a.First, b.First), max(a.Last, b.Last), max(a.Size, b.Size), max(x, y)}
		if at != nil && at[j] != notFixed {
			if at[i] != notFixed && at[i] != at[j] || at[j]%c.Align != 0 {
				continue
			}
			at[i] = at[j]
		} else if at != nil && at[i] != notFixed && at[i]%c.Align != 0 {
			continue
		}
		taken[p.InPlace[k].To] = true
		into[j], whole[i] = i, c
	}
	own := separateSharedFixed(p, whole, root)
	number := make([]int, len(p.Buffers))
	for i := range p.Buffers {
		if into[i] == i {
			number[i] = len(q.Buffers)
			if at != nil && at[i] != notFixed {
				q.Fixed = append(q.Fixed, Fixed{len(q.Buffers), at[i]})
			}
			q.Buffers = append(q.Buffers, whole[i])
		}
	}
	for _, x := range own {
		q.Fixed = append(q.Fixed, Fixed{len(q.Buffers), x.lo})
		q.Buffers = append(q.Buffers, Buffer{x.first, x.last, x.hi - x.lo, 0})
	}
	for i := range of {
		of[i] = number[root(i)]
	}
	return q, of
}

// sharedWhereFixed has the buffers of whole that take over another begin as that has ended, if both are fixed at the same
// offset and not joined: they share their moment in any case. It gives what they have more than the other in that.
func separateSharedFixed(p Problem, whole []Buffer, root func(i int) int) (own []rectangle) {
	at := p.fixedOffsets()
	if at == nil {
		return nil
	}
	for _, x := range p.InPlace {
		from, to := root(x.From), x.To
		a, b := &whole[from], &whole[to]
		if at[x.From] == notFixed || at[x.From] != at[to] || root(to) != to || b.First != p.Buffers[to].First || a.Size == 0 || b.Size == 0 {
			continue
		}
		if b.Size > a.Size {
			own = append(own, rectangle{b.First, b.First + 1, at[to] + a.Size, at[to] + b.Size, to})
		}
		b.First++
	}
	return own
}

// sharedBound is below every height of p: the bytes alive at the worst moment, if each buffer that may take over one of
// some takes over the largest.
func sharedBound(p Problem) int64 {
	shared := make([]int64, len(p.Buffers)) // by buffer: the most that it can take over
	for _, x := range p.InPlace {
		shared[x.To] = max(shared[x.To], min(p.Buffers[x.From].Size, p.Buffers[x.To].Size))
	}
	var q Problem
	for i, b := range p.Buffers {
		if shared[i] > 0 {
			q.Buffers = append(q.Buffers, Buffer{b.First, b.First + 1, b.Size - shared[i], 0})
			b.First++
		}
		q.Buffers = append(q.Buffers, b)
	}
	live, _ := MaxLive(q)
	return max(live, fixedTop(p))
}

// fixedEnd is the end of the highest fixed buffer.
func fixedTop(p Problem) (end int64) {
	for _, f := range p.Fixed {
		if b := p.Buffers[f.Buffer]; takesRoom(b) {
			end = max(end, f.Offset+b.Size)
		}
	}
	return end
}
