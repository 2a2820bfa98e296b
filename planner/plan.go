package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"memopt/internal/bytesize"
	"memopt/internal/graph"
	"memopt/planner/cluster"
	"memopt/planner/profile"
)

// Request is what a plan is asked for.
type Request struct {
	Dims map[string]int64
	// Budget binds everything the step holds: parameters, states, inputs and the arena. ActivationBudget binds the
	// arena alone. 0 is no limit.
	Budget, ActivationBudget Size
	// MaxOverhead asks for the lowest peak whose extra cost stays within this share of the step's cost. 0 is no limit.
	MaxOverhead float64
	// Strategy is a name from Strategies; "" is auto.
	Strategy string
	// Outline is the program as its file spells it, which clusters are found in; nil takes the graph itself.
	Outline *graph.Outline
	// Boundary keeps what crosses from layer to layer.
	Boundary bool
	// Compat is the release of ONNX Runtime whose clusters and choices are taken to the letter: "1.19", or "" for none.
	Compat string
	// Level 1 and 2 turn on every cluster, as ONNX Runtime's levels do.
	Level int
	// Clusters turns single clusters on.
	Clusters []cluster.Request
	// Extracts is what of the graph could be kept in less, or is.
	Extracts []Extract
	// Plain is the step that this one is another form of: extra cost, its limit and shares of bytes are told against
	// that. Nil is the step itself.
	Plain *graph.Graph
	plain *Search // Plain as it was looked at, if it was: see Beside
	// Target is what a plan must reach; forms that cannot reach it are not searched.
	Target Target
	// Costs gives, by node, the time that a unit of its flops and bytes takes on the device in use; Plan.PlainCosts has
	// the units. Empty counts flops and bytes alike for all.
	Costs map[string]float64
	// Profile prices operators in nanoseconds of a device, where Costs is empty. Nil counts flops and bytes.
	Profile *profile.Profile
	// Elsewhere is where values may be moved to and back. It needs a Profile, as copies take time; nil is nowhere.
	Elsewhere *Elsewhere
	// States is where the states of optimizers lie that stream in and out with their updates; "" is in memory.
	States string
	// StatesStay is of how many parameters, the smallest, the states stay in memory all the same.
	StatesStay int
	// Again names forward nodes that must run again, whatever a strategy says.
	Again []string
	// Without names passes that searches leave out: see Passes. No plan's file has them.
	Without []string
	// Context ends the planning, which polls it as package stop says; nil is none.
	Context context.Context
	// Lowered asks for a plan for a device that runs kernels: work space is what those need.
	Lowered bool
	// OutputsGiven asks for a plan of a forward graph whose caller gives memory for the outputs: those that fill the
	// memory they lie in are computed there, outside the arena.
	OutputsGiven bool
}

// Size is bytes, or a share of what the plan without recomputation needs.
type Size struct {
	Bytes   int64
	Percent float64
}

func (s Size) isZero() bool { return s.Bytes == 0 && s.Percent == 0 }

// mostShare is more than any step takes, and what a step has may be taken off it.
const mostShare = 1 << 62

// of is the bytes of a size; of a share at least one, as none would be no limit.
func (s Size) of(base int64) int64 {
	if s.Percent > 0 {
		return int64(min(max(float64(base)*s.Percent/100, 1), mostShare))
	}
	return s.Bytes
}

// Plan is the decisions for one graph under one binding of its dims.
type Plan struct {
	Graph   *graph.Graph
	Form    Form
	Request Request
	// Steps is the order; Offsets the place of each life in the arena, none if the graph runs under an allocator of his
	// own.
	Steps   []Step
	Offsets []int64
	Arena   int64
	// Moves is what is moved elsewhere and back, by when it leaves; Moved sums that up, nil without Request.Elsewhere.
	Moves []Move
	Moved *Moved
	// PackBound is what no placement of these lives can go below.
	PackBound int64

	Baseline, Result Summary // of the plain step with everything kept, and under the plan
	// Whole is the plan's form of the step with everything kept: Baseline where that is the plain step.
	Whole  Summary
	Floor  Floor
	Bound  Bound
	Memory Memory
	Table
	Asked    []cluster.Choice // what the request's level and clusters turned on
	Dominant []Holding        // the three largest values alive at the peak
	Strategy string           // the one that was used
	Took     time.Duration    // with the table, and the other forms of the step that were tried
	Search   Provenance       // which passes made it
	Warnings []string
	Trains   *Trains // nil if it is not known
	// SearchEnded is whether Largest looks for no size beyond this one.
	SearchEnded bool

	m *model
	t *timeline
	s *Search // for the table; nil once that is made
}

