package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"memopt/internal/visible"
	"memopt/plugin/pb"
)

// OpenRequest asks for a session; the zero value of a field is "not given".
type OpenRequest struct {
	Model    string            // path
	Bytes    []byte            // or the model itself, in the arena; valid until Open returns
	Mode     string            // bridge, resident or forward
	Settings map[string]string // by name, as text
	Outputs  []string          // of a bridge: the results whose gradients the host gives
	Grads    []string          // of a bridge: the inputs whose gradients the host wants
	Given    []Tensor          // initializers given by the host
	Arena    string            // of a forward session: sessions with the same name share an arena
	Caller
}

// Opened is the result of opening a model.
type Opened struct {
	Session                          Session
	Inputs, Outputs, Params, Buffers []Value
	Device                           string
	JSON                             string
	Warnings                         []string
}

// Value is a tensor whose dims need not be numbers.
type Value struct {
	Name, Type string
	Shape      []string
}

// Tensor is a span of the arena and its content. Bytes is nil if the host gave no span. Buffer, At
// and Bound are described in memopt.proto.
type Tensor struct {
	Name, Type, Role string
	Shape            []int64
	Bytes            []byte
	Buffer           uint64
	At               int64
	Bound            bool
}

// Session is a model held open. Its methods are called one at a time; Close is the last.
type Session interface {
	// Bind plans for the shapes of inputs, or finds an earlier plan.
	Bind(ctx context.Context, inputs []Tensor, progress Progress) (Bound, error)
	// Place sets the spans of Bound.Tensors in the arena.
	Place(binding uint64, places [][]byte) error
	// Sync copies tensors of the session, by name, from or to the arena.
	Sync(ctx context.Context, binding uint64, tensors []Tensor, toService bool) error
	// Stats reports the session's memory; with shrink it frees idle memory first.
	Stats(shrink bool) (Answer, error)
	Close() error
}

// Trainer is a session that was opened as bridge or resident.
type Trainer interface {
	Session
	Forward(ctx context.Context, r StepRequest) (StepReply, error)
	Backward(ctx context.Context, r StepRequest) (StepReply, error)
	Step(ctx context.Context, r StepRequest) (StepReply, error)
}

// Shower is a session that can print and save more of a plan than Bind does.
type Shower interface {
	Session
	// Show writes the graphs before and after planning to files, if named, and returns the text of
	// stages.
	Show(ctx context.Context, binding uint64, r ShowRequest) (shown string, warnings []string, err error)
}

// ShowRequest is described in memopt.proto, with BindRequest.
type ShowRequest struct {
	Stages                        []string
	SaveBefore, SaveAfter, Folder string
}

// Runner is a session that was opened as forward.
type Runner interface {
	Session
	// Drop frees buffers.
	Drop(buffers []uint64)
	Run(ctx context.Context, r RunRequest) (RunReply, error)
}

// Bound is a plan for some shapes.
type Bound struct {
	ID       uint64
	Tensors  []Tensor // without bytes
	PlanJSON string
	Text     string
	Warnings []string
	Known    bool
}

// StepRequest is described in memopt.proto.
type StepRequest struct {
	Binding    uint64
	Changed    []int32
	Seed, Step uint64
	LR         float64
	Run        uint64
	Accumulate bool
}

// StepReply is described in memopt.proto.
type StepReply struct {
	Run     uint64
	Seconds float64
	Peak    int64
	Loss    float64
	Skipped bool
}

// RunRequest is described in memopt.proto.
type RunRequest struct {
	Inputs, Outputs []Tensor
	Room            []byte
	RoomAt          int64 // where Room begins in the arena
	Options         map[string]string
}

// RunReply has the outputs in the order of the request. At is an output's offset in the arena if it
// went to the room, else InSpan or Nowhere.
type RunReply struct {
	Outputs []Tensor
	At      []int64
	Seconds float64
	JSON    string
}

// Places of outputs outside the room: in the host's span, or kept because it did not fit.
const (
	InSpan  = -1
	Nowhere = -2
)

// maxSessions bounds the open sessions of a host.
const maxSessions = 1024

// sessions is the open sessions, by ID.
type sessions struct {
	mu   sync.Mutex
	open map[uint64]*held
	last uint64
}

type held struct {
	mu     sync.Mutex
	closed bool
	Session
}

func (s *sessions) add(x Session) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == maxSessions {
		return 0, status.Errorf(codes.ResourceExhausted, "%d sessions are open; close some", maxSessions)
	}
	if s.open == nil {
		s.open = map[uint64]*held{}
	}
	s.last++
	s.open[s.last] = &held{Session: x}
	return s.last, nil
}

