package pack

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// anyFixed fixes buffers of a problem, and adds pairs that may share in place.
func anyFixed(t *rapid.T, p Problem) Problem {
	for i, b := range p.Buffers {
		if rapid.IntRange(0, 3).Draw(t, "fixed") == 0 {
			a := max(b.Align, 1)
			f := Fixed{i, rapid.Int64Range(0, 30).Draw(t, "at") / a * a}
			if q := (Problem{Buffers: p.Buffers, Fixed: append(p.Fixed[:len(p.Fixed):len(p.Fixed)], f), InPlace: p.InPlace}); Valid(q) == nil {
				p.Fixed = q.Fixed
			}
		}
		for j, c := range p.Buffers {
			if c.First == b.Last-1 && rapid.Bool().Draw(t, "pair") {
				q := p
				q.InPlace = append(p.InPlace[:len(p.InPlace):len(p.InPlace)], InPlace{i, j})
				if fixed := p.fixedOffsets(); fixed != nil && fixed[i] != notFixed && rapid.Bool().Draw(t, "both fixed") {
					r := q
					r.Fixed = append(p.Fixed[:len(p.Fixed):len(p.Fixed)], Fixed{j, fixed[i]})
					if Valid(r) == nil {
						q = r
					}
				}
				if Valid(q) == nil {
					p = q
				}
			}
		}
	}
	return p
}

// lowestOfAll is the lowest height of all solutions of p, by enumeration: each buffer in turn is placed where it is fixed, or at
// the bottom, on top of any other, or at the offset of one.
func lowestOfAll(p Problem) int64 {
	fixed := p.fixedOffsets()
	placed := make([]bool, len(p.Buffers))
	offsets := make([]int64, len(p.Buffers))
	for i, b := range p.Buffers {
		placed[i] = !takesRoom(b)
		if fixed != nil && fixed[i] != notFixed {
			placed[i], offsets[i] = true, fixed[i]
		}
	}
	best := int64(math.MaxInt64)
	var put func()
	put = func() {
		height, all := int64(0), true
		var partial Problem // of the buffers placed so far
		var partialOffsets []int64
		number := make([]int, len(p.Buffers))
		for i, b := range p.Buffers {
			number[i] = -1
			if all = all && placed[i]; placed[i] && takesRoom(b) {
				height = max(height, offsets[i]+b.Size)
				number[i] = len(partialOffsets)
				partial.Buffers, partialOffsets = append(partial.Buffers, b), append(partialOffsets, offsets[i])
			}
		}
		for _, x := range p.InPlace {
			if number[x.From] >= 0 && number[x.To] >= 0 {
				partial.InPlace = append(partial.InPlace, InPlace{number[x.From], number[x.To]})
			}
		}
		if height >= best {
			return
		}
		if _, _, bad := findOverlap(rectangles(partial, partialOffsets)); bad {
			return
		}
		if all {
			best = height
			return
		}
		for i, b := range p.Buffers {
			if placed[i] {
				continue
			}
			placed[i] = true
			tried := map[int64]bool{}
			try := func(x int64) {
				if offsets[i] = alignUp(x, max(b.Align, 1)); !tried[offsets[i]] {
					tried[offsets[i]] = true
					put()
				}
			}
			try(0)
			for j, c := range p.Buffers {
				if j != i && placed[j] && takesRoom(c) {
					x := offsets[j]
					try(x)
					try(x + c.Size)
				}
			}
			placed[i] = false
		}
	}
	put()
	return best
}

// TestSmallAgainstAll: no solution and no bound contradicts the lowest height of all solutions. Without pairs, that height is
// reached but for the rounding of a size to the alignment unit.
func TestSmallAgainstAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffer := rapid.Custom(func(t *rapid.T) Buffer {
			first := rapid.Int32Range(0, 6).Draw(t, "first")
			return Buffer{
				First: first,
				Last:  rapid.Int32Range(first, 7).Draw(t, "last"),
				Size:  rapid.Int64Range(0, 6).Draw(t, "size"),
				Align: rapid.SampledFrom([]int64{0, 1, 2, 4}).Draw(t, "align"),
			}
		})
		p := anyFixed(t, Problem{Buffers: rapid.SliceOfN(buffer, 1, 5).Draw(t, "buffers")})
		s, err := Solve(p, Effort{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(p, s); err != nil {
			t.Fatalf("%v: %v", p, err)
		}
		lowest := lowestOfAll(p)
		if s.Bound > lowest || s.Height < lowest || len(p.InPlace) == 0 && s.Height > lowest+unitSlack(p) {
			t.Fatalf("%+v: bound %d, height %d, lowest of all %d", p, s.Bound, s.Height, lowest)
		}
		p.Capacity = lowest + unitSlack(p)
		if len(p.InPlace) == 0 {
			if _, err := Solve(p, Effort{}); err != nil {
				t.Fatalf("%+v: %v", p, err)
			}
		}
	})
}

