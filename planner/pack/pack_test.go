package pack

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSolve(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Problem
		want Solution
	}{
		{"nothing takes no room",
			Problem{},
			Solution{Offsets: []int64{}, By: "stack"}},
		{"one buffer lies at the bottom",
			Problem{Buffers: []Buffer{{3, 5, 7, 0}}},
			Solution{[]int64{0}, 7, 7, "stack", nil}},
		{"two alive at once lie on each other",
			Problem{Buffers: []Buffer{{0, 2, 4, 0}, {1, 3, 5, 0}}},
			Solution{[]int64{0, 4}, 9, 9, "stack", nil}},
		{"spans are half-open: one ends when the next begins",
			Problem{Buffers: []Buffer{{0, 2, 4, 0}, {2, 4, 5, 0}}},
			Solution{[]int64{0, 0}, 5, 5, "stack", nil}},
		{"the example in the package comment",
			Problem{Buffers: []Buffer{{0, 3, 4, 0}, {3, 9, 4, 0}, {0, 9, 4, 0}}},
			Solution{[]int64{4, 4, 0}, 8, 8, "stack", nil}},
		{"the large pair has to leave the middle one a place",
			Problem{Buffers: []Buffer{{0, 2, 3, 0}, {1, 5, 2, 0}, {4, 6, 3, 0}}},
			Solution{[]int64{2, 0, 2}, 5, 5, "stack", nil}},
		{"a chain in which each meets the next only",
			Problem{Buffers: []Buffer{{0, 2, 2, 0}, {1, 4, 1, 0}, {3, 6, 4, 0}, {5, 8, 3, 0}, {7, 9, 2, 0}}},
			Solution{[]int64{0, 4, 0, 4, 0}, 7, 7, "orders", nil}},
		{"what is never alive or has no bytes is anywhere",
			Problem{Buffers: []Buffer{{1, 1, 100, 8}, {0, 9, 0, 8}, {0, 9, 1, 0}, {0, 9, 1, 0}}},
			Solution{[]int64{0, 0, 0, 1}, 2, 2, "stack", nil}},
		{"an offset is a multiple of the alignment, and the room that this costs counts for the bound",
			Problem{Buffers: []Buffer{{0, 2, 5, 8}, {0, 2, 5, 8}}},
			Solution{[]int64{0, 8}, 13, 13, "stack", nil}},
		{"the strictest alignment goes to the bottom",
			Problem{Buffers: []Buffer{{0, 2, 3, 0}, {0, 2, 64, 64}}},
			Solution{[]int64{64, 0}, 67, 67, "stack", nil}},
		{"times may be anywhere",
			Problem{Buffers: []Buffer{{math.MinInt32, math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, math.MaxInt32, 2, 0}}},
			Solution{[]int64{0, 1}, 3, 3, "stack", nil}},
		{"sizes may add up to the largest number",
			Problem{Buffers: []Buffer{{0, 1, math.MaxInt64 - 1, 0}, {0, 1, 1, 0}}},
			Solution{[]int64{1, 0}, math.MaxInt64, math.MaxInt64, "stack", nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Solve(c.p, Effort{})
			if err != nil {
				t.Fatal(err)
			}
			got.Tries = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("solution (-want +got):\n%s", diff)
			}
			if err := Check(c.p, got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSolveErrors(t *testing.T) {
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{Buffers: []Buffer{{0, 1, 1, 0}, {0, 1, -4, 0}}}, "buffer 1: size -4 is negative"},
		{Problem{Buffers: []Buffer{{0, 1, 1, -8}}}, "buffer 0: alignment -8 is negative"},
		{Problem{Buffers: []Buffer{{5, 4, 1, 0}}}, "buffer 0: ends at 4, before it begins at 5"},
		{Problem{Capacity: -1}, "capacity -1 is negative"},
		{Problem{Buffers: []Buffer{{0, 1, math.MaxInt64, 0}, {5, 6, 1, 0}}},
			"buffer 1: sizes and alignments up to here add up to more than 9223372036854775807 bytes"},
		{Problem{Buffers: []Buffer{{0, 1, math.MaxInt64, 2}}},
			"buffer 0: sizes and alignments up to here add up to more than 9223372036854775807 bytes"},
		{Problem{Capacity: 8, Buffers: []Buffer{{0, 2, 4, 0}, {1, 3, 5, 0}}},
			"capacity 8 is too small: 9 bytes are alive at once"},
	} {
		if _, err := Solve(c.p, Effort{}); err == nil || err.Error() != c.want {
			t.Errorf("Solve(%v)\n got %v\nwant %s", c.p, err, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	p := Problem{Capacity: 16, Buffers: []Buffer{{0, 4, 4, 0}, {2, 6, 4, 4}, {5, 8, 4, 0}, {3, 3, 9, 0}}}
	for _, c := range []struct {
		s    Solution
		want string // "" if there is nothing to say
	}{
		{Solution{Offsets: []int64{0, 4, 0, 0}, Height: 8, Bound: 8}, ""},
		{Solution{Offsets: []int64{0, 4, 0, 77}, Height: 8}, ""},
		{Solution{Offsets: []int64{0, 4, 0}, Height: 8}, "3 offsets for 4 buffers"},
		{Solution{Offsets: []int64{0, 6, 0, 0}, Height: 10}, "buffer 1: offset 6 is not a multiple of its alignment 4"},
		{Solution{Offsets: []int64{-1, 4, 0, 0}, Height: 8}, "buffer 0: offset -1 is negative"},
		{Solution{Offsets: []int64{0, 4, math.MaxInt64, 0}, Height: 8},
			"buffer 2: offset 9223372036854775807 and size 4 add up to no number"},
		{Solution{Offsets: []int64{1, 4, 0, 0}, Height: 8},
			"buffer 0 and buffer 1 overlap: both are alive in [2, 4), at [1, 5) and [4, 8)"},
		{Solution{Offsets: []int64{0, 4, 4, 0}, Height: 8},
			"buffer 1 and buffer 2 overlap: both are alive in [5, 6), at [4, 8) and [4, 8)"},
		{Solution{Offsets: []int64{0, 4, 0, 0}, Height: 9}, "the height is given as 9, but the highest buffer ends at 8"},
		{Solution{Offsets: []int64{0, 16, 0, 0}, Height: 20}, "the height 20 is above the capacity 16"},
		{Solution{Offsets: []int64{0, 4, 0, 0}, Height: 8, Bound: 9}, "the bound 9 is above the height 8"},
	} {
		got := ""
		if err := Check(p, c.s); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Check(%v)\n got %s\nwant %s", c.s, got, c.want)
		}
	}
}

func TestMaxLive(t *testing.T) {
	for _, c := range []struct {
		buffers []Buffer
		bytes   int64
		moment  int32
	}{
		{nil, 0, 0},
		{[]Buffer{{4, 4, 9, 0}, {7, 8, 0, 0}}, 0, 0},
		{[]Buffer{{-5, 2, 3, 0}, {2, 7, 3, 0}}, 3, -5},
		{[]Buffer{{0, 9, 1, 0}, {2, 4, 5, 0}, {4, 6, 5, 0}, {3, 4, 1, 0}}, 7, 3},
		{[]Buffer{{0, 9, math.MaxInt64, 0}, {2, 4, 5, 0}}, math.MaxInt64, 2},
	} {
		if bytes, moment := MaxLive(Problem{Buffers: c.buffers}); bytes != c.bytes || moment != c.moment {
			t.Errorf("MaxLive(%v) = %d at %d, want %d at %d", c.buffers, bytes, moment, c.bytes, c.moment)
		}
	}
}

// solved is the solution of a problem, checked.
func solved(t *testing.T, p Problem) Solution {
	t.Helper()
	s, err := Solve(p, Effort{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(p, s); err != nil {
		t.Error(err)
	}
	return s
}

// TestStep: training steps of any length are packed to within half a percent of the bound.
func TestStep(t *testing.T) {
	for _, n := range []int{100, 1000, 20_000} {
		p := trainingStep(n, 7)
		s := solved(t, p)
		if s.Height > s.Bound+s.Bound/200 {
			t.Errorf("%d buffers: height %d is more than 0.5 %% above the bound %d", n, s.Height, s.Bound)
		}
	}
}

// TestLarge: large problems of other shapes than a training step come within these percentages of the bound.
func TestLarge(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Problem
		percent int64
	}{
		{"layered", layered(1000), 1},
		{"ladder", ladder(20_000), 1},
		{"short", short(20_000, 1), 1},
		{"window", window(20_000, 1), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := solved(t, c.p)
			if s.Height > s.Bound+s.Bound/100*c.percent {
				t.Errorf("height %d, by %s, is more than %d %% above the bound %d", s.Height, s.By, c.percent, s.Bound)
			}
		})
	}
}

// anyProblem draws problems of every kind: dense and sparse, aligned or not, with buffers that are never alive or have no bytes.
func anyProblem(t *rapid.T) Problem {
	align := rapid.SampledFrom([][]int64{{0}, {1}, {16}, {0, 1, 4, 64}, {6, 4}}).Draw(t, "aligns")
	horizon := rapid.Int32Range(1, 40).Draw(t, "horizon")
	size := rapid.SampledFrom([]int64{1, 4, 50, 1 << 40}).Draw(t, "sizes")
	buffer := rapid.Custom(func(t *rapid.T) Buffer {
		first := rapid.Int32Range(-3, horizon).Draw(t, "first")
		return Buffer{
			First: first,
			Last:  rapid.Int32Range(first, horizon).Draw(t, "last"),
			Size:  rapid.Int64Range(0, size).Draw(t, "size"),
			Align: rapid.SampledFrom(align).Draw(t, "align"),
		}
	})
	n := rapid.SampledFrom([]int{0, 1, 3, 10, 60}).Draw(t, "n")
	return Problem{Buffers: rapid.SliceOfN(buffer, n, n).Draw(t, "buffers")}
}

func TestAnyProblem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		s, err := Solve(p, Effort{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(p, s); err != nil {
			t.Fatal(err)
		}
		live, _ := MaxLive(p)
		sum := int64(0)
		for _, b := range p.Buffers {
			sum += b.Size + max(b.Align, 1) - 1
		}
		if live > s.Bound || s.Bound > s.Height || s.Height > sum {
			t.Fatalf("want live %d ≤ bound %d ≤ height %d ≤ sum %d", live, s.Bound, s.Height, sum)
		}
		again, _ := Solve(p, Effort{})
		for _, t := range [][]Try{s.Tries, again.Tries} {
			for i := range t {
				t[i].Time = 0
			}
		}
		if !cmp.Equal(s, again) {
			t.Fatalf("the same problem has two solutions:\n%v\n%v", s, again)
		}

		q := Problem{Buffers: slices.Clone(p.Buffers)}
		seed := rapid.Uint64().Draw(t, "shuffle")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(q.Buffers), func(i, j int) {
			q.Buffers[i], q.Buffers[j] = q.Buffers[j], q.Buffers[i]
		})
		if shuffled, _ := Solve(q, Effort{}); shuffled.Height != s.Height {
			t.Fatalf("shuffled, the height %d became %d", s.Height, shuffled.Height)
		}
		q.Capacity = s.Height
		tight, err := Solve(q, Effort{})
		if err != nil {
			t.Fatalf("height %d, but with that as capacity: %v", s.Height, err)
		}
		if err := Check(q, tight); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCapacityBetweenUnits: a height that is no multiple of the alignment unit and is found without a capacity is found with
// that as the capacity. The unit is 2 here.
func TestCapacityBetweenUnits(t *testing.T) {
	odd := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var p Problem
		for range 24 {
			first := r.Int32N(6)
			p.Buffers = append(p.Buffers, Buffer{first, first + 1 + r.Int32N(6-first), 1 + r.Int64N(4), 4 + 2*r.Int64N(2)})
		}
		s := solved(t, p)
		if s.Height%2 == 0 {
			continue
		}
		odd++
		p.Capacity = s.Height
		if got := solved(t, p); got.Height > p.Capacity {
			t.Errorf("height %d above the capacity %d", got.Height, p.Capacity)
		}
		p.Capacity--
		less := fmt.Sprintf("%d bytes are the least found", s.Height)
		if got, err := Solve(p, Effort{}); err != nil && !strings.Contains(err.Error(), less) && !strings.Contains(err.Error(), "too small") {
			t.Errorf("with less: %v", err)
		} else if err == nil && Check(p, got) != nil {
			t.Error(Check(p, got))
		}
	}
	if odd == 0 {
		t.Error("no height is odd, so nothing was tested")
	}
}

// TestEveryOrder: every order packs every problem.
func TestEveryOrder(t *testing.T) {
	for _, o := range greedyOrders {
		t.Run(strings.ReplaceAll(o.name, ", ", "-"), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := anyProblem(t)
				ranges, sections := liveRanges(p)
				q := &part{ranges: ranges, sections: sections, floor: rapid.Int64Range(0, 9).Draw(t, "floor"), offsets: make([]int64, len(ranges))}
				empty := newOccupancy(q, math.MaxInt)
				empty.expect(ranges...)
				top, ok := o.place(q, empty, q.offsets, math.MaxInt64)
				if !ok {
					t.Fatal("gave up")
				}
				q.top = top
				checkApart(t, q)
			})
		})
	}
}

