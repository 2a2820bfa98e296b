package forms

import (
	"context"
	"slices"
	"sync"

	"memopt/memopt/graph"
	"memopt/planner/shrink"
)

// Steps are one training step with every combination of what may be computed in pieces,
// the one with none first. Graphs are made when they are asked for, and then kept; nothing
// else changes.
type Steps struct {
	ctx  context.Context
	kind kind
	list []*step
}

// kind says whose a step is.
type kind uint8

const (
	derived  kind = iota // it was derived here, so it has all forms
	brought              // a trainer made it, and runs it: extracts are nothing to it, so they are for those who ask
	recorded             // its operators are known by name only, so it has one form
)

// Derived is a step, and what was done to its forward graph.
type Derived struct {
	Graph  *graph.Graph
	Passes graph.Report
}

// Forward is a forward graph with some of it in pieces.
type Forward struct {
	Graph  *graph.Graph
	Pieces []graph.Pieces // of those that were asked for what it has
	Passes graph.Report   // what was done to it
}

// Derive lists a step that derive makes of a forward graph, which forward gives with some of
// it in pieces.
func Derive(ctx context.Context, forward func(pieces []graph.Pieces) (Forward, error), derive func(forward *graph.Graph) (*graph.Graph, error)) *Steps {
	s := &Steps{ctx: ctx}
	combinations := [][]Row{nil}
	for _, r := range inPieces {
		for _, c := range combinations {
			if !slices.ContainsFunc(c, func(other Row) bool { return other.Setting == r.Setting }) {
				combinations = append(combinations, append(slices.Clone(c), r))
			}
		}
	}
	for _, rows := range combinations {
		var pieces []graph.Pieces
		for _, r := range rows {
			pieces = append(pieces, r.Pieces)
		}
		s.list = append(s.list, &step{rows: rows, read: func() (Forward, error) { return forward(pieces) }, derive: func(f Forward) (Derived, error) {
			if len(f.Pieces) < len(pieces) { // the step is the one with those
				return s.of(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !slices.Contains(f.Pieces, r.Pieces) })).get()
			}
			g, err := derive(f.Graph)
			return Derived{g, f.Passes}, err
		}})
	}
	return s
}

// Brought is the step of a file that has its backward pass.
func Brought(ctx context.Context, g *graph.Graph) *Steps { return only(ctx, brought, g) }

// Recorded is a step whose operators are known by name only.
func Recorded(ctx context.Context, g *graph.Graph) *Steps { return only(ctx, recorded, g) }

func only(ctx context.Context, k kind, g *graph.Graph) *Steps {
	return &Steps{ctx: ctx, kind: k, list: []*step{{made: &Derived{Graph: g}}}}
}

// Brought reports whether the file has the step.
func (s *Steps) Brought() bool { return s.kind != derived }

// Recorded reports whether the step has one form alone.
func (s *Steps) Recorded() bool { return s.kind == recorded }

// Forget drops the graphs that were made, but for the one that settings ask for. They are
// made again when they are asked for.
func (s *Steps) Forget(settings map[string]string) {
	own := s.of(asked(settings))
	for _, t := range s.list {
		if t.derive != nil && t != own {
			t.forget()
		}
	}
}

// of is the step with some rows in force.
func (s *Steps) of(rows []Row) *step {
	if s.kind != derived {
		return s.list[0]
	}
	return s.list[slices.IndexFunc(s.list, func(t *step) bool {
		return slices.EqualFunc(t.rows, rows, func(a, b Row) bool { return a.Pieces == b.Pieces })
	})]
}

// asked are the rows in pieces that settings ask for.
func asked(settings map[string]string) (rows []Row) {
	for _, r := range inPieces {
		if settings[r.Setting] == r.Value {
			rows = append(rows, r)
		}
	}
	return rows
}

// step is a training step before anything of it is kept in less.
type step struct {
	rows   []Row // what is in pieces
	read   func() (Forward, error)
	derive func(Forward) (Derived, error)

	mu      sync.Mutex
	forward *Forward // until the step is made of it
	made    *Derived
	failed  error
	exact   []shrink.Candidate
	looked  bool // exact was looked for
	lossy   map[graph.DType][]shrink.Candidate
	kept    *graph.Graph // the last graph that keeps some in less, and what is in it
	keptOf  []int64
}

// get is the step's graph.
func (t *step) get() (Derived, error) {
	f, err := t.outline()
	if err != nil {
		return Derived{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made == nil && t.failed == nil {
		made, err := t.derive(f)
		if t.failed = err; err == nil {
			t.made, t.forward = &made, nil
		}
	}
	if t.failed != nil {
		return Derived{}, t.failed
	}
	return *t.made, nil
}

// outline is the forward graph, which takes much less time than the step does; or the step,
// if that is there.
func (t *step) outline() (Forward, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.made != nil:
		return Forward{Graph: t.made.Graph}, nil
	case t.forward == nil:
		f, err := t.read()
		if err != nil {
			return f, err
		}
		t.forward = &f
	}
	return *t.forward, nil
}

func (t *step) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forward, t.made, t.failed, t.exact, t.looked, t.lossy, t.kept, t.keptOf = nil, nil, nil, nil, false, nil, nil, nil
}

// has reports whether the step computes something in pieces.
func has(g *graph.Graph, p graph.Pieces) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Pieces == p })
}

// candidates are what of the step can be kept in less: exactly, and rounded to a type, if
// that is not 0.
func (t *step) candidates(ctx context.Context, to graph.DType) (exact, lossy []shrink.Candidate, err error) {
	made, err := t.get()
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.looked {
		if t.exact, err = shrink.Candidates(ctx, made.Graph); err != nil {
			return nil, nil, err
		}
		t.looked = true
	}
	if to == 0 {
		return t.exact, nil, nil
	}
	if t.lossy == nil {
		t.lossy = map[graph.DType][]shrink.Candidate{}
	}
	if _, looked := t.lossy[to]; !looked {
		t.lossy[to] = shrink.Lossy(made.Graph, to)
	}
	return t.exact, t.lossy[to], nil
}

// keeping is the step's graph with some values kept in less.
func (t *step) keeping(ctx context.Context, chosen []shrink.Candidate) (*graph.Graph, error) {
	made, err := t.get()
	if err != nil || len(chosen) == 0 {
		return made.Graph, err
	}
	of := make([]int64, len(chosen))
	for i, c := range chosen {
		of[i] = int64(c.Value.ID)<<8 | int64(c.As)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept != nil && slices.Equal(of, t.keptOf) { // a table asks for what was tried
		return t.kept, nil
	}
	g, err := shrink.Apply(ctx, made.Graph, chosen)
	if err == nil {
		t.kept, t.keptOf = g, of
	}
	return g, err
}
