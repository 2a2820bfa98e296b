package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Pairs of buffers that may share bytes are solved by joining: both become one buffer, alive while either is and as large as
// the larger. That is lower than placing them apart unless the smaller is alive for long, so several sets of pairs are tried.

// maxEnumerated is up to how many pairs every set of them is tried: 16 problems. More would take too long.
const maxEnumerated = 4

// validInPlace says what is wrong with the pairs of p.
func validInPlace(p Problem) error {
	takenBy := make(map[int]int, len(p.InPlace))
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
		if other, ok := takenBy[x.From]; ok {
			return fmt.Errorf("%s is to be taken over by both %s and %s", p.name(x.From), p.name(other), p.name(x.To))
		}
		if takes[x.From] && from.First == from.Last-1 {
			return fmt.Errorf("%s takes over another and is taken over in one moment", p.name(x.From))
		}
		takenBy[x.From] = x.To
	}
	return nil
}

// solveInPlace solves p once for each of its pairSets, with those pairs joined, and returns the lowest solution.
func solveInPlace(p Problem, e Effort) (Solution, error) {
	bound := sharedBound(p)
	if p.Capacity > 0 && bound > p.Capacity {
		return Solution{}, tooSmall(p, bound)
	}
	var best Solution
	solved := false
	sets := pairSets(p)
	for _, on := range sets {
		q, joined := joinPairs(p, on)
		if validFixed(q, math.MaxInt64) != nil {
			continue // a fixed buffer has grown into another
		}
		s, err := solve(q, e)
		if len(s.Offsets) == 0 && len(q.Buffers) > 0 {
			continue // more is alive at once than the capacity
		}
		if len(best.Offsets) > 0 && (s.Height > best.Height || s.Height == best.Height && solved) {
			continue
		}
		best, solved = separate(p, s, joined), err == nil
		if best.Height <= bound {
			break
		}
	}
	if len(best.Offsets) == 0 { // the last set has no pairs, so it can be solved without the capacity
		q, joined := joinPairs(p, sets[len(sets)-1])
		q.Capacity = 0
		s, err := solve(q, e)
		if err != nil {
			return Solution{}, err
		}
		best = separate(p, s, joined)
	}
	best.Bound = bound
	if !solved {
		return best, notReached(p, best)
	}
	return best, nil
}

// separate turns a solution with pairs joined into one of p; joined is, by buffer of p, the buffer it is part of.
func separate(p Problem, s Solution, joined []int) Solution {
	offsets := make([]int64, len(p.Buffers))
	for i := range offsets {
		offsets[i] = s.Offsets[joined[i]]
	}
	s.Offsets, s.Height = offsets, heightOf(p, offsets)
	return s
}

