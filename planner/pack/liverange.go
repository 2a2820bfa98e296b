package pack

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// life is a buffer as the packers see it: sections for times, and a size that is whole units of the alignment that all
// buffers share.
type liveRange struct {
	begin, end int32 // alive in sections [l, r)
	buffer     int32 // of the buffer
	first      int32 // moment alive
	duration   int64 // moments alive
	size       int64 // > 0
	align      int64 // > 0
	fixed      int64 // where it stands, or free
}

// livesOf is the buffers of p that take room, and the number of sections of their time. They come in an order that
// depends on what they are, not on where they stand in p, which makes whatever is done with them indifferent to that.
func liveRanges(p Problem) (lives []liveRange, sections int32) {
	unit := alignUnit(p)
	lives = make([]liveRange, 0, len(p.Buffers))
	fixed := p.fixedOffsets()
	for i, b := range p.Buffers {
		if takesRoom(b) {
			at := int64(notFixed)
			if fixed != nil {
				at = fixed[i]
			}
			lives = append(lives, liveRange{
				begin: b.First, end: b.Last, buffer: int32(i), first: b.First,
				duration: int64(b.Last) - int64(b.First), size: alignUp(b.Size, unit), align: max(b.Align, 1), fixed: at,
			})
		}
	}
	if !slices.IsSortedFunc(lives, func(a, b liveRange) int { return cmp.Compare(a.begin, b.begin) }) {
		slices.SortStableFunc(lives, func(a, b liveRange) int { return cmp.Compare(a.begin, b.begin) })
	}
	for from, to := 0, 0; from < len(lives); from = to {
		for to = from + 1; to < len(lives) && lives[to].begin == lives[from].begin; to++ {
		}
		slices.SortFunc(lives[from:to], func(a, b liveRange) int {
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.size, b.size),
				cmp.Compare(p.Buffers[a.buffer].Size, p.Buffers[b.buffer].Size), cmp.Compare(a.align, b.align), cmp.Compare(a.fixed, b.fixed),
				cmp.Compare(a.buffer, b.buffer))
		})
	}
	return lives, compressTime(lives)
}

// unitOf is the largest number that divides all alignments. Offsets are whole units, so a size may as well be: only
// above the highest buffer is the room that this adds of any use to anyone.
func alignUnit(p Problem) int64 {
	unit := int64(0)
	for _, b := range p.Buffers {
		if takesRoom(b) {
			unit = gcd(unit, max(b.Align, 1))
		}
	}
	return max(unit, 1)
}

// bound is below every height that a solution of p can have: all bytes alive at the worst moment, or the same with
// sizes in whole units, less what that may have added above the highest buffer; or the end of a fixed one; or what those
// need that are aligned alike.
func lowerBound(p Problem, inUnits, alike int64) int64 {
	bytes, _ := MaxLive(p)
	return max(bytes, inUnits-unitSlack(p), fixedTop(p), alike)
}

// commonest is how many alignments are looked at for a bound: each takes a sweep.
const maxBoundAligns = 8

// alignedLive is below every height, too: those alive at once that are aligned alike begin whole alignments apart, and so each
// but the highest takes whole ones.
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
		var alike Problem
		slack := int64(0)
		for _, b := range p.Buffers {
			if takesRoom(b) && b.Align%align == 0 && b.Align > 0 {
				whole := alignUp(b.Size, align)
				slack = max(slack, whole-b.Size)
				b.Size = whole
				alike.Buffers = append(alike.Buffers, b)
			}
		}
		bytes, _ := MaxLive(alike)
		most = max(most, bytes-slack)
	}
	return most
}

// unitSlack is the most that whole units add to the size of a buffer.
func unitSlack(p Problem) (most int64) {
	unit := alignUnit(p)
	for _, b := range p.Buffers {
		most = max(most, alignUp(b.Size, unit)-b.Size)
	}
	return most
}

// MaxLive is the most bytes of p that are alive at once, and the first moment at which they are. No arena is smaller.
// A sum past the largest number is given as that number.
func MaxLive(p Problem) (bytes int64, at int32) {
	all := make([]int32, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if takesRoom(b) {
			all = append(all, int32(i))
		}
	}
	begins := sortedBy(all, func(i int32) int32 { return p.Buffers[i].First })
	ends := sortedBy(all, func(i int32) int32 { return p.Buffers[i].Last })

	live, ended := uint64(0), 0 // at most 2^31 sizes below 2^63 could wrap; the guard below returns first
	for _, i := range begins {
		now := p.Buffers[i].First
		for ; p.Buffers[ends[ended]].Last <= now; ended++ {
			live -= uint64(p.Buffers[ends[ended]].Size)
		}
		if live += uint64(p.Buffers[i].Size); live > math.MaxInt64 {
			return math.MaxInt64, now
		}
		if int64(live) > bytes {
			bytes, at = int64(live), now
		}
	}
	return bytes, at
}

// byTime is places in the order of their times. Places that are in order are given back as they are.
func sortedBy(places []int32, time func(i int32) int32) []int32 {
	order := func(i, j int32) int { return cmp.Compare(time(i), time(j)) }
	if slices.IsSortedFunc(places, order) {
		return places
	}
	places = slices.Clone(places)
	slices.SortStableFunc(places, order)
	return places
}

// toSections replaces the times of lives by sections: stretches of time that no buffer's end parts from a later
// buffer's begin. The live buffers of any moment are among those of its section, which are all alive at once, so two
// lives meet in sections exactly when they meet in time.
func compressTime(lives []liveRange) (sections int32) {
	ends := make([]int32, len(lives)) // positions in lives, by end; lives itself is sorted by begin
	for i := range ends {
		ends[i] = int32(i)
	}
	ends = sortedBy(ends, func(i int32) int32 { return lives[i].end })
	ended, last := 0, int32(-1) // last: how many had ended when the newest section began
	for i := range lives {
		for ; lives[ends[ended]].end <= lives[i].begin; ended++ {
			lives[ends[ended]].end = sections
		}
		if int32(ended) > last {
			sections++
			last = int32(ended)
		}
		lives[i].begin = sections - 1
	}
	for _, i := range ends[ended:] {
		lives[i].end = sections
	}
	return sections
}

// mostLive is the most bytes that are alive in one section.
func maxLive(lives []liveRange, sections int32) int64 {
	most := int64(0)
	for _, live := range liveBytes(lives, sections) {
		most = max(most, live)
	}
	return most
}

// liveOf is the bytes alive in each section.
func liveBytes(lives []liveRange, sections int32) []int64 {
	return sumOf(lives, sections, func(l *liveRange) int64 { return l.size })
}

// sumOf is, by section, what the lives that are alive there come to together.
func sumOf(lives []liveRange, sections int32, of func(l *liveRange) int64) []int64 {
	sum := make([]int64, sections+1)
	for i := range lives {
		l := &lives[i]
		x := of(l)
		sum[l.begin] += x
		sum[l.end] -= x
	}
	for t := range sections {
		sum[t+1] += sum[t]
	}
	return sum[:sections]
}

// up is x, or the next multiple of align above it.
func alignUp(x, align int64) int64 {
	if align&(align-1) == 0 { // as most are, and dividing takes long
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
