package schedule

import (
	"context"
	"errors"
	"slices"
	"time"

	"memopt/internal/graph"
)

// Run is what a device is given for one step.
type Run struct {
	Inputs map[string]*graph.Tensor // by name; copied to the staging space
	Seed   uint64
	Step   uint64 // keys the counter of random operators, with Seed
	// Accumulate leaves out the launches of the update phase: this run only adds to the gradients.
	Accumulate bool
	// Lent says that inputs stay as they are until the next step begins: a device may read them where they are.
	Lent bool
	// Same names inputs whose numbers are those of the last run: they are not copied again.
	Same map[string]bool
	// Part is what of the step is run.
	Part Part
	// Seeds is, where Part is BackwardPass, what the border makes, by its outputs: the gradients of the results. A nil
	// one is zeros.
	Seeds []*graph.Tensor
	// Times asks for Trace.Launches.
	Times bool
	// Context ends the run between launches, if the device can; see package stop. Nil is none.
	Context context.Context
	// At, if it is set, is called when a pass is over, in the first run of a device.
	At func(Moment)
	// Memory is what the run works in, on a device without memory of its own, which reads inputs where they are.
	Memory *Memory
}

// Memory is what a caller gives to a run to work in. It is the device's until the results are read.
type Memory struct {
	Outputs map[int64][]byte // by offset in the space Given
	// Arena holds all of the arena. Take, if it is not nil, allocates each live range instead, when it
	// begins; the function that it returns is called when it ends.
	Arena []byte
	Take  func(bytes int64, of string) (at []byte, free func(), err error)
	// Dry allocates and frees, but runs no operator.
	Dry bool
}

// Moment is one inside a step.
type Moment uint8

// The moments.
const (
	ForwardOver Moment = iota
	BackwardOver
)

// Part is a part of a step that has a border (graph.Op.Border).
type Part uint8

// The parts. A step is ForwardPass, BackwardPass and Ending; between them what the border reads and what the step
// returns can be fetched. A forward pass may be given up for the next one, after its Ending.
const (
	Whole        Part = iota
	ForwardPass       // all before the border
	BackwardPass      // all behind it
	Ending            // what was made elsewhere is brought to the states' places
)

// Border is the launch that parts the passes, and whether there is one.
func (s *Schedule) Border() (at int, is bool) {
	at = slices.IndexFunc(s.Launches, func(l Launch) bool { return l.Node != nil && l.Node.Op.Border })
	return at, at >= 0
}

// Between is the launches of a part, half-open. The border itself is not run in parts: who runs the backward pass puts
// there what it makes.
func (s *Schedule) Between(p Part) (from, to int, err error) {
	end := len(s.Launches)
	for end > 0 && s.Launches[end-1].Node == nil {
		end--
	}
	border, is := s.Border()
	switch {
	case p == Whole:
		return 0, len(s.Launches), nil
	case !is:
		return 0, 0, errors.New("the step has no border that parts it")
	case p == ForwardPass:
		return 0, border, nil
	case p == BackwardPass:
		return border + 1, end, nil
	}
	return end, len(s.Launches), nil
}

// Trace is what happened in one step.
type Trace struct {
	Took time.Duration
	// Arena, State and Staging are the bytes that launches really used, from each space's start to the last byte
	// touched.
	Arena, State, Staging int64
	// Workspace is what operators work in that is in no plan.
	Workspace int64
	// Moved is what was moved elsewhere.
	Moved Moved
	// Streamed is what came in and went out of states with their updates.
	Streamed Moved
	// Launches is the time of each, in the schedule's order, if asked for.
	Launches []time.Duration
}

// Moved is what a step moved elsewhere and back.
type Moved struct {
	Bytes  int64         // that left
	Far    int64         // height of the place they went to
	Waited time.Duration // for copies that were late; or Unknown
}

// Unknown is what a step waited for copies on a device that does not tell.
const Unknown time.Duration = -1
