package pack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
)

// Buffer is one thing to place: alive in the half-open span of moments [First, Last), of Size bytes, at an offset that is
// a multiple of Align (0 or 1: any offset). With First = Last it is never alive.
type Buffer struct {
	First, Last int32
	Size        int64
	Align       int64
}

// Problem is the buffers to place, and the bytes there are for them: 0 asks for the lowest arena there is.
type Problem struct {
	Buffers  []Buffer
	Capacity int64
	Names    []string // of buffers, for errors, files and pictures; nil: their numbers
	Times    []int64  // what files call moments 0, 1, 2, …; nil: the same
}

// Effort is how much a solution may cost. The zero value runs all passes for as long as the number of buffers justifies.
type Effort struct {
	// Looks limits the work of searches, about a quarter of a million in a millisecond; 0: as the number of buffers justifies.
	// With Looks and a capacity, Solve gives up soon if it does not get within the capacity.
	Looks int
	// Without names passes that are not run; [Passes] lists them. The solution is valid without any of them.
	Without map[string]bool
	// Context ends Solve, which polls it as package stop says; nil: never.
	Context context.Context
}

// label is what files and pictures call a buffer.
func (p Problem) label(i int) string {
	if p.Names == nil {
		return strconv.Itoa(i)
	}
	return p.Names[i]
}

// name is what errors call a buffer.
func (p Problem) name(i int) string {
	if p.Names == nil {
		return fmt.Sprintf("buffer %d", i)
	}
	return fmt.Sprintf("buffer %.40q", p.Names[i])
}

// timestamp is what files, pictures and errors call a moment.
func (p Problem) timestamp(moment int32) int64 {
	if p.Times == nil {
		return int64(moment)
	}
	return p.Times[moment]
}

// Solution places each buffer of a problem. A buffer that is never alive or has no bytes gets offset 0 and does not count.
type Solution struct {
	Offsets []int64 // by buffer
	Height  int64   // the top of the highest buffer
	Bound   int64   // proven: no solution is lower
	By      string  // the pass that placed the highest part; "stack" if all lie on top of each other
	Tries   []Try   // the passes that ran, in running order
}

// Solve places the buffers of p as low as it can. If p has a capacity, any height within it will do, and Solve gets within
// it whenever the height without a capacity does, unless e.Looks is set. If it does not, the error is a [CapacityError] that
// says how low it came and what the bound is, and the solution found comes with it. Other errors say why p is not valid.
func Solve(p Problem, e Effort) (Solution, error) {
	if err := Valid(p); err != nil {
		return Solution{}, err
	}
	if e.Looks < 0 {
		return Solution{}, fmt.Errorf("%d looks: want 0 or more", e.Looks)
	}
	if err := validWithout(e.Without); err != nil {
		return Solution{}, err
	}
	return solve(p, e)
}

// solve is Solve for a valid problem.
func solve(p Problem, e Effort) (s Solution, err error) {
	ranges, sections := liveRanges(p)
	// inUnits is the bound with sizes rounded up to whole units. Only what that adds to the highest buffer may raise it.
	live, _ := MaxLive(p)
	aligned := alignedBound(p)
	inUnits := max(maxLive(ranges, sections), alignUp(aligned, alignUnit(p)))
	bound := max(live, inUnits-unitSlack(p), aligned)
	s = Solution{Offsets: make([]int64, len(p.Buffers)), Bound: bound, By: "stack"}
	if p.Capacity > 0 && bound > p.Capacity {
		return Solution{}, capacityError("%d is too small: %d bytes are alive at once", p.Capacity, bound)
	}
	if p.Capacity > 0 && p.Capacity < inUnits && e.Looks == 0 { // only what rounding adds to the highest buffer is between them
		uncapped := p
		uncapped.Capacity = 0
		s, err := solve(uncapped, e)
		if err == nil && s.Height > p.Capacity {
			err = notReached(p, s)
		}
		return s, err
	}
	parts := distinct(divide(&part{ranges: ranges, sections: sections, ctx: e.Context}, s.Offsets))
	t := target{bound: inUnits, enough: max(inUnits, p.Capacity), capped: p.Capacity > 0, looks: cmp.Or(e.Looks, math.MaxInt)}
	t.quick = t.capped && e.Looks > 0
	s.Tries = runPasses(parts, t, e.Without)
	s.collect(p, parts)
	for _, part := range parts {
		s.Bound = max(s.Bound, part.bound-unitSlack(p))
	}
	if t.capped && s.Height > p.Capacity {
		return s, notReached(p, s)
	}
	return s, nil
}

// CapacityError says that no solution within the capacity exists, or that none was found.
type CapacityError struct{ text string }

func (e *CapacityError) Error() string { return e.text }

func capacityError(format string, args ...any) error {
	return &CapacityError{"capacity " + fmt.Sprintf(format, args...)}
}

// notReached is the error for s, the lowest solution found, being above the capacity of p.
func notReached(p Problem, s Solution) error {
	return capacityError("%d is not reached: %d bytes are the least found, at least %d are needed", p.Capacity, s.Height, s.Bound)
}

// takesRoom reports whether b has bytes and is ever alive.
func takesRoom(b Buffer) bool { return b.Size > 0 && b.First < b.Last }

// collect fills s with the packings of parts and of their copies.
func (s *Solution) collect(p Problem, parts []*part) {
	highest := int64(0)
	for _, part := range parts {
		for _, ranges := range append(part.copies, part.ranges) {
			for i, r := range ranges {
				s.Offsets[r.buffer] = part.offsets[i]
			}
		}
		if part.top > highest {
			highest, s.By = part.top, part.by
		}
	}
	s.Height = heightOf(p, s.Offsets)
}

// heightOf is the top of the highest buffer that takes room.
func heightOf(p Problem, offsets []int64) (height int64) {
	for i, b := range p.Buffers {
		if takesRoom(b) {
			height = max(height, offsets[i]+b.Size)
		}
	}
	return height
}

// Valid says what is wrong with p, whatever its capacity is. It also rejects problems in which sizes and alignments
// sum to more than an int64 holds, so no offset that a pass computes overflows.
func Valid(p Problem) error {
	if p.Capacity < 0 {
		return fmt.Errorf("capacity %d is negative", p.Capacity)
	}
	if len(p.Buffers) > math.MaxInt32 {
		return fmt.Errorf("%d buffers are more than the %d that can be told apart", len(p.Buffers), math.MaxInt32)
	}
	room := int64(math.MaxInt64) // what sizes and alignments so far leave of the largest number
	for i, b := range p.Buffers {
		switch {
		case b.Size < 0:
			return fmt.Errorf("%s: size %d is negative", p.name(i), b.Size)
		case b.Align < 0:
			return fmt.Errorf("%s: alignment %d is negative", p.name(i), b.Align)
		case b.Last < b.First:
			return fmt.Errorf("%s: ends at %d, before it begins at %d", p.name(i), p.timestamp(b.Last), p.timestamp(b.First))
		}
		for _, bytes := range [...]int64{b.Size, max(b.Align, 1) - 1} {
			if room -= bytes; room < 0 {
				return fmt.Errorf("%s: sizes and alignments up to here add up to more than %d bytes",
					p.name(i), int64(math.MaxInt64))
			}
		}
	}
	return nil
}
