package recompute

import (
	"math"
	"slices"
)

// Long chains, as the steps of a recurrent net are, fit where only what goes on from
// one stretch of the forward pass to the next is kept: a stretch then runs again as
// a whole when the backward pass comes to it. Cuts do not see that. They take single
// places, and what is cheapest to keep for one of them may have every place behind it
// make the chain again from its beginning.

const (
	longChain    = 256 // operators of a forward pass that others find no plans for as well
	mostSegments = 64  // stretches that the forward pass is divided into
	partingAway  = 4   // a stretch may end earlier where less goes on, by one of so many parts
)

// forward is what the forward pass leaves, place by place.
type forward struct {
	through  []int32 // by value: its last reader in the forward pass, or up to where it stays
	grown    []int64 // by place: bytes before it that the backward pass reads
	crossing []int64 // by place: bytes that go on there
}

func (s *Solver) forward() (f forward) {
	border := s.p.Border
	f = forward{make([]int32, len(s.p.Bytes)), make([]int64, border+1), make([]int64, border+1)}
	for v, x := range s.spans {
		if !s.may(int32(v)) || x.made >= border {
			continue
		}
		f.through[v] = x.made
		for _, op := range s.uses.Of(int32(v)) {
			if op < border {
				f.through[v] = op
			}
		}
		f.through[v] = max(f.through[v], min(s.p.until(int32(v)), border)-1)
		if x.last >= border {
			f.grown[x.made+1] += s.p.Bytes[v]
		}
		f.crossing[x.made+1] += s.p.Bytes[v]
		f.crossing[f.through[v]+1] -= s.p.Bytes[v]
	}
	for at := range border {
		f.grown[at+1] += f.grown[at]
		f.crossing[at+1] += f.crossing[at]
	}
	return f
}

// segments are plans that keep only what goes on between stretches: those within a
// limit, or the lowest. All stretches of a plan have about as many bytes that the
// backward pass reads.
func (s *Solver) segments(limit int64) (plans []plan) {
	border := s.p.Border
	if border < longChain {
		return nil
	}
	f := s.forward()
	lowest, least := plan{}, int64(math.MaxInt64)
	for count := int64(2); count <= mostSegments; count += max(1, count/4) {
		size := f.grown[border] / count
		if size == 0 {
			break
		}
		ends := f.parted(size)
		if len(ends) == 0 {
			continue
		}
		p := s.keep.clone()
		for v, x := range s.spans {
			if !s.may(int32(v)) || x.made >= ends[len(ends)-1] {
				continue
			}
			i, _ := slices.BinarySearch(ends, x.made+1)
			p.gone[v] = p.gone[v] || ends[i] > f.through[v]
		}
		if !s.sim.run(p, limit) {
			continue
		}
		if s.sim.peak < least {
			lowest, least = p, s.sim.peak
		}
		if s.sim.peak <= limit {
			plans = append(plans, p)
		}
	}
	if len(plans) == 0 && lowest.gone != nil {
		plans = append(plans, lowest)
	}
	return plans
}

// parted are the places that divide a forward pass into stretches of a size, each at
// that where least goes on of those at which it is nearly full.
func (f *forward) parted(size int64) (ends []int32) {
	grown, crossing := f.grown, f.crossing
	border := len(grown) - 1
	for from, at := int64(0), 0; ; {
		end := -1
		for ; at < border && grown[at]-from <= size; at++ {
			if grown[at]-from > size-size/partingAway && (end < 0 || crossing[at] < crossing[end]) {
				end = at
			}
		}
		if at == border {
			return ends
		}
		if end < 0 {
			end = at
		}
		ends = append(ends, int32(end))
		from, at = grown[end], end+1
	}
}
