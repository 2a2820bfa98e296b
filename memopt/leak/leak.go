// Package leak tells what grows as the same work is done again and again.
//
// What something grows by in a cycle is the median slope between all pairs of cycles
// (Theil and Sen's line): a few cycles in which a collector or an allocator happens to
// hold more do not tilt it. The first quarter of the cycles is left out, in which pools
// and caches fill. Growth is called one if it is above what the thing varies by, also without its largest step: a pool
// that fills late is none.
package leak

import (
	"math"
	"slices"
)

// Series is one thing's size after each cycle.
type Series struct {
	Name string
	// Bytes is whether sizes are bytes; else they are counts.
	Bytes bool
	Sizes []int64
}

// Growth is what a thing grows by.
type Growth struct {
	Series
	PerCycle float64
	// Grows is whether that is more than the thing varies by.
	Grows bool
}

// leastBytes is what allocators and a collector move by without any leak, over all cycles
// that count: a smaller leak takes more cycles to be told. leastCount is one leaked thing
// in two cycles.
const (
	leastBytes = 1 << 20
	leastCount = 0.5
)

// Find tells what grows by how much.
func Find(all []Series) (found []Growth) {
	for _, s := range all {
		g := Growth{Series: s}
		settled := s.Sizes[len(s.Sizes)/4:]
		g.PerCycle = slope(settled)
		rise := min(g.PerCycle, slope(withoutStep(settled))) * float64(len(settled)-1)
		least := leastCount * float64(len(settled)-1)
		if s.Bytes {
			least = leastBytes
		}
		// A line that rises less in all cycles than its points lie off it is none.
		g.Grows = rise > 0 && rise >= least && rise > 2*spread(settled, g.PerCycle)
		found = append(found, g)
	}
	return found
}

// withoutStep is the sizes without the largest step up between two of them.
func withoutStep(sizes []int64) []int64 {
	at, most := 0, int64(0)
	for i := 1; i < len(sizes); i++ {
		if step := sizes[i] - sizes[i-1]; step > most {
			at, most = i, step
		}
	}
	rest := slices.Clone(sizes)
	for i := at; i < len(rest); i++ {
		rest[i] -= most
	}
	return rest
}

// slope is the median of the slopes between all pairs.
func slope(sizes []int64) float64 {
	var all []float64
	for i := range sizes {
		for j := range i {
			all = append(all, float64(sizes[i]-sizes[j])/float64(i-j))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return median(all)
}

// spread is the median distance of sizes from a line of that slope.
func spread(sizes []int64, slope float64) float64 {
	var rest []float64
	for i, n := range sizes {
		rest = append(rest, float64(n)-slope*float64(i))
	}
	mid := median(slices.Clone(rest))
	for i := range rest {
		rest[i] = math.Abs(rest[i] - mid)
	}
	return median(rest)
}

func median(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}
