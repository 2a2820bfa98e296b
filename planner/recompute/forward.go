package recompute

// forward is what the forward pass holds at each place.
type forward struct {
	through  []int32 // by value: its last reader in the forward pass, or the place up to which it must be kept
	grown    []int64 // by place: bytes made before it that the backward pass reads
	crossing []int64 // by place: bytes made before it that the forward pass reads from there on
}

func (s *Solver) forward() (f forward) {
	border := s.p.Border
	f = forward{make([]int32, len(s.p.Bytes)), make([]int64, border+1), make([]int64, border+1)}
	for v, x := range s.spans {
		if !s.droppable(int32(v)) || x.made >= border {
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

// partingAway lets a part end early, by one of so many parts of its size, where fewer bytes cross.
const partingAway = 4

// parted are the places that divide the forward pass into parts of a size, each where the fewest bytes cross near its
// end.
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
