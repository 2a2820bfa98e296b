package pack

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

// Buffer is one thing to place: alive in the half-open span [First, Last), of Size bytes, at an offset that is a
// multiple of Align (0 or 1: any offset). With First = Last it is never alive.
type Buffer struct {
	First, Last int32
	Size        int64
	Align       int64
}

// Problem is the buffers to place, and the bytes there are for them: 0 asks for the lowest arena there is.
type Problem struct {
	Buffers  []Buffer
	Capacity int64
	Fixed    []Fixed
	InPlace  []InPlace
	Names    []string // of buffers, for errors, files and pictures; nil calls them by their number
	Times    []int64  // what files call moments from 0 up; nil calls them what they are
}

// Effort is what a solution is worth. The zero value is as much as the buffers are worth, with all passes.
type Effort struct {
	// Looks is how much searches may look at, about a quarter of a million in a millisecond; 0 is as much as the buffers
	// are worth. Where a problem has a capacity, too, what is not within it soon is given up.
	Looks int
	// Without are names of passes that are not run; [Passes] lists them. The answer is valid without any of them.
	Without map[string]bool
	// Context ends Solve, which polls it as package stop says; nil is none.
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

// time is what files and errors call a moment.
func (p Problem) timestamp(moment int32) int64 {
	if p.Times == nil {
		return int64(moment)
	}
	return p.Times[moment]
}

// Fixed says that a buffer stands at an offset and nowhere else: an input somebody else has placed, or bytes that are
// reserved.
type Fixed struct {
	Buffer int
	Offset int64
}

// InPlace says that buffer To, which begins in the last moment of buffer From, may take over its bytes: they may share
// that moment if they have the same offset. Each buffer gives its bytes to one other at most.
type InPlace struct {
	From, To int
}

// Solution places each buffer of a problem. A buffer that is never alive, or has no bytes, stands at offset 0 unless it
// is fixed, and counts for nothing.
type Solution struct {
	Offsets []int64 // one a buffer, in the problem's order
	Height  int64   // the end of the highest buffer
	Bound   int64   // proven: no solution is lower; the bytes alive at the worst moment, or more
	By      string  // the pass that placed the highest part; "stack" if all lie on top of each other
	Tries   []Try   // the passes that ran, in running order
}

// Solve places the buffers of p as low as it can; within p.Capacity is low enough, if there is one, and never missed if
// the height without it is, unless e.Looks are counted. Buffers that it cannot place within it are a CapacityError that says how low it came and how
// low anyone can come, with that solution; a problem that is not well formed is another error.
func Solve(p Problem, e Effort) (Solution, error) {
	if err := Valid(p); err != nil {
		return Solution{}, err
	}
	if e.Looks < 0 {
		return Solution{}, fmt.Errorf("%d looks are fewer than none", e.Looks)
	}
	if err := validWithout(e.Without); err != nil {
		return Solution{}, err
	}
	if len(p.InPlace) > 0 {
		return solveInPlace(p, e)
	}
	return solve(p, e)
}

// solve is Solve for a problem that is well formed, and in which no buffer takes over another.
func solve(p Problem, e Effort) (s Solution, err error) {
	lives, sections := liveRanges(p)
	alike := alignedBound(p)
	goal := max(maxLive(lives, sections), fixedTop(p), alignUp(alike, alignUnit(p)))
	s = Solution{Offsets: make([]int64, len(p.Buffers)), Bound: lowerBound(p, goal, alike), By: "stack"}
	for _, f := range p.Fixed {
		s.Offsets[f.Buffer] = f.Offset // those too that take no room
	}
	if p.Capacity > 0 && s.Bound > p.Capacity {
		return Solution{}, tooSmall(p, s.Bound)
	}
	if p.Capacity > 0 && p.Capacity < goal && e.Looks == 0 { // it is up to what whole units add to the highest buffer
		uncapped := p
		uncapped.Capacity = 0
		s, err := solve(uncapped, e)
		if err == nil && s.Height > p.Capacity {
			err = notReached(p, s)
		}
		return s, err
	}
	parts := distinct(divide(&part{ranges: lives, sections: sections, ctx: e.Context}, s.Offsets))
	t := target{bound: goal, enough: max(goal, p.Capacity), capped: p.Capacity > 0, quick: p.Capacity > 0 && e.Looks > 0, looks: e.Looks}
	if t.looks == 0 {
		t.looks = math.MaxInt
	}
	s.Tries = runPasses(parts, t, e.Without)
	s.collect(p, parts)
	for _, part := range parts {
		s.Bound = max(s.Bound, part.bound-unitSlack(p))
	}
	if p.Capacity > 0 && s.Height > p.Capacity {
		return s, notReached(p, s)
	}
	return s, nil
}

// CapacityError says that the buffers of a problem do not go within its capacity, or that no place for them was found.
type CapacityError struct{ text string }

func (e *CapacityError) Error() string { return e.text }

func capacityError(format string, args ...any) error {
	return &CapacityError{"capacity " + fmt.Sprintf(format, args...)}
}

// notReached says that s is above the capacity of p.
func notReached(p Problem, s Solution) error {
	return capacityError("%d is not reached: %d bytes are the least found, at least %d are needed", p.Capacity, s.Height, s.Bound)
}

// NotWithin is the error for a capacity that something of a height is above.
func NotWithin(capacity, height int64) error {
	return capacityError("%d is not reached: %d bytes are needed", capacity, height)
}

// tooSmall says why no solution of p is within its capacity.
func tooSmall(p Problem, bound int64) error {
	for _, f := range p.Fixed {
		if end := f.Offset + p.Buffers[f.Buffer].Size; takesRoom(p.Buffers[f.Buffer]) && end > p.Capacity {
			return capacityError("%d is too small: %s is fixed up to %d", p.Capacity, p.name(f.Buffer), end)
		}
	}
	return capacityError("%d is too small: %d bytes are alive at once", p.Capacity, bound)
}

// takesRoom is whether b has bytes and is ever alive.
func takesRoom(b Buffer) bool { return b.Size > 0 && b.First < b.Last }

// read takes over the offsets of parts.
func (s *Solution) collect(p Problem, parts []*part) {
	highest := int64(0)
	for _, part := range parts {
		for _, lives := range append(part.copies, part.ranges) {
			for i, l := range lives {
				s.Offsets[l.buffer] = part.offsets[i]
			}
		}
		if part.top > highest {
			highest, s.By = part.top, part.by
		}
	}
	s.Height = 0
	for i, b := range p.Buffers {
		if takesRoom(b) {
			s.Height = max(s.Height, s.Offsets[i]+b.Size)
		}
	}
}

// Valid says what is wrong with p, whatever its capacity may hold. It also makes sure that sums of sizes and of what alignment adds to them, and so all
// offsets that a packer can come to, are numbers.
func Valid(p Problem) error {
	if p.Capacity < 0 {
		return fmt.Errorf("capacity %d is negative", p.Capacity)
	}
	if len(p.Buffers) > math.MaxInt32 {
		return fmt.Errorf("%d buffers are more than the %d that can be told apart", len(p.Buffers), math.MaxInt32)
	}
	room := int64(math.MaxInt64)
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
	if err := validInPlace(p); err != nil {
		return err
	}
	return validFixed(p, room)
}
