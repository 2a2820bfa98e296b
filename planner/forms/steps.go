package forms

import (
	"context"
	"slices"
	"sync"

	"memopt/internal/graph"
	"memopt/planner/shrink"
)

// Steps is a training step in every combination of pieces, the first with none. Graphs are derived
// when needed, and then kept; nothing else changes.
type Steps struct {
	ctx   context.Context
	kind  kind
	forms func(rows []Row, tiles string) *step // makes a step
	mu    sync.Mutex
	list  []*step // those that were asked for
}

// kind says where a step comes from.
type kind uint8

const (
	derived  kind = iota // derived from a forward graph; it has all forms
	brought              // read from a file, with its backward pass; the trainer that runs it may not know extracts, so only a user chooses them
	recorded             // recorded by a trainer; its operators are known by name only, so it has one form
)

// Derived is a step and the report of the passes over its forward graph.
type Derived struct {
	Graph  *graph.Graph
	Passes graph.Report
}

// Forward is a forward graph, some of it in pieces.
type Forward struct {
	Graph  *graph.Graph
	Pieces []graph.Pieces // those of the requested ones that the graph has
	Passes graph.Report   // of the passes over it
}

// Derive lists the forms of a step: forward returns the forward graph with the given pieces, those
// that are in tiles by that value of their setting; derive appends the backward pass to it.
func Derive(ctx context.Context, forward func(pieces []graph.Pieces, tiles string) (Forward, error), derive func(forward *graph.Graph) (*graph.Graph, error)) *Steps {
	s := &Steps{ctx: ctx}
	s.forms = func(rows []Row, tiles string) *step {
		var pieces []graph.Pieces
		for _, r := range rows {
			pieces = append(pieces, r.Pieces)
		}
		return &step{rows: rows, tiles: tiles, read: func() (Forward, error) { return forward(pieces, tiles) }, derive: func(f Forward) (Derived, error) {
			if len(f.Pieces) < len(pieces) { // the graph lacks some of the pieces, so the step is the form without these
				has := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !slices.Contains(f.Pieces, r.Pieces) })
				if !slices.ContainsFunc(has, func(r Row) bool { return r.Tiles }) {
					tiles = ""
				}
				return s.of(has, tiles).get()
			}
			g, err := derive(f.Graph)
			return Derived{g, f.Passes}, err
		}}
	}
	return s
}

// Brought is a step read from a file that has its backward pass.
func Brought(ctx context.Context, g *graph.Graph) *Steps { return only(ctx, brought, g) }

// Recorded is a step whose operators are known by name only.
func Recorded(ctx context.Context, g *graph.Graph) *Steps { return only(ctx, recorded, g) }

func only(ctx context.Context, k kind, g *graph.Graph) *Steps {
	return &Steps{ctx: ctx, kind: k, list: []*step{{made: &Derived{Graph: g}}}}
}

// Brought reports whether the step was read or recorded, not derived.
func (s *Steps) Brought() bool { return s.kind != derived }

// Recorded reports whether the step was recorded, and so has one form only.
func (s *Steps) Recorded() bool { return s.kind == recorded }

// Forget drops all derived graphs but that of the form that settings ask for. They are derived
// again when needed.
func (s *Steps) Forget(settings map[string]string) {
	own := s.of(asked(settings))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.list {
		if t.derive != nil && t != own {
			t.forget()
		}
	}
}

// of is the step with the pieces of rows, those in tiles by that value of their setting.
func (s *Steps) of(rows []Row, tiles string) *step {
	if s.kind != derived {
		return s.list[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(t *step) bool {
		return t.tiles == tiles && slices.EqualFunc(t.rows, rows, func(a, b Row) bool { return a.Pieces == b.Pieces })
	})
	if i < 0 {
		i, s.list = len(s.list), append(s.list, s.forms(rows, tiles))
	}
	return s.list[i]
}

// asked are the rows in pieces that settings turn on, and the value of the setting of those in tiles.
func asked(settings map[string]string) (rows []Row, tiles string) {
	for _, r := range inPieces {
		if !r.asks(settings[r.Setting]) {
			continue
		}
		if rows = append(rows, r); r.Tiles {
			tiles = settings[r.Setting]
		}
	}
	return rows, tiles
}

// step is a training step in one combination of pieces, with whole values.
type step struct {
	rows   []Row  // its pieces
	tiles  string // the value of the setting of those in tiles
	read   func() (Forward, error)
	derive func(Forward) (Derived, error)

	mu      sync.Mutex
	forward *Forward // nil once the step is derived from it
	made    *Derived
	failed  error
	exact   []shrink.Candidate
	looked  bool // exact is known
	lossy   map[graph.DType][]shrink.Candidate
	kept    *graph.Graph // the last graph made by keeping, for the candidates keptOf
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

// outline is the forward graph, which is much faster to make than the step, or the step itself if
// that is derived already.
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

// has reports whether a graph computes something in the given pieces.
func has(g *graph.Graph, p graph.Pieces) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Pieces == p })
}

// candidates finds the values of the step that can be stored smaller: by exact extracts, and, if to
// is not 0, rounded to that type.
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

// keeping returns the step's graph with the chosen candidates stored smaller.
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
	if t.kept != nil && slices.Equal(of, t.keptOf) { // tables ask for the graph of the last trial
		return t.kept, nil
	}
	g, err := shrink.Apply(ctx, made.Graph, chosen)
	if err == nil {
		t.kept, t.keptOf = g, of
	}
	return g, err
}
