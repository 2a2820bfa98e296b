package planner

import (
	"memopt/internal/schedule"
	"memopt/planner/check"
	"memopt/planner/launch"
)

// decided is what the plan decides, for work that knows nothing else of it.
func (p *Plan) decided() launch.Plan {
	r := p.Request
	return launch.Plan{Graph: p.Graph, Dims: r.Dims, Context: p.m.ctx, Lowered: r.Lowered, OutputsGiven: r.OutputsGiven, States: r.States, StatesStay: r.StatesStay,
		Steps: p.Steps, Offsets: p.Offsets, Arena: p.Arena, Moves: p.Moves}
}

// claims are what the plan says of itself.
func (p *Plan) claims() check.Claims {
	r, m := p.Request, p.Memory
	return check.Claims{
		Peak: p.Result.Peak, Floor: p.Floor.Peak, PackBound: p.PackBound,
		State: m.Weights + m.Optimizer, Staging: m.Staging, Alive: m.Gradients + m.Activations, Total: m.Total,
		Flops: p.Baseline.Flops, ExtraFlops: p.Result.ExtraFlops, Again: p.Result.Again, Overhead: p.Result.Overhead, Moved: p.Moved,
		MaxOverhead: r.MaxOverhead, Room: func(fixed int64) (int64, bool) { return r.room(fixed, p.Baseline.Arena) },
		Rates:     check.Rates{Costs: r.Costs, Profile: r.Prices(), Context: p.m.ctx, Each: checking},
		Elsewhere: r.Elsewhere, Plain: r.Plain,
	}
}

// Check holds the plan against its graph; see package check.
func Check(p *Plan) error {
	x, err := check.Replay(p.decided())
	if err == nil {
		err = x.Agrees(p.claims())
	}
	return err
}

// Schedule is the plan for a device. It is made of the graph, the steps and the places alone, as Check makes it.
func (p *Plan) Schedule() (*schedule.Schedule, error) {
	x, err := launch.Of(p.decided())
	if err != nil {
		return nil, err
	}
	return x.Whole()
}
