package vulkan

import "slices"

// hazards decides where barriers are needed: it has the spans read and written since the last
// barrier.
type hazards struct{ reads, writes []span }

func (s span) meets(all []span) bool {
	for _, o := range all {
		if s.space == o.space && s.at < o.end && o.at < s.end {
			return true
		}
	}
	return false
}

// between reports whether a dispatch with the given accesses must be ordered after the recorded
// ones.
func (h *hazards) between(reads, writes []span) bool {
	return slices.ContainsFunc(reads, func(s span) bool { return s.meets(h.writes) }) ||
		slices.ContainsFunc(writes, func(s span) bool { return s.meets(h.writes) || s.meets(h.reads) })
}

// next records a dispatch, and reports whether it needs a barrier before it (read after write,
// write after write or write after read).
func (h *hazards) next(reads, writes []span) (barrier bool) {
	barrier = h.between(reads, writes)
	if barrier {
		h.reads, h.writes = h.reads[:0], h.writes[:0]
	}
	h.reads, h.writes = append(h.reads, reads...), append(h.writes, writes...)
	return barrier
}
