package report

import (
	"fmt"
	"io"

	"memopt/internal/schedule"
	"memopt/planner"
	"memopt/planner/planfile"
)

// Offload says what a plan moves elsewhere and back, or why it moves nothing; "" if it was not allowed to. limited is whether there
// is a budget, was the peak with everything kept; is and extra are the plan's.
func Offload(m *planner.Moved, limited bool, was, is int64, extra float64) string {
	switch {
	case m == nil:
		return ""
	case m.Values > 0:
		text := fmt.Sprintf("offload: %s to the %s and back, %s in all, at most %s there at a time", count(m.Values, "move"), m.Place, Bytes(m.Bytes), Bytes(m.Peak))
		if m.Budget > 0 {
			text += " of " + Bytes(m.Budget)
		}
		text += fmt.Sprintf("; copies take %s, of which the step waits for %s", Nanoseconds(float64(m.CopyNS)), Nanoseconds(float64(m.WaitNS)))
		if m.Alone < 0 {
			return text + "; without a move there is no plan for this"
		}
		return text + fmt.Sprintf("; without a move the plan would cost %s", Extra(m.Alone, 2))
	case !limited:
		return "offload: nothing is moved, as there is no budget"
	case is >= was:
		return fmt.Sprintf("offload: nothing is moved, as everything fits: %s", Bytes(is))
	}
	return fmt.Sprintf("offload: no copy lowers the peak or the cost at this size: %s at %s either way", Bytes(is), Extra(extra, 2))
}

// States says where optimizer states lie that stream, and what that takes; "" if none do.
func States(s *planner.Streamed) string {
	if s == nil {
		return ""
	}
	if s.Bytes == 0 {
		return "states: all stay in memory, as none has to leave for this budget"
	}
	what := Bytes(s.Bytes)
	if s.Stay > 0 {
		what = fmt.Sprintf("those of %d of %d parameters, %s of %s,", s.Parameters, s.Parameters+s.Stay, what, Bytes(s.Bytes+s.StayBytes))
	}
	text := fmt.Sprintf("states: %s lie on the %s, and come in and go out with their updates through %s of memory", what, s.Place, Bytes(s.Ring))
	if s.CopyNS > 0 {
		text += fmt.Sprintf("; their copies take %s of each step, beside it as far as it is as long", Nanoseconds(float64(s.CopyNS)))
	}
	return text
}

// FileOffload is Offload of a plan's file.
func FileOffload(f *planfile.File) string {
	r := f.Request
	return Offload(f.Moved, r.Budget > 0 || r.ActivationBudget > 0 || r.MaxOverhead > 0, f.Baseline.Peak, f.Result.Peak, f.Result.Overhead)
}

func count(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Moves lists what a plan moves, by when it leaves: its steps count from 0.
func Moves(w io.Writer, p *planner.Plan) error {
	if len(p.Moves) == 0 {
		fmt.Fprintln(w, "nothing is moved")
		return nil
	}
	rows := [][]string{{"bytes", "leaves", "is gone", "comes", "is back", "elsewhere at", "value"}}
	for _, x := range p.Moves {
		rows = append(rows, []string{Thousands(x.Bytes), fmt.Sprint(x.Out), fmt.Sprint(x.Gone), fmt.Sprint(x.In), fmt.Sprint(x.Back), Thousands(x.Far), x.Value})
	}
	Table(w, "=rrrrrrt", rows)
	return nil
}

// slow is how much longer than promised a step waits for copies, as a share of the step, before it is said to.
const slow = 0.05

// StateCopies says what the copies of states cost a step that was measured; "" if none stream.
func StateCopies(p *planner.Plan, t schedule.Trace) string {
	s := p.Streamed()
	if s == nil || s.Bytes == 0 {
		return ""
	}
	text := fmt.Sprintf("%s of states came from the %s and went back in a step", Bytes(t.Streamed.Bytes), s.Place)
	if t.Streamed.Waited != schedule.Unknown {
		text += fmt.Sprintf(", which waited %s for them", Nanoseconds(float64(t.Streamed.Waited)))
	}
	return text
}

// Copies says what copies cost a step that was measured, and what was promised; "" if nothing is moved.
func Copies(p *planner.Plan, t schedule.Trace) string {
	if len(p.Moves) == 0 {
		return ""
	}
	m := p.Moved
	if t.Moved.Waited == schedule.Unknown { // the measured time of the step has it
		return fmt.Sprintf("%s were moved to the %s and back in a step, which was to wait %s for copies", Bytes(t.Moved.Bytes), m.Place, Nanoseconds(float64(m.WaitNS)))
	}
	waited := float64(t.Moved.Waited)
	text := fmt.Sprintf("%s were moved to the %s and back in a step, which waited %s for copies; %s was promised", Bytes(t.Moved.Bytes), m.Place, Nanoseconds(waited), Nanoseconds(float64(m.WaitNS)))
	if lost := waited - float64(m.WaitNS); lost > slow*float64(t.Took) {
		text += fmt.Sprintf(": the %s is slower than the profile says, and %s of the step's %s are lost to it", m.Place, Nanoseconds(lost), Nanoseconds(float64(t.Took)))
	}
	return text
}