// checkApart fails if the packing of p is not valid, by looking at all pairs of ranges.
func checkApart(t *rapid.T, p *part) {
	highest := int64(0)
	for i, a := range p.ranges {
		highest = max(highest, p.offsets[i]+a.size)
		if p.offsets[i] < p.floor || p.offsets[i]%a.align != 0 {
			t.Fatalf("range %v at %d, floor %d", a, p.offsets[i], p.floor)
		}
		for j, b := range p.ranges[:i] {
			if a.begin < b.end && b.begin < a.end && p.offsets[i] < p.offsets[j]+b.size && p.offsets[j] < p.offsets[i]+a.size {
				t.Fatalf("%v at %d and %v at %d overlap", a, p.offsets[i], b, p.offsets[j])
			}
		}
	}
	if p.top != highest {
		t.Fatalf("top %d, want %d", p.top, highest)
	}
}

// TestCheckAgainstPairs: Check and a look at all pairs of buffers agree about solutions in which one buffer was moved.
func TestCheckAgainstPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		s, _ := Solve(p, Effort{})
		if n := len(p.Buffers); n > 0 {
			i := rapid.IntRange(0, n-1).Draw(t, "moved")
			a := max(p.Buffers[i].Align, 1)
			s.Offsets[i] = s.Offsets[i]/a*a + a*rapid.Int64Range(0, 3).Draw(t, "by")
		}
		s.Height, s.Bound = 0, 0
		overlap := false
		for i, a := range p.Buffers {
			if a.Size == 0 || a.First == a.Last {
				continue
			}
			s.Height = max(s.Height, s.Offsets[i]+a.Size)
			for j, b := range p.Buffers[:i] {
				if b.Size > 0 && b.First < b.Last && a.First < b.Last && b.First < a.Last &&
					s.Offsets[i] < s.Offsets[j]+b.Size && s.Offsets[j] < s.Offsets[i]+a.Size {
					overlap = true
				}
			}
		}
		if err := Check(p, s); (err != nil) != overlap {
			t.Fatalf("overlap: %v, but Check says %v", overlap, err)
		}
	})
}