// TestAnyFixed: larger problems have valid solutions, too, and their bounds hold without sharing.
func TestAnyFixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyFixed(t, anyProblem(t))
		s, err := Solve(p, Effort{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(p, s); err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		p.InPlace = nil
		if Valid(p) != nil {
			return // two are fixed where they need to share
		}
		apart, err := Solve(p, Effort{})
		if err != nil {
			t.Fatal(err)
		}
		if apart.Height < s.Bound {
			t.Fatalf("%d without sharing is below the bound %d with it", apart.Height, s.Bound)
		}
	})
}

// TestSkylineFixed: a skyline is built around fixed ranges.
func TestSkylineFixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyFixed(t, anyProblem(t))
		p.InPlace = nil
		if Valid(p) != nil {
			return // two are fixed where they need to share
		}
		ranges, sections := liveRanges(p)
		if len(ranges) == 0 {
			return
		}
		q := &part{ranges: ranges, sections: sections, top: math.MaxInt64}
		bound := max(maxLive(ranges, sections), fixedTop(p))
		q.offsets, q.top = trySkylines(q, target{bound: bound, enough: bound})
		if q.offsets == nil {
			return // fixed ranges are in the way of every skyline
		}
		if q.top < bound {
			t.Fatalf("%+v: built to %d, below the bound %d", p, q.top, bound)
		}
		checkApart(t, q)
		for i, r := range ranges {
			if r.fixed != notFixed && q.offsets[i] != r.fixed {
				t.Fatalf("%+v: range %v at %d", p, r, q.offsets[i])
			}
		}
	})
}

// TestAroundRegions: many ranges are packed around a few reserved regions to within a percent of the bound.
func TestAroundRegions(t *testing.T) {
	const n, regions = 20_000, 8
	p := short(n, 1)
	for i := range regions {
		p.Fixed = append(p.Fixed, Fixed{len(p.Buffers), int64(i) << 20})
		p.Buffers = append(p.Buffers, Buffer{First: int32(i * n / regions), Last: int32((i + 1) * n / regions), Size: 1 << 20, Align: 64})
	}
	s := solved(t, p)
	if s.Height > s.Bound+s.Bound/100 {
		t.Errorf("height %d, by %s, is more than a percent above the bound %d", s.Height, s.By, s.Bound)
	}
}

// TestAroundMany: many ranges are packed around many that are fixed where a packing had them.
func TestAroundMany(t *testing.T) {
	for name, shape := range shapes {
		p := shape(3000, 5)
		before := solved(t, p)
		for _, every := range []int{3, 100} {
			q := Problem{Buffers: p.Buffers}
			for i := 0; i < len(p.Buffers); i += every {
				q.Fixed = append(q.Fixed, Fixed{i, before.Offsets[i]})
			}
			s := solved(t, q)
			if s.Height > s.Bound+s.Bound/8 {
				t.Errorf("%s, every %d fixed: height %d, by %s, is far above the bound %d", name, every, s.Height, s.By, s.Bound)
			}
		}
	}
}

// TestFixedHigh: many ranges are packed below a buffer that is fixed as high as can be, without overflow.
func TestFixedHigh(t *testing.T) {
	p := Problem{Fixed: []Fixed{{0, math.MaxInt64 - 1<<20}}}
	p.Buffers = append(p.Buffers, Buffer{First: 0, Last: 2 * fewRanges, Size: 1})
	for i := range int32(fewRanges + 1) {
		p.Buffers = append(p.Buffers, Buffer{First: i, Last: i + 20, Size: 1 + int64(i%7)})
	}
	s, err := Solve(p, Effort{})
	if err != nil || Check(p, s) != nil || s.Height != s.Bound {
		t.Errorf("height %d, bound %d, error %v, check %v", s.Height, s.Bound, err, Check(p, s))
	}
}