// with runs f on a session, excluding other calls.
func (s *sessions) with(ctx context.Context, id uint64, f func(Session) error) error {
	s.mu.Lock()
	h := s.open[id]
	s.mu.Unlock()
	if h == nil {
		return status.Errorf(codes.NotFound, "no session %d is open; open are %v", id, s.ids())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return status.Errorf(codes.NotFound, "session %d is closed", id)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if err := f(h.Session); err != nil {
		tellRefusal(ctx, err)
		return grpcError(ctx, err)
	}
	return nil
}

func (s *sessions) ids() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.open))
}

func (s *sessions) remove(ctx context.Context, id uint64) error {
	s.mu.Lock()
	h := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if h == nil {
		return status.Errorf(codes.NotFound, "no session %d is open", id)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if err := h.Session.Close(); err != nil {
		return grpcError(ctx, err)
	}
	return nil
}

func (s *service) Open(ctx context.Context, in *pb.OpenRequest) (*pb.OpenResponse, error) {
	if err := known("open", in); err != nil {
		return nil, err
	}
	bytes, err := s.span(in.GetBytes())
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	if in.GetModel() == "" && bytes == nil {
		return nil, status.Error(codes.InvalidArgument, "no model given")
	}
	given, err := s.tensors(in.GetGiven())
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	progress, end, err := s.jobs.begin(in.GetJob())
	if err != nil {
		return nil, err
	}
	defer end()
	o, err := s.front.Open(ctx, OpenRequest{
		Model:    in.GetModel(),
		Bytes:    bytes,
		Mode:     in.GetMode(),
		Settings: in.GetSettings(),
		Outputs:  in.GetOutputs(),
		Grads:    in.GetGrads(),
		Given:    given,
		Arena:    in.GetArena(),
		Caller:   caller(in, progress),
	})
	if err != nil {
		tellRefusal(ctx, err)
		tellKind(ctx, err)
		return nil, grpcError(ctx, err)
	}
	id, err := s.sessions.add(o.Session)
	if err != nil {
		o.Session.Close()
		return nil, err
	}
	return &pb.OpenResponse{
		Session:  id,
		Inputs:   valuesOut(o.Inputs),
		Outputs:  valuesOut(o.Outputs),
		Params:   valuesOut(o.Params),
		Buffers:  valuesOut(o.Buffers),
		Device:   valid(o.Device),
		Json:     valid(o.JSON),
		Warnings: lines(o.Warnings),
	}, nil
}

func (s *service) Bind(ctx context.Context, in *pb.BindRequest) (*pb.BindResponse, error) {
	out := &pb.BindResponse{}
	return out, s.sessions.with(ctx, in.GetSession(), func(x Session) error {
		if in.GetBinding() != 0 {
			places := make([][]byte, len(in.GetSpans()))
			for i, span := range in.GetSpans() {
				var err error
				if places[i], err = s.span(span); err != nil {
					return err
				}
			}
			out.Binding = in.GetBinding()
			return x.Place(in.GetBinding(), places)
		}
		inputs, err := s.tensors(in.GetInputs())
		if err != nil {
			return err
		}
		progress, end, err := s.jobs.begin(in.GetJob())
		if err != nil {
			return err
		}
		defer end()
		b, err := x.Bind(ctx, inputs, progress)
		if err != nil {
			return err
		}
		out.Binding, out.PlanJson, out.Text, out.Warnings, out.Known = b.ID, valid(b.PlanJSON), valid(b.Text), lines(b.Warnings), b.Known
		for _, t := range b.Tensors {
			out.Tensors = append(out.Tensors, tensorOut(t))
		}
		if b.Known || len(in.GetShow()) == 0 && in.GetSaveBefore() == "" && in.GetSaveAfter() == "" {
			return nil
		}
		y, ok := x.(Shower)
		if !ok {
			return refusal(fmt.Sprintf("session %d is a forward session: show and save need a training session", in.GetSession()))
		}
		shown, warnings, err := y.Show(ctx, b.ID, ShowRequest{Stages: in.GetShow(), SaveBefore: in.GetSaveBefore(), SaveAfter: in.GetSaveAfter(), Folder: in.GetFolder()})
		out.Shown, out.Warnings = valid(shown), append(out.Warnings, lines(warnings)...)
		return err
	})
}

func (s *service) Forward(ctx context.Context, in *pb.StepRequest) (*pb.StepResponse, error) {
	return s.step(ctx, in, "Forward", Trainer.Forward)
}

func (s *service) Backward(ctx context.Context, in *pb.StepRequest) (*pb.StepResponse, error) {
	return s.step(ctx, in, "Backward", Trainer.Backward)
}

func (s *service) Step(ctx context.Context, in *pb.StepRequest) (*pb.StepResponse, error) {
	return s.step(ctx, in, "Step", Trainer.Step)
}

func (s *service) step(ctx context.Context, in *pb.StepRequest, name string, do func(Trainer, context.Context, StepRequest) (StepReply, error)) (*pb.StepResponse, error) {
	out := &pb.StepResponse{}
	return out, s.sessions.with(ctx, in.GetSession(), func(x Session) error {
		t, ok := x.(Trainer)
		if !ok {
			return refusal(fmt.Sprintf("session %d is a forward session: %s needs a training session", in.GetSession(), name))
		}
		r, err := do(t, ctx, StepRequest{
			Binding: in.GetBinding(), Changed: in.GetChanged(), Seed: in.GetSeed(), Step: in.GetStep(),
			LR: in.GetLr(), Run: in.GetRun(), Accumulate: in.GetAccumulate(),
		})
		out.Run, out.Seconds, out.Peak, out.Loss, out.Skipped = r.Run, r.Seconds, r.Peak, r.Loss, r.Skipped
		return err
	})
}

func (s *service) Run(ctx context.Context, in *pb.RunRequest) (*pb.RunResponse, error) {
	out := &pb.RunResponse{}
	return out, s.sessions.with(ctx, in.GetSession(), func(x Session) error {
		f, ok := x.(Runner)
		if !ok {
			return refusal(fmt.Sprintf("session %d is a training session: Run needs a forward session", in.GetSession()))
		}
		r := RunRequest{RoomAt: in.GetRoom().GetOffset(), Options: in.GetOptions()}
		var err error
		if r.Inputs, err = s.tensors(in.GetInputs()); err != nil {
			return err
		}
		if r.Outputs, err = s.tensors(in.GetOutputs()); err != nil {
			return err
		}
		if r.Room, err = s.span(in.GetRoom()); err != nil {
			return err
		}
		reply, err := f.Run(ctx, r)
		if err != nil {
			return err
		}
		out.Seconds, out.Json = reply.Seconds, valid(reply.JSON)
		for i, t := range reply.Outputs {
			o := tensorOut(t)
			switch at := reply.At[i]; {
			case at == InSpan:
				o.Span = in.GetOutputs()[i].GetSpan()
			case at >= 0:
				o.Span = &pb.Span{Offset: at, Bytes: int64(len(t.Bytes))}
			}
			out.Outputs = append(out.Outputs, o)
		}
		return nil
	})
}

func (s *service) Sync(ctx context.Context, in *pb.SyncRequest) (*pb.SyncResponse, error) {
	return &pb.SyncResponse{}, s.sessions.with(ctx, in.GetSession(), func(x Session) error {
		tensors, err := s.tensors(in.GetTensors())
		if err != nil {
			return err
		}
		if r, is := x.(Runner); is {
			r.Drop(in.GetDrop())
		}
		if len(tensors) == 0 && len(in.GetDrop()) > 0 {
			return nil
		}
		return x.Sync(ctx, in.GetBinding(), tensors, in.GetToService())
	})
}

func (s *service) Stats(ctx context.Context, in *pb.SessionRequest) (*pb.Answer, error) {
	out := &pb.Answer{}
	fill := func(a Answer, err error) error {
		out.Json, out.Text, out.Warnings = valid(a.JSON), valid(a.Text), lines(a.Warnings)
		return err
	}
	if in.GetSession() == 0 {
		return out, grpcErrorOf(ctx, fill(s.front.Stats(ctx)))
	}
	return out, s.sessions.with(ctx, in.GetSession(), func(x Session) error { return fill(x.Stats(in.GetShrink())) })
}

func (s *service) Close(ctx context.Context, in *pb.SessionRequest) (*pb.Answer, error) {
	return &pb.Answer{}, s.sessions.remove(ctx, in.GetSession())
}

func grpcErrorOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return grpcError(ctx, err)
}