// TestSections: two ranges overlap in sections if and only if they overlap in time.
func TestSections(t *testing.T) {
	p := Problem{Buffers: []Buffer{{0, 10, 1, 0}, {2, 30, 1, 0}, {10, 20, 1, 0}, {25, 40, 1, 0}, {100, 200, 1, 0}}}
	ranges, sections := liveRanges(p)
	var got []string
	for _, r := range ranges {
		got = append(got, fmt.Sprintf("%d:[%d,%d)", r.buffer, r.begin, r.end))
	}
	if want := "0:[0,1) 1:[0,3) 2:[1,2) 3:[2,3) 4:[3,4)"; strings.Join(got, " ") != want || sections != 4 {
		t.Errorf("got %s of %d, want %s of 4", strings.Join(got, " "), sections, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		ranges, sections := liveRanges(p)
		for _, a := range ranges {
			if a.begin < 0 || a.end <= a.begin || a.end > sections {
				t.Fatalf("range %v of %d sections", a, sections)
			}
			for _, b := range ranges {
				x, y := p.Buffers[a.buffer], p.Buffers[b.buffer]
				if (a.begin < b.end && b.begin < a.end) != (x.First < y.Last && y.First < x.Last) {
					t.Fatalf("%v and %v became %v and %v", x, y, a, b)
				}
			}
		}
	})
}