// Make plans a training graph.
func Make(g *graph.Graph, r Request) (*Plan, error) { return makeKnowing(g, r, nil) }

// makeKnowing is Make where steps are known that are within the budgets and the limit of cost, for where no cheaper
// ones are found; nil is none.
func makeKnowing(g *graph.Graph, r Request, known []Step) (*Plan, error) {
	x, err := Look(g, r)
	if err != nil {
		return nil, err
	}
	x.known = known
	return x.Plan(r.Target)
}

// Room is the arena bytes that budgets left for the plan.
func (p *Plan) Room() (bytes int64, limited bool) {
	return p.Request.room(p.m.fixedBytes(), p.Baseline.Arena)
}

// Limits is the request's budgets in bytes, of all the step holds and of the arena alone; 0 is no limit.
func (p *Plan) Limits() (all, arena int64) {
	return p.Request.Budget.of(p.m.fixedBytes() + p.Baseline.Arena), p.Request.ActivationBudget.of(p.Baseline.Arena)
}

// room is the arena bytes that budgets leave beside what is fixed, by the arena with everything kept; without a budget
// more than any step takes.
func (r Request) room(fixed, arena int64) (bytes int64, limited bool) {
	bytes = mostShare
	if !r.Budget.isZero() {
		bytes, limited = r.Budget.of(fixed+arena)-fixed, true
	}
	if !r.ActivationBudget.isZero() {
		bytes, limited = min(bytes, r.ActivationBudget.of(arena)), true
	}
	return bytes, limited
}

// Keeps says what a plan does not keep of another request's dims and limits.
func (p *Plan) Keeps(r Request) error {
	for _, name := range slices.Sorted(maps.Keys(r.Dims)) {
		is, known := p.Request.Dims[name]
		if !known {
			return fmt.Errorf("the plan's graph has no dim %q", name)
		}
		if is != r.Dims[name] {
			return fmt.Errorf("the plan is for %s=%d, not %s=%d: plan anew for that", name, is, name, r.Dims[name])
		}
	}
	fixed := p.m.fixedBytes()
	for _, limit := range []struct {
		what  string
		size  Size
		needs int64
		whole int64 // with everything kept
	}{
		{"budget", r.Budget, fixed + p.Arena, fixed + p.Baseline.Arena},
		{"activation budget", r.ActivationBudget, p.Arena, p.Baseline.Arena},
	} {
		if most := limit.size.of(limit.whole); !limit.size.isZero() && limit.needs > most {
			return fmt.Errorf("the plan needs %s, and the %s that was given is %s", bytesize.Exact(limit.needs), limit.what, bytesize.Exact(most))
		}
	}
	if most := r.MaxOverhead; most > 0 && p.Result.Overhead > most*(1+1e-9) {
		return fmt.Errorf("the plan costs %.1f %% more than the plain step, over the limit of %.1f %% that was given", 100*p.Result.Overhead, 100*most)
	}
	return nil
}

// adopt makes a candidate the plan.
func (p *Plan) adopt(c *candidate) {
	p.t, p.Steps = c.t, c.t.steps
	p.Offsets, p.Arena, p.PackBound = c.placed.Offsets, c.placed.Height, c.placed.Bound
	if p.m.unplaced() {
		p.Offsets = []int64{}
	}
	p.Moves, p.Moved = c.away, p.moved(c)
	p.Result, p.Memory, p.Dominant = p.m.summary(c), p.m.memory(c), p.m.dominant(c.t)
}
