package pack

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

const (
	infinity       = math.MaxInt64 // above all addresses
	maxBoundAligns = 8             // alignments that alignedBound looks at: more may raise the bound, and each takes a sweep
)

// liveRange is a buffer as the passes see it: its time in sections, its size rounded up to the alignment unit, which is
// the largest number that divides the alignments of all buffers.
type liveRange struct {
	begin, end int32 // alive in sections [begin, end)
	buffer     int32
	duration   int64 // moments alive
	size       int64 // > 0
	align      int64 // > 0
}

// liveRanges is the buffers of p that take room, and the number of sections. Ranges are sorted by begin, and by what they
// are where they begin together, so the order of buffers in p makes no difference to any pass.
func liveRanges(p Problem) (ranges []liveRange, sections int32) {
	unit := alignUnit(p)
	ranges = make([]liveRange, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if takesRoom(b) {
			ranges = append(ranges, liveRange{
				begin: b.First, end: b.Last, buffer: int32(i), duration: int64(b.Last) - int64(b.First),
				size: alignUp(b.Size, unit), align: max(b.Align, 1),
			})
		}
	}
	if !slices.IsSortedFunc(ranges, func(a, b liveRange) int { return cmp.Compare(a.begin, b.begin) }) {
		slices.SortStableFunc(ranges, func(a, b liveRange) int { return cmp.Compare(a.begin, b.begin) })
	}
	for from, to := 0, 0; from < len(ranges); from = to {
		for to = from + 1; to < len(ranges) && ranges[to].begin == ranges[from].begin; to++ {
		}
		slices.SortFunc(ranges[from:to], func(a, b liveRange) int {
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.size, b.size),
				cmp.Compare(p.Buffers[a.buffer].Size, p.Buffers[b.buffer].Size), cmp.Compare(a.align, b.align),
				cmp.Compare(a.buffer, b.buffer))
		})
	}
	return ranges, compressTime(ranges)
}

// compressTime replaces the moments of ranges, which are sorted by begin, by sections. A new section begins where a range
// begins after another has ended since the last. All ranges of a section are alive at once, and those alive at any moment
// are among them, so two ranges overlap in sections exactly if they overlap in time.
func compressTime(ranges []liveRange) (sections int32) {
	byEnd := sortedBy(indicesUpTo(len(ranges)), func(i int32) int32 { return ranges[i].end })
	ended, endedBefore := 0, int32(-1) // endedBefore: how many had ended when the current section began
	for i := range ranges {
		for ; ranges[byEnd[ended]].end <= ranges[i].begin; ended++ {
			ranges[byEnd[ended]].end = sections
		}
		if int32(ended) > endedBefore {
			sections++
			endedBefore = int32(ended)
		}
		ranges[i].begin = sections - 1
	}
	for _, i := range byEnd[ended:] {
		ranges[i].end = sections
	}
	return sections
}

// alignUnit is the largest number that divides all alignments. All offsets are multiples of it, so bytes after a buffer up
// to the next multiple are of no use to any other, unless the buffer is the highest.
func alignUnit(p Problem) int64 {
	unit := int64(0)
	for _, b := range p.Buffers {
		if takesRoom(b) {
			unit = gcd(unit, max(b.Align, 1))
		}
	}
	return max(unit, 1)
}

// unitSlack is the most that rounding to the alignment unit adds to a size, and so to the height.
func unitSlack(p Problem) (most int64) {
	unit := alignUnit(p)
	for _, b := range p.Buffers {
		most = max(most, alignUp(b.Size, unit)-b.Size)
	}
	return most
}

// alignedBound is a lower bound from buffers with coarse alignments. Buffers alive at once whose offsets are multiples of an
// alignment begin at least that far apart, so each but the highest takes its size rounded up to the alignment. It looks at
// the alignments that most buffers have.
func alignedBound(p Problem) (most int64) {
	unit, counts := alignUnit(p), map[int64]int{}
	for _, b := range p.Buffers {
		if takesRoom(b) && b.Align > unit {
			counts[b.Align]++
		}
	}
	aligns := slices.SortedFunc(maps.Keys(counts), func(a, b int64) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for _, align := range aligns[:min(len(aligns), maxBoundAligns)] {
		var rounded Problem
		slack := int64(0)
		for _, b := range p.Buffers {
			if takesRoom(b) && b.Align%align == 0 && b.Align > 0 {
				size := alignUp(b.Size, align)
				slack = max(slack, size-b.Size)
				b.Size = size
				rounded.Buffers = append(rounded.Buffers, b)
			}
		}
		bytes, _ := MaxLive(rounded)
		most = max(most, bytes-slack)
	}
	return most
}

// MaxLive is the most bytes of p that are alive at once, and the first moment at which they are. No arena is smaller.
// A sum above the largest int64 is given as that.
func MaxLive(p Problem) (bytes int64, moment int32) {
	all := make([]int32, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if takesRoom(b) {
			all = append(all, int32(i))
		}
	}
	begins := sortedBy(all, func(i int32) int32 { return p.Buffers[i].First })
	ends := sortedBy(all, func(i int32) int32 { return p.Buffers[i].Last })

	live, ended := uint64(0), 0 // live + one size < 2^64: live is returned as soon as it is above the largest int64
	for _, i := range begins {
		now := p.Buffers[i].First
		for ; p.Buffers[ends[ended]].Last <= now; ended++ {
			live -= uint64(p.Buffers[ends[ended]].Size)
		}
		if live += uint64(p.Buffers[i].Size); live > math.MaxInt64 {
			return math.MaxInt64, now
		}
		if int64(live) > bytes {
			bytes, moment = int64(live), now
		}
	}
	return bytes, moment
}

// indicesUpTo is 0, 1, 2, … n-1.
func indicesUpTo(n int) []int32 {
	indices := make([]int32, n)
	for i := range indices {
		indices[i] = int32(i)
	}
	return indices
}

// sortedBy is indices sorted by key; it returns indices that are in order already as they are.
func sortedBy(indices []int32, key func(i int32) int32) []int32 {
	order := func(i, j int32) int { return cmp.Compare(key(i), key(j)) }
	if slices.IsSortedFunc(indices, order) {
		return indices
	}
	indices = slices.Clone(indices)
	slices.SortStableFunc(indices, order)
	return indices
}

// maxLive is the most bytes that are alive in one section.
func maxLive(ranges []liveRange, sections int32) int64 {
	return slices.Max(append(liveBytes(ranges, sections), 0))
}

// liveBytes is the bytes alive in each section.
func liveBytes(ranges []liveRange, sections int32) []int64 {
	live := make([]int64, sections+1)
	for i := range ranges {
		r := &ranges[i]
		live[r.begin] += r.size
		live[r.end] -= r.size
	}
	for t := range sections {
		live[t+1] += live[t]
	}
	return live[:sections]
}

// firstByBegin is, by section, the first of ranges sorted by begin that begins there or later.
func firstByBegin(ranges []liveRange, sections int32) (first []int32) {
	first = make([]int32, sections+1)
	for _, r := range ranges {
		first[r.begin+1]++
	}
	for t := range sections {
		first[t+1] += first[t]
	}
	return first
}

// alignUp is the lowest multiple of align that is x or above.
func alignUp(x, align int64) int64 {
	if align&(align-1) == 0 { // most are powers of two, and a division is slow
		return (x + align - 1) &^ (align - 1)
	}
	if over := x % align; over > 0 {
		x += align - over
	}
	return x
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
