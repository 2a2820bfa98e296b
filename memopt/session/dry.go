package session

import (
	"context"
	"errors"
	"io"
	"maps"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/weights"
)

// OpenDry opens a model like Open, but only counts memory on the account. Bytes of the model belong
// to the caller until the session is closed, and the session supports DryRun only.
func OpenDry(ctx context.Context, m Model, o Options) (*Session, error) {
	return Open(ctx, m, o.dried())
}

// dried is the options of a session that only counts memory.
func (o Options) dried() Options {
	o.dry, o.Fits, o.Share, o.SaveTo, o.Memory, o.Watch = true, nil, nil, "", nil, Watch{}
	if o.Device != nil {
		o.Device = func(DeviceMemory, *schedule.Schedule, Device, int64, Places, func()) (Device, error) {
			return dryDevice{}, nil
		}
	}
	return o
}

// DryRun computes the most memory that a session with other options would hold if it ran this
// program once: memory is requested from an arena as in Run, but neither touched nor used. Inputs
// need bytes only if the program depends on their values. Exceeding the limit is an error as in
// Run.
func (s *Session) DryRun(ctx context.Context, in map[string]*graph.Tensor, fetches []Fetch, change func(*Options)) (most int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, errClosed
	case s.unshare != nil:
		return 0, errors.New("the arena is shared with other sessions")
	}
	return stop.When(ctx, func() (int64, error) { return s.dryRun(ctx, in, fetches, change) })
}

func (s *Session) dryRun(ctx context.Context, in map[string]*graph.Tensor, fetches []Fetch, change func(*Options)) (most int64, err error) {
	defer weights.Guard(&err)()
	if err := s.checkShapes(in); err != nil {
		return 0, err
	}
	o := s.options.dried()
	if change(&o); !o.dry {
		panic("session: a dry run has other options altogether")
	}
	d := &Session{Signature: s.Signature, model: s.model, bytes: s.bytes, given: s.given, file: s.file, stripped: s.stripped, copies: s.copies, level: s.level,
		account: arena.NewAccount(o.MemoryLimit), weights: maps.Clone(s.weights), kept: map[string]kept{}}
	o.Arena.Account, o.Arena.Memory = d.account, memory{d}
	d.options, d.grow, d.arena, d.direct = o, o.Arena.InitialChunkBytes, arena.New(o.Arena), o.Device == nil
	d.patterns, d.plans, d.programs = newRecent(2, d.forget), newRecent[*pattern](2, nil), newRecent(2, d.drop)
	defer func() {
		d.patterns.clear()
		d.programs.clear()
		d.release()
		for _, h := range d.held {
			h.Drop()
		}
		if wrong := d.arena.Close(); err == nil {
			err = wrong
		}
	}()
	held := s.account.Owners()
	held[ownWeights] = s.mappedBytes + s.copiedBytes
	if s.first != nil {
		p := *s.first
		p.roots = 0
		d.first = &p
		held[ownWeights] += p.owned
	}
	for _, owner := range []string{ownWeights, ownModel, ownComputed} {
		if err := d.account.Take(owner, held[owner]); err != nil {
			return 0, err
		}
	}
	if len(fetches) == 0 {
		for _, p := range s.Signature.Outputs {
			fetches = append(fetches, Fetch{Name: p.Name})
		}
	}
	t, _, err := d.planned(ctx, in, fetches, byAll)
	if err == nil {
		t, _, err = d.ready(t, fetches, nil)
	}
	if err != nil {
		return 0, err
	}
	x := &execution{s: d, t: t, ctx: ctx, in: in, fetches: fetches, r: &Result{}}
	defer x.end()
	if err := x.run(); err != nil {
		return 0, err
	}
	_, most = d.account.Held()
	return most, nil
}

// dryDevice is a device whose memory is only counted.
type dryDevice struct{}

func (dryDevice) Name() string                                   { return "dry" }
func (dryDevice) Run(schedule.Run) (t schedule.Trace, err error) { return t, nil }
func (dryDevice) WriteOutput(io.Writer, string) error            { panic("session: a dry device has no results") }
func (dryDevice) Close() error                                   { return nil }

// Copied reports whether a run on the processor copies an input, because its elements are not
// aligned.
func Copied(x *graph.Tensor) bool { return !isAligned(x.Bytes, x.Type) }
