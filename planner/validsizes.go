package planner

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// A model may take some sizes of a dim only: multiples of what a net halves it by, or those from a kernel's on. What
// its shapes need of the sizes (graph.Assume) tells the first at once, for any size; the second only binding the graph
// does.

func newLargest(g *graph.Graph, r Request, dim string) *largest {
	return &largest{g: g, r: r, dim: dim, least: 1, constrained: slices.ContainsFunc(g.Assumed, func(a graph.Assume) bool {
		return a.A.Uses(dim) || a.B.Uses(dim)
	})}
}

// takes is whether what the shapes need is so for a size.
func (l *largest) takes(size int64) bool {
	if !l.constrained {
		return true
	}
	b, err := graph.Bind(l.dims(size))
	return err == nil && l.g.CheckBinding(b) == nil
}

// nearby is how far from one size the next is looked for that the shapes take. Mostly they ask for multiples, and of few
// numbers as large.
const nearby = 1 << 13

// nearest is the size nearest to another, between above and below, that the shapes take; 0 if none is nearby.
func (l *largest) nearest(size, above, below int64) int64 {
	for d := range int64(nearby) {
		down, up := size-d, size+d
		switch {
		case down <= above && up >= below:
			return 0
		case down > above && down < below && l.takes(down):
			return down
		case up > above && up < below && l.takes(up):
			return up
		}
	}
	return 0
}

// mostTried is the largest size that is tried where smaller ones are no model's.
const mostTried = 1 << 20

// smallest is the smallest size that the model takes. It goes up by doubling, past the size that the request has, if it
// has one, and then halves what lies between the first size that the model takes and the one before.
func (l *largest) smallest() (int64, error) {
	var sizes []int64
	for size := int64(1); size <= mostTried; size *= 2 {
		sizes = append(sizes, size)
	}
	if asked := l.r.Dims[l.dim]; asked > 0 {
		sizes = append(sizes, asked)
		slices.Sort(sizes)
	}
	below := int64(0)
	var why error // of the last size: what small ones lack, it has
	for _, size := range slices.Compact(sizes) {
		if size = cmp.Or(l.nearest(size, below, size+nearby), size); size <= below {
			continue
		}
		wrong := l.builds(size)
		if wrong == nil {
			return l.smallestBetween(below, size), nil
		}
		why, below = wrong, size
	}
	return 0, fmt.Errorf("the model takes no size of %s that was tried, the powers of two to %d and those nearby: %w", l.dim, mostTried, why)
}

// builds is what is wrong with a size of the model; nil for nothing.
func (l *largest) builds(size int64) error {
	_, err := newModel(l.g, l.request(size))
	return err
}

func (l *largest) smallestBetween(bad, good int64) int64 {
	for {
		mid := l.nearest(bad+(good-bad)/2, bad, good)
		if mid == 0 {
			return good
		}
		if l.builds(mid) == nil {
			good = mid
		} else {
			bad = mid
		}
	}
}
