package pack

import (
	"math/rand/v2"
	"testing"
)

// TestCopies: a problem repeated thirty times in a row, its buffers in any order, is packed like one copy: as low, by the same
// pass, within the looks that suffice for one.
func TestCopies(t *testing.T) {
	const times = 30
	all, err := MiniMalloc()
	if err != nil {
		t.Fatal(err)
	}
	for _, instance := range all {
		once := instance.Problem
		var end int32
		for _, b := range once.Buffers {
			end = max(end, b.Last)
		}
		var often Problem
		for k := range int32(times) {
			for _, b := range once.Buffers {
				b.First, b.Last = b.First+k*end, b.Last+k*end
				often.Buffers = append(often.Buffers, b)
			}
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(often.Buffers), func(i, j int) {
			often.Buffers[i], often.Buffers[j] = often.Buffers[j], often.Buffers[i]
		})
		if parts, of := len(partsOf(often)), len(partsOf(once)); parts != of {
			t.Errorf("%s: %d distinct parts, not %d", instance.Name, parts, of)
		}
		once.Capacity, often.Capacity = instance.Capacity, instance.Capacity
		a, failed := Solve(once, Effort{Looks: 1 << 24})
		b, failedToo := Solve(often, Effort{Looks: 1 << 24})
		if (failed == nil) != (failedToo == nil) || a.Height != b.Height || a.By != b.By {
			t.Errorf("%s: once comes to %d by %s (%v), %d times to %d by %s (%v)", instance.Name, a.Height, a.By, failed, times, b.Height, b.By, failedToo)
		}
		often.Capacity = 0
		if err := Check(often, b); err != nil {
			t.Errorf("%s: %v", instance.Name, err)
		}
	}
}

// TestDistinct: parts that differ in one range are distinct.
func TestDistinct(t *testing.T) {
	base := []Buffer{{First: 0, Last: 2, Size: 8, Align: 4}, {First: 1, Last: 5, Size: 16, Align: 4}, {First: 4, Last: 8, Size: 8, Align: 8}, {First: 7, Last: 9, Size: 4, Align: 4}}
	for name, change := range map[string]func(b *Buffer){
		"size":  func(b *Buffer) { b.Size += 4 },
		"align": func(b *Buffer) { b.Align = 4 },
		"end":   func(b *Buffer) { b.Last++ },
		"begin": func(b *Buffer) { b.First = 3 },
		"":      func(*Buffer) {},
	} {
		var p Problem
		for k := range int32(2) {
			for i, b := range base {
				if k == 1 && i == 2 {
					change(&b)
				}
				p.Buffers = append(p.Buffers, Buffer{First: b.First + 100*k, Last: b.Last + 100*k, Size: b.Size, Align: b.Align})
			}
		}
		if parts, want := len(partsOf(p)), min(1+len(name), 2); parts != want {
			t.Errorf("another %s: %d parts, not %d", name, parts, want)
		}
		solved(t, p)
	}
}

// partsOf is the distinct parts of p.
func partsOf(p Problem) []*part {
	ranges, sections := liveRanges(p)
	return distinct(divide(&part{ranges: ranges, sections: sections}, make([]int64, len(p.Buffers))))
}
