package pack

import (
	"math"
	"slices"
)

// route is how a skyline chooses.
type skylineParams struct {
	candidates    int     // lives of each group to look at for a place: more find better ones and take longer
	durationValue float64 // what it is worth that a life is long, against sections that are left beside it
	fillBias      float64 // how ready it is to fill up what is nearly even
	aimShare      int64   // the share of the goal above it that it tries to stay within
	slackScale    float64 // the share of the ceiling that a section may have to spare and weigh half of one that has none; 0: all weigh the same
}

// routes are tried in turn, until one ends low enough.
var paramSets = [...]skylineParams{
	{16, 1, 0, 256, 0}, // for what can be packed with next to no loss; it is given up where it loses more
	{16, 1, 1, 256, 0.003},
	{16, 1, 2, 256, 0.01},
}

const (
	stages       = 64  // stages of a climb, after each of which weights are brought up to date: more of them take longer
	ceilingShare = 200 // the share of the goal above it that there is to fill up what is nearly even
)

// mostClimbed is a goal above which what is summed up on the way would not be numbers.
const maxSummed = math.MaxInt64 / 4

// skylines is the lowest of what the routes make of p, or the first that is within the limit.
func trySkylines(p *part, t target) (offsets []int64, top int64) {
	limit := t.limit(p)
	top = p.top
	g := newGroups(p)
	for k, r := range paramSets {
		s := newSkyline(p, g, r, t.bound)
		most := func(int) int64 { return top - 1 }
		if k == 0 {
			most = func(stage int) int64 { return min(top-1, t.bound+(limit-t.bound)/stages*int64(stage)) }
		}
		if s.build(t.bound, most) {
			offsets, top = s.offsets, s.top
		}
		if top <= limit {
			break
		}
	}
	return offsets, top
}

// climb takes s all the way up, unless it is sure to be higher after a stage than most says.
func (s *skyline) build(goal int64, most func(stage int) int64) bool {
	for stage := 1; stage <= stages; stage++ {
		s.updateWeights()
		level := int64(math.MaxInt64)
		if stage < stages {
			level = s.floor + (goal-s.floor)/stages*int64(stage)
		}
		if s.buildTo(level); max(s.top, slices.Max(s.projected)) > most(stage) {
			return false
		}
	}
	return true
}
