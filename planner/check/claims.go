package check

import (
	"math"

	"memopt/internal/graph"
	"memopt/planner/launch"
	"memopt/planner/moving"
	"memopt/planner/operators"
	"memopt/planner/outside"
)

// Claims are what a plan says of itself, and the limits that it is to keep.
type Claims struct {
	Peak, Floor, PackBound int64
	// State is parameters and optimizer states, Staging inputs, Alive what is in the arena at the peak with what its height
	// exceeds that by, Total all of it.
	State, Staging, Alive, Total int64
	Flops, ExtraFlops            int64 // of the plain step, and above that
	Again                        int   // launches that run again
	Overhead                     float64
	Moved                        *outside.Moved

	MaxOverhead float64                                       // 0 is no limit
	Room        func(fixed int64) (bytes int64, limited bool) // what budgets leave for an arena beside what is fixed
	Rates       Rates
	Elsewhere   *outside.Elsewhere
	Plain       *graph.Graph // the step that costs are told against; nil is the plan's own
}

// Agrees: arena and peak are those of the launches, figures are those of the graph, and the request's limits are kept.
func (x *Replayed) Agrees(c Claims) error {
	s, fixed := x.s, x.s.State+x.s.Staging
	switch peak, placed := x.c.peak(), x.placed(); {
	case placed && x.c.height != s.Arena:
		return Error("the arena is %d bytes, but launches reach to %d", s.Arena, x.c.height)
	case peak != c.Peak:
		return Error("the peak is %d bytes, not %d", peak, c.Peak)
	case !placed && peak != s.Arena:
		return Error("the arena is %d bytes, but %d are alive at once", s.Arena, peak)
	case c.State != s.State || c.Staging != s.Staging:
		return Error("weights and states take %d bytes and inputs %d, not %d and %d", s.State, s.Staging, c.State, c.Staging)
	case c.Alive != s.Arena || c.Total != fixed+s.Arena:
		return Error("the arena takes %d bytes and all of it %d, not %d and %d", s.Arena, fixed+s.Arena, c.Alive, c.Total)
	case c.Floor > c.Peak:
		return Error("no plan is said to have a peak below %d bytes, and this one has one of %d", c.Floor, c.Peak)
	case c.PackBound < 0 || c.PackBound > s.Arena:
		return Error("the plan claims that no arena is below %d bytes, and has one of %d", c.PackBound, s.Arena)
	}
	if err := x.costs(c); err != nil {
		return err
	}
	if room, limited := c.Room(fixed); limited && s.Arena > room {
		return Error("the plan has a budget that leaves %d bytes for an arena, and one of %d bytes", room, s.Arena)
	}
	if most := c.MaxOverhead; most > 0 && c.Overhead > most*(1+1e-9) {
		return Error("the plan has %g of extra cost, over its limit of %g", c.Overhead, most)
	}
	return nil
}

// costs: what a plan costs above the plain step.
func (x *Replayed) costs(c Claims) error {
	all, err := c.Rates.prices(x.p.Graph, x.s.Binding, x.bytes)
	if err != nil {
		return err
	}
	plain := all.sum
	wait, err := x.waits(c, all)
	if err != nil {
		return err
	}
	if g := c.Plain; g != nil && g != x.p.Graph {
		_, bytes, err := operators.Sizes(g, x.s.Binding)
		if err != nil {
			return err
		}
		of, err := c.Rates.prices(g, x.s.Binding, bytes)
		if err != nil {
			return err
		}
		plain = of.sum
	}
	extra, again := operators.Price{Flops: all.sum.Flops - plain.Flops, Moved: all.sum.Moved - plain.Moved}, 0
	for _, s := range x.p.Steps {
		if s.Again {
			n := all.of[s.Node]
			extra.Flops, extra.Moved, again = extra.Flops+n.Flops, extra.Moved+n.Moved, again+1
		}
	}
	extra.Moved += float64(wait)
	overhead := 0.0
	if extra.Moved != 0 && plain.Moved != 0 {
		overhead = extra.Moved / plain.Moved
	}
	switch {
	case c.Again != again:
		return Error("%d launches run again, not %d", again, c.Again)
	case c.Flops != plain.Flops || c.ExtraFlops != extra.Flops:
		return Error("the plain step takes %d operations and the plan %d more, not %d and %d", plain.Flops, extra.Flops, c.Flops, c.ExtraFlops)
	case math.Abs(overhead-c.Overhead) > 1e-9*max(1, math.Abs(overhead)):
		return Error("the plan costs %g of the plain step more, not %g", overhead, c.Overhead)
	}
	return nil
}

// placed reports whether lives have places.
func (x *Replayed) placed() bool { return !launch.Allocated(x.p.Graph) }

// waits is what the step waits for copies, worked out of the steps and the moves alone, and holds what the plan says of
// them against it.
func (x *Replayed) waits(c Claims, all priced) (int64, error) {
	e, s, p := c.Elsewhere, c.Moved, &x.p
	if e == nil || s == nil {
		if e != nil || s != nil || len(p.Moves) > 0 {
			return 0, Error("it moves values and says nothing of where, or the other way round")
		}
		return 0, nil
	}
	if err := e.Check(c.Rates.Profile); err != nil {
		return 0, Error("%w", err)
	}
	l := &moving.Line{Far: e.Far(c.Rates.Profile), Time: make([]int64, len(p.Steps)), Work: make([]int64, len(p.Steps))}
	for i, st := range p.Steps {
		if l.Time[i] = all.once[st.Node]; st.Again {
			l.Time[i] = int64(all.of[st.Node].Moved)
		}
	}
	chosen, out := make([]moving.Move, len(p.Moves)), int64(0)
	copying := int64(0)
	for k, y := range p.Moves {
		bytes := y.Bytes
		if x.placed() {
			bytes = outside.Align(bytes)
		}
		out += y.Bytes
		copying += l.Far.Out.Time(bytes) + l.Far.In.Time(bytes)
		chosen[k] = moving.Move{Span: int32(k), Out: y.Out, Gone: y.Gone, In: y.In, Back: y.Back}
		l.Spans = append(l.Spans, moving.Span{First: y.Out - 1, Last: y.Back + 1, Bytes: bytes, Idle: []moving.Idle{{From: y.Out, To: y.Back}}})
	}
	far := l.Far.Bytes
	l.Far.Bytes = math.MaxInt64 // the places are held against it
	_, _, wait, err := moving.Check(l, chosen)
	switch {
	case err != nil:
		return 0, Error("%w", err)
	case x.c.far > far:
		return 0, Error("moves need %d bytes of the %s, of %d", x.c.far, e.Place, far)
	case s.Place != e.Place || s.Budget != e.Bytes || s.Values != len(chosen) || s.Bytes != out || s.Peak != x.c.far || s.CopyNS != copying:
		return 0, Error("%d moves of %d bytes take %d of the %s and %d ns, not %d of %d taking %d of the %s and %d ns",
			len(chosen), out, x.c.far, e.Place, copying, s.Values, s.Bytes, s.Peak, s.Place, s.CopyNS)
	case s.WaitNS != wait:
		return 0, Error("the step waits %d ns for copies, not %d", wait, s.WaitNS)
	}
	return wait, nil
}
