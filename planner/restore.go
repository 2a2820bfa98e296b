package planner

import (
	"slices"

	"memopt/internal/graph"
	"memopt/planner/check"
	"memopt/planner/pack"
)

// Decisions are what a plan decides, and what only finding it could tell. All else of a plan follows from them, its request and
// its graph.
type Decisions struct {
	Strategy         string
	Steps            []Step
	Offsets          []int64
	Arena, PackBound int64
	Moves            []Move
	Bound            Bound
	Alone            float64 // see Moved
}

// Restore is the plan of a request with decisions that were made before, and its table. They may be anybody's: a plan that does
// not compute the graph, or does not keep the request, is an error. The bound and what plans cost without moves are taken as told.
func Restore(g *graph.Graph, r Request, d Decisions) (*Plan, error) {
	x, err := Look(g, r)
	if err != nil {
		return nil, err
	}
	p := x.begin().plan
	p.Strategy, p.Steps, p.Offsets, p.Arena, p.Moves = strategyNamed(d.Strategy), slices.Clone(d.Steps), d.Offsets, d.Arena, slices.Clone(d.Moves)
	replayed, err := check.Replay(p.decided())
	if err != nil {
		return nil, err
	}
	c := &candidate{t: x.m.simulate(p.Steps), placed: pack.Solution{Offsets: d.Offsets, Height: d.Arena, Bound: d.PackBound}}
	if err := x.m.movedBy(c, d.Moves, r.Elsewhere); err != nil {
		return nil, check.Error("%w", err)
	}
	c.cost, _, _ = x.m.again(p.Steps)
	c.cost += float64(c.wait)
	p.Moved = &Moved{Alone: d.Alone}
	p.adopt(c)
	if err := x.turnOn(make([]bool, len(g.Nodes))); err != nil {
		return nil, err
	}
	p.Warnings = nil // they were said when the plan was made
	if p.Clusters, err = x.rows(); err != nil {
		return nil, err
	}
	p.Bound = d.Bound
	if err := replayed.Agrees(p.claims()); err != nil {
		return nil, err
	}
	return p, nil
}
