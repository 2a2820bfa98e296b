package pack

import (
	"math"
	"math/bits"
	"sync/atomic"
)

const (
	heed    = 40 // the share of the goal above it below which sections press
	heeded  = 3  // such shares below that, from which on they do not
	hardest = 10 // of such a share is what a section has to spare there at least, as it is seen
	finely  = 10 // bits for such a share
)

// scale is how hard a section presses against the goal, by how far below a line above that it is.
type scale struct {
	line  int64
	low   int64 // the height from which on a section presses
	units int   // the power of two of bytes that are one step
	hard  []float64
}

// newScale is by the eighth power of how little there is to spare, so that sections that will not come near the goal count for
// next to nothing. All products are rounded, as those of waste are.
func newScale(goal int64) (s scale) {
	share := max(goal/heed, 1)
	s.line, s.units = goal+share, max(bits.Len64(uint64(share))-finely, 0)
	s.hard = make([]float64, share*heeded>>s.units+1)
	s.low = s.line - share*heeded
	for k := range s.hard {
		x := float64(share) / max(float64(k)*float64(int64(1)<<s.units), float64(share)/hardest)
		x2 := float64(x * x)
		x4 := float64(x2 * x2)
		s.hard[k] = float64(x4 * x4)
	}
	return s
}

// rise adds to heights above from, and says how much harder these press.
func (s *scale) rise(heights []int64, from, by int64) (harder float64) {
	line, units, hard, low := s.line, s.units&63, s.hard, s.low-by
	for t, height := range heights {
		if height <= from {
			continue
		}
		heights[t] = height + by
		if height > low {
			was := min(max(0, line-height)>>units, int64(len(hard)-1))
			harder += hard[max(0, line-height-by)>>units] - hard[was]
		}
	}
	return harder
}

// rival is a skyline that tries a route beside others.
type rival struct {
	*scale
	worse float64        // how much harder sections press than at the begin
	least *atomic.Uint64 // as much on the best of the others, in bits
}

// beaten is whether another route is better.
func (r *rival) beaten() bool { return r.worse > math.Float64frombits(r.least.Load()) }