func TestFixedErrors(t *testing.T) {
	two := []Buffer{{0, 4, 8, 4}, {3, 6, 8, 0}}
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{Buffers: two, Fixed: []Fixed{{2, 0}}}, "buffer 2 is fixed, but there are 2"},
		{Problem{Buffers: two, Fixed: []Fixed{{0, 0}, {0, 8}}}, "buffer 0 is fixed twice"},
		{Problem{Buffers: two, Fixed: []Fixed{{1, -1}}}, "buffer 1 is fixed at -1, which is negative"},
		{Problem{Buffers: two, Fixed: []Fixed{{0, 6}}}, "buffer 0 is fixed at 6, which is not a multiple of its alignment 4"},
		{Problem{Buffers: two, Fixed: []Fixed{{1, math.MaxInt64 - 8}}},
			"buffer 1 is fixed at 9223372036854775799; with sizes and alignments that is more than 9223372036854775807 bytes"},
		{Problem{Buffers: two, Fixed: []Fixed{{0, 0}, {1, 7}}}, "buffer 0 and buffer 1 are fixed at bytes that they would share"},
		{Problem{Buffers: two, Fixed: []Fixed{{1, 8}}, Capacity: 15}, "capacity 15 is too small: buffer 1 is fixed up to 16"},
		{Problem{Buffers: two, InPlace: []InPlace{{0, 2}}}, "buffer 2 is to share in place, but there are 2"},
		{Problem{Buffers: two, InPlace: []InPlace{{1, 0}}},
			"buffer 0 cannot take over buffer 1: it is alive from 0, not from the last moment of [3, 6)"},
		{Problem{Buffers: two, InPlace: []InPlace{{0, 1}}, Capacity: 7}, "capacity 7 is too small: 8 bytes are alive at once"},
		{Problem{Buffers: []Buffer{{0, 4, 8, 4}, {3, 6, 8, 6}}, InPlace: []InPlace{{0, 1}}, Capacity: 10},
			"capacity 10 is not reached: 16 bytes are the least found, at least 8 are needed"},
		{Problem{Buffers: append(two, Buffer{3, 4, 1, 0}), InPlace: []InPlace{{0, 1}, {0, 2}}},
			"buffer 0 is to be taken over by both buffer 1 and buffer 2"},
	} {
		if _, err := Solve(c.p, Effort{}); err == nil || err.Error() != c.want {
			t.Errorf("Solve(%v)\n got %v\nwant %s", c.p, err, c.want)
		}
	}
}

func TestInPlace(t *testing.T) {
	chain := Problem{Buffers: []Buffer{{0, 4, 8, 0}, {3, 6, 8, 0}, {5, 9, 4, 0}}, InPlace: []InPlace{{0, 1}, {1, 2}}}
	s, err := Solve(chain, Effort{})
	if err != nil || s.Height != 8 || s.Bound != 8 || Check(chain, s) != nil {
		t.Errorf("a chain: %+v, error %v; want height 8", s, err)
	}
	s.Offsets[2], s.Height = 4, 8
	if err := Check(chain, s); err == nil {
		t.Error("sharing at another offset is let through")
	}
}

// TestInPlaceFixed: a pair that is fixed at one offset shares bytes, though joining it to one buffer of the larger size would
// overlap a third.
func TestInPlaceFixed(t *testing.T) {
	p := Problem{
		Buffers: []Buffer{{0, 5, 10, 0}, {4, 8, 20, 0}, {0, 4, 10, 0}, {4, 5, 4, 0}},
		Fixed:   []Fixed{{0, 0}, {1, 0}, {2, 10}},
		InPlace: []InPlace{{0, 1}},
	}
	s, err := Solve(p, Effort{})
	if err != nil || s.Height != 24 || Check(p, s) != nil {
		t.Errorf("%+v, error %v, check %v; want height 24", s, err, Check(p, s))
	}
}

// TestFixedFarAbove: a valley whose wall is the top of a fixed range is filled up to the bottom of another, however far above,
// and not past it.
func TestFixedFarAbove(t *testing.T) {
	p := &part{sections: 2, ranges: []liveRange{
		{begin: 0, end: 1, size: 990, align: 1, fixed: 10},
		{begin: 0, end: 2, size: 20, align: 1, fixed: notFixed},
		{begin: 1, end: 2, size: 110, align: 1, fixed: 990},
	}}
	s := newSkyline(p, newGroups(p), paramSets[1], 1120)
	s.aim, s.ceiling = 1120, 1120
	s.updateWeights()
	s.buildTo(infinity)
	if p.offsets, p.top = s.offsets, topOf(p.ranges, s.offsets); p.top > 1120 {
		t.Errorf("the top is %d", p.top)
	}
	p.check()
}
