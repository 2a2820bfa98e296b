package vulkan

import "slices"

// hazards tells where barriers must stand: the spans that were read and
// written since the last one.
type hazards struct{ reads, writes []span }

func (s span) meets(all []span) bool {
	for _, o := range all {
		if s.space == o.space && s.at < o.end && o.at < s.end {
			return true
		}
	}
	return false
}

// between is whether one that reads and writes so must stay behind what was noted.
func (h *hazards) between(reads, writes []span) bool {
	return slices.ContainsFunc(reads, func(s span) bool { return s.meets(h.writes) }) ||
		slices.ContainsFunc(writes, func(s span) bool { return s.meets(h.writes) || s.meets(h.reads) })
}

// next notes a dispatch. It reports whether a barrier must stand before it: it
// touches what was written, or writes what was read.
func (h *hazards) next(reads, writes []span) (barrier bool) {
	barrier = h.between(reads, writes)
	if barrier {
		h.reads, h.writes = h.reads[:0], h.writes[:0]
	}
	h.reads, h.writes = append(h.reads, reads...), append(h.writes, writes...)
	return barrier
}
