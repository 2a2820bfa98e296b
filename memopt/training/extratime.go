package training

import (
	"slices"
	"time"

	"memopt/internal/schedule"
)

// extraTimes measures what a plan costs as steps run under it: the launches that run again, and copies that a step waits
// for, if the device tells, against all other launches. No step without the plan is needed, which may not fit.
type extraTimes struct {
	again, rest time.Duration
	shares      []float64 // by step
}

// add takes the times of a run.
func (x *extraTimes) add(launches []schedule.Launch, t schedule.Trace) {
	for i, took := range t.Launches {
		if launches[i].Again {
			x.again += took
		} else {
			x.rest += took
		}
	}
	x.again += max(t.Moved.Waited, 0) + max(t.Streamed.Waited, 0)
}

// stepped ends a step.
func (x *extraTimes) stepped() {
	if x.rest > 0 {
		x.shares = append(x.shares, float64(x.again)/float64(x.rest))
	}
	x.again, x.rest = 0, 0
}

// Extra is the measured share of time for launches that ran again and for waits: the median of the steps, the first left out
// where there are others, since its pages are new. It is nil where the device does not tell times beside a step.
func (r *Result) Extra() *float64 {
	s := r.extra.shares
	if len(s) > 1 {
		s = s[1:]
	}
	if len(s) == 0 {
		return nil
	}
	return &slices.Sorted(slices.Values(s))[len(s)/2]
}
