package pack

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// knownHeights are the heights of instances that can be packed below their capacity.
var knownHeights = map[string]int64{"C": 1039360, "D": 1028096, "J": 1021952}

// TestMiniMalloc: the hard instances of the MiniMalloc paper are packed within their capacity, in eight of which every byte is
// in use, and three without a capacity as low as they were before.
func TestMiniMalloc(t *testing.T) {
	all, err := MiniMalloc()
	if err != nil || len(all) != 11 {
		t.Fatalf("%d instances, error %v; want 11", len(all), err)
	}
	for _, instance := range all {
		t.Run(instance.Name, func(t *testing.T) {
			p := instance.Problem
			if p.Capacity != 1<<20 {
				t.Fatalf("capacity %d", p.Capacity)
			}
			s := solved(t, p)
			p.Capacity = 0
			low := solved(t, p)
			most, ok := knownHeights[instance.Name]
			if !ok {
				most = 1 << 20
			}
			if low.Height > most {
				t.Errorf("height %d; %d was reached before", low.Height, most)
			}
			if s.By != "search" {
				t.Errorf("packed by %s, not by the search", s.By)
			}
		})
	}
}

// TestLooks: Effort.Looks limits searches. With hardly any, no instance that needs a search is packed within its capacity.
func TestLooks(t *testing.T) {
	all, err := MiniMalloc()
	if err != nil {
		t.Fatal(err)
	}
	for _, instance := range all {
		p := instance.Problem
		s, err := Solve(p, Effort{Looks: 1})
		var beyond *CapacityError
		if !errors.As(err, &beyond) {
			t.Errorf("%s: %v; want a capacity that is not reached", instance.Name, err)
		}
		if p.Capacity = 0; Check(p, s) != nil {
			t.Errorf("%s: %v", instance.Name, Check(p, s))
		}
	}
	p := all[0].Problem
	if _, err := Solve(p, Effort{Looks: math.MaxInt}); err != nil {
		t.Error(err)
	}
}

// TestSearchAgainstAllOrders: the search finds the lowest top of small parts, and proves that there is none lower.
func TestSearchAgainstAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		align := rapid.SampledFrom([][]int64{{1}, {4}, {1, 2, 4}, {2, 3}}).Draw(t, "aligns")
		buffer := rapid.Custom(func(t *rapid.T) Buffer {
			first := rapid.Int32Range(0, 8).Draw(t, "first")
			return Buffer{
				First: first,
				Last:  rapid.Int32Range(first+1, 9).Draw(t, "last"),
				Size:  rapid.Int64Range(1, 9).Draw(t, "size"),
				Align: rapid.SampledFrom(align).Draw(t, "align"),
			}
		})
		ranges, sections := liveRanges(Problem{Buffers: rapid.SliceOfN(buffer, 1, 7).Draw(t, "buffers")})
		p := &part{ranges: ranges, sections: sections, floor: rapid.Int64Range(0, 3).Draw(t, "floor")}
		lowest := lowestOfAllOrders(p, make([]int64, len(ranges)), make([]bool, len(ranges)), 0)

		s := newSearch(p)
		s.maxLooks = 1 << 30
		by := s.orders()[rapid.IntRange(0, len(s.orders())-1).Draw(t, "rank")]
		rank := s.rankBy(by, make([]int64, sections))
		if got := s.run(lowest-1, rank, 1<<30); got != impossible {
			t.Fatalf("below the lowest top %d: outcome %d", lowest, got)
		}
		if got := s.run(lowest, rank, 1<<30); got != found {
			t.Fatalf("at the lowest top %d: outcome %d", lowest, got)
		}
		for i, a := range ranges {
			if s.lowest[i] < p.floor || s.lowest[i]%a.align != 0 || s.lowest[i]+a.size > lowest {
				t.Fatalf("range %v is at %d, of %d", a, s.lowest[i], lowest)
			}
			for j, b := range ranges[:i] {
				if a.begin < b.end && b.begin < a.end && s.lowest[i] < s.lowest[j]+b.size && s.lowest[j] < s.lowest[i]+a.size {
					t.Fatalf("%v at %d and %v at %d overlap", a, s.lowest[i], b, s.lowest[j])
				}
			}
		}
	})
}

// lowestOfAllOrders is the lowest top of placing the ranges of p in any order, each on top of all that it overlaps in time.
func lowestOfAllOrders(p *part, offsets []int64, placed []bool, top int64) int64 {
	lowest, all := int64(math.MaxInt64), true
	for i, a := range p.ranges {
		if placed[i] {
			continue
		}
		all = false
		offset := p.floor
		for j, b := range p.ranges {
			if placed[j] && a.begin < b.end && b.begin < a.end {
				offset = max(offset, offsets[j]+b.size)
			}
		}
		placed[i], offsets[i] = true, alignUp(offset, a.align)
		lowest = min(lowest, lowestOfAllOrders(p, offsets, placed, max(top, offsets[i]+a.size)))
		placed[i] = false
	}
	if all {
		return top
	}
	return lowest
}

// TestCapacityNotReached: eleven buffers that cannot be packed into the most bytes alive at once.
func TestCapacityNotReached(t *testing.T) {
	p := Problem{Buffers: []Buffer{
		{0, 1, 1, 0}, {1, 6, 4, 0}, {2, 3, 6, 0}, {2, 4, 2, 0}, {3, 6, 1, 0}, {3, 7, 1, 0},
		{4, 5, 6, 0}, {5, 7, 3, 0}, {5, 9, 2, 0}, {6, 10, 6, 0}, {7, 12, 1, 0},
	}}
	for _, c := range []struct {
		capacity int64
		want     string
	}{
		{0, ""},
		{13, ""},
		{12, "capacity 12 is not reached: 13 bytes are the least found, at least 13 are needed"},
		{11, "capacity 11 is too small: 12 bytes are alive at once"},
	} {
		p.Capacity = c.capacity
		s, err := Solve(p, Effort{})
		if c.want == "" && (err != nil || s.Height != 13 || s.Bound > 13) {
			t.Errorf("capacity %d: %+v, error %v; want height 13", c.capacity, s, err)
		}
		var beyond *CapacityError
		if c.want != "" && (!errors.As(err, &beyond) || err.Error() != c.want) {
			t.Errorf("capacity %d: error %v; want %s", c.capacity, err, c.want)
		}
	}
}