// pairSets are the sets of pairs to join, each as whether it has a pair: every set if there are few pairs; else those that
// harmlessPairs finds, the same without pairs that have a fixed buffer, and none. The last set is always empty.
func pairSets(p Problem) (sets [][]bool) {
	n := len(p.InPlace)
	if n > maxEnumerated {
		harmless, offsets := harmlessPairs(p), p.fixedOffsets()
		unfixed := slices.Clone(harmless)
		for i, x := range p.InPlace {
			unfixed[i] = unfixed[i] && (offsets == nil || offsets[x.From] == notFixed && offsets[x.To] == notFixed)
		}
		sets = append(sets, harmless)
		if !slices.Equal(harmless, unfixed) {
			sets = append(sets, unfixed)
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

// harmlessPairs is a set of pairs that can be joined without raising the most bytes alive at once: all pairs of equal sizes,
// and of the others as many as it finds, those that differ least first.
func harmlessPairs(p Problem) (on []bool) {
	order, equal, all := make([]int, len(p.InPlace)), make([]bool, len(p.InPlace)), make([]bool, len(p.InPlace))
	difference := func(i int) int64 {
		a, b := p.Buffers[p.InPlace[i].From], p.Buffers[p.InPlace[i].To]
		return max(a.Size, b.Size) - min(a.Size, b.Size)
	}
	for i := range order {
		order[i], equal[i], all[i] = i, difference(i) == 0, true
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(difference(i), difference(j)) })
	live := func(on []bool) int64 { q, _ := joinPairs(p, on); bytes, _ := MaxLive(q); return bytes }
	bound := sharedBound(p)
	if live(all) <= bound {
		return all
	}
	on = equal
	for step := len(order); step > 0; step /= 2 { // adds runs of the order that do no harm, each half as long as the last tried
		next := slices.Clone(on)
		added := 0
		for _, i := range order {
			if !next[i] && added < step {
				next[i] = true
				added++
			}
		}
		if added > 0 && live(next) <= max(bound, live(on)) {
			on = next
		}
	}
	return on
}

// joinPairs is p with the pairs that are on joined, and by buffer of p the buffer of q it is part of. A pair is left out if
// both are joined already, if they are fixed at different offsets, or if no offset suits both alignments. Buffers that are
// fixed at the same offset share it, joined or not.
func joinPairs(p Problem, on []bool) (q Problem, joined []int) {
	q.Capacity = p.Capacity
	into := make([]int, len(p.Buffers)) // the buffer that each is joined into, or itself
	for i := range into {
		into[i] = i
	}
	root := func(i int) int {
		for into[i] != i {
			i = into[i]
		}
		return i
	}
	union := slices.Clone(p.Buffers) // by root
	offsets := p.fixedOffsets()
	taken := make([]bool, len(p.Buffers)) // buffers that have taken over another
	for k, x := range p.InPlace {
		if !on[k] || taken[x.To] || p.Buffers[x.From].Size == 0 || p.Buffers[x.To].Size == 0 {
			continue
		}
		i, j := root(x.From), root(x.To)
		a, b := union[i], union[j]
		coarse, fine := max(a.Align, b.Align, 1), max(min(a.Align, b.Align), 1)
		if i == j || coarse%fine != 0 {
			continue
		}
		if offsets != nil && offsets[j] != notFixed {
			if offsets[i] != notFixed && offsets[i] != offsets[j] || offsets[j]%coarse != 0 {
				continue
			}
			offsets[i] = offsets[j]
		} else if offsets != nil && offsets[i] != notFixed && offsets[i]%coarse != 0 {
			continue
		}
		taken[x.To] = true
		into[j], union[i] = i, Buffer{min(a.First, b.First), max(a.Last, b.Last), max(a.Size, b.Size), coarse}
	}
	beyond := separateSharedFixed(p, union, root)
	number := make([]int, len(p.Buffers)) // by root: the buffer of q
	for i := range p.Buffers {
		if into[i] == i {
			number[i] = len(q.Buffers)
			if offsets != nil && offsets[i] != notFixed {
				q.Fixed = append(q.Fixed, Fixed{len(q.Buffers), offsets[i]})
			}
			q.Buffers = append(q.Buffers, union[i])
		}
	}
	for _, x := range beyond {
		q.Fixed = append(q.Fixed, Fixed{len(q.Buffers), x.lo})
		q.Buffers = append(q.Buffers, Buffer{x.first, x.last, x.hi - x.lo, 0})
	}
	joined = make([]int, len(p.Buffers))
	for i := range joined {
		joined[i] = number[root(i)]
	}
	return q, joined
}

// separateSharedFixed handles pairs that are fixed at the same offset and not joined. They share their moment in any case, so
// the buffer that takes over begins a moment later in union. What it has beyond the other during that moment is returned.
func separateSharedFixed(p Problem, union []Buffer, root func(i int) int) (beyond []rectangle) {
	offsets := p.fixedOffsets()
	if offsets == nil {
		return nil
	}
	for _, x := range p.InPlace {
		from, to := root(x.From), x.To
		a, b := &union[from], &union[to]
		if offsets[x.From] == notFixed || offsets[x.From] != offsets[to] || root(to) != to || b.First != p.Buffers[to].First ||
			a.Size == 0 || b.Size == 0 {
			continue
		}
		if b.Size > a.Size {
			beyond = append(beyond, rectangle{b.First, b.First + 1, offsets[to] + a.Size, offsets[to] + b.Size, to})
		}
		b.First++
	}
	return beyond
}

// sharedBound is a lower bound for p: the most bytes alive at once if each buffer that may take over others takes over the
// largest of them, and the top of the highest fixed buffer.
func sharedBound(p Problem) int64 {
	shared := make([]int64, len(p.Buffers)) // by buffer: the most bytes that it can take over
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