// span is a span of the arena; nil: none.
func (s *service) span(in *pb.Span) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	return s.arena.bytes(in.GetOffset(), in.GetBytes())
}

func (s *service) tensors(in []*pb.Tensor) ([]Tensor, error) {
	out := make([]Tensor, len(in))
	for i, t := range in {
		b, err := s.span(t.GetSpan())
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.GetName(), err)
		}
		if t.GetSpan() != nil && b == nil {
			b = []byte{} // a tensor without elements
		}
		out[i] = Tensor{Name: t.GetName(), Type: t.GetType(), Role: t.GetRole(), Shape: t.GetShape(), Bytes: b,
			Buffer: t.GetBuffer(), At: t.GetAt(), Bound: t.GetBound()}
	}
	return out, nil
}

func tensorOut(t Tensor) *pb.Tensor {
	return &pb.Tensor{Name: valid(t.Name), Type: t.Type, Role: t.Role, Shape: t.Shape}
}

func valuesOut(in []Value) (out []*pb.Value) {
	for _, v := range in {
		shape := make([]string, len(v.Shape))
		for i, d := range v.Shape {
			shape[i] = valid(d)
		}
		out = append(out, &pb.Value{Name: valid(v.Name), Type: v.Type, Shape: shape})
	}
	return out
}

func lines(in []string) (out []string) {
	for _, w := range in {
		out = append(out, visible.Line(w))
	}
	return out
}
