package report_test

import (
	"strings"
	"testing"
	"time"

	"memopt/internal/schedule"
	"memopt/memopt/report"
	"memopt/planner"
)

// TestCopies: what a step waits beyond what was promised is told where it counts, with what it cost.
func TestCopies(t *testing.T) {
	p := &planner.Plan{Moves: make([]planner.Move, 2), Moved: &planner.Moved{Place: "disk", Values: 2, Bytes: 3 << 20, WaitNS: 1e6}}
	trace := schedule.Trace{Took: 100 * time.Millisecond, Moved: schedule.Moved{Bytes: 3 << 20, Far: 3 << 20, Waited: 2 * time.Millisecond}}
	const told = "3.00 MiB were moved to the disk and back in a step, which waited 2.00 ms for copies; 1.00 ms was promised"
	if is := report.Copies(p, trace); is != told {
		t.Errorf("%q, not %q", is, told)
	}
	trace.Moved.Waited = 41 * time.Millisecond
	const lost = ": the disk is slower than the profile says, and 40.00 ms of the step's 100.00 ms are lost to it"
	if is := report.Copies(p, trace); !strings.HasSuffix(is, lost) {
		t.Errorf("%q does not end in %q", is, lost)
	}
	if is := report.Copies(&planner.Plan{}, trace); is != "" {
		t.Errorf("%q of a plan that moves nothing", is)
	}
}
