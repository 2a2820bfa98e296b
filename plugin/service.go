package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"memopt/internal/visible"
	"memopt/internal/weights"
	"memopt/plugin/pb"
)

// serviceName is the only plugin that a host can ask go-plugin for.
const serviceName = "memopt"

// Models are passed as paths, so requests are small; a reply contains a whole plan, and is not
// limited here.
const maxRequest = 64 << 20

// maxMessage bounds the text of an error, which is sent in a header, where peers allow little.
const maxMessage = 32 << 10

// adapter makes the service a go-plugin plugin, and gives a Go host its client.
type adapter struct {
	goplugin.NetRPCUnsupportedPlugin
	front Front
	arena *arena
}

func (a adapter) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterMemOptServer(s, &service{front: a.front, arena: a.arena})
	return nil
}

func (adapter) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return pb.NewMemOptClient(conn), nil
}

// service converts messages to the front's types and back.
type service struct {
	pb.UnimplementedMemOptServer
	front    Front
	arena    *arena
	sessions sessions
	jobs     jobs
}

func (s *service) Info(ctx context.Context, _ *pb.InfoRequest) (*pb.InfoResponse, error) {
	info, err := s.front.Info(ctx)
	if err != nil {
		return nil, grpcError(ctx, err)
	}
	out := &pb.InfoResponse{
		Version:  info.Version,
		Protocol: uint32(Handshake.ProtocolVersion),
		Pid:      int64(os.Getpid()),
		Features: info.Features,
	}
	for _, d := range info.Devices {
		out.Devices = append(out.Devices, &pb.Device{Name: valid(d.Name), Kind: d.Kind, Memory: d.Memory})
	}
	return out, nil
}

func (s *service) Plan(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "plan", in, s.front.Plan)
}

func (s *service) Frontier(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "frontier", in, s.front.Frontier)
}

func (s *service) MaxBatch(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "maxbatch", in, s.front.MaxBatch)
}

func (s *service) Explain(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "explain", in, s.front.Explain)
}

func (s *service) Check(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "check", in, s.front.Check)
}

func (s *service) Quantize(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "quantize", in, s.front.Quantize)
}

func (s *service) Load(ctx context.Context, in *pb.Question) (*pb.Answer, error) {
	return s.ask(ctx, "load", in, s.front.Load)
}

func (s *service) ask(ctx context.Context, name string, in *pb.Question, answer func(context.Context, Question) (Answer, error)) (*pb.Answer, error) {
	if in.GetModel() == "" {
		return nil, status.Error(codes.InvalidArgument, "no model given")
	}
	if err := known(name, in); err != nil {
		return nil, err
	}
	progress, end, err := s.jobs.begin(in.GetJob())
	if err != nil {
		return nil, err
	}
	defer end()
	reply, err := answer(ctx, Question{
		Model:    in.GetModel(),
		Settings: in.GetSettings(),
		Dim:      in.GetDim(),
		Node:     in.GetNode(),
		SVG:      in.GetSvg(),
		SaveTo:   in.GetSaveTo(),
		HTML:     in.GetHtml(),
		Emit:     in.GetEmit(),
		Plan:     in.GetPlan(),
		Show:     in.GetShow(),
		Caller:   caller(in, progress),
	})
	if err != nil {
		tellRefusal(ctx, err)
		return nil, grpcError(ctx, err)
	}
	out := &pb.Answer{Json: valid(reply.JSON), Text: valid(reply.Text), Warnings: lines(reply.Warnings)}
	return out, nil
}

// known refuses a request with fields that a host of another release has set, instead of ignoring
// them.
func known(name string, in proto.Message) error {
	if unknown := in.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		return status.Errorf(codes.InvalidArgument, "%s: the request has fields that this memopt does not know; install the package and the binary from one release", name)
	}
	return nil
}

// caller is the sender of a request. An empty environment arrives as nil; EnvironmentSent tells it
// from a host that sends none.
func caller(in interface {
	GetEnvironment() map[string]string
	GetEnvironmentSent() bool
	GetFolder() string
}, progress Progress) Caller {
	c := Caller{Environment: in.GetEnvironment(), Folder: in.GetFolder(), Progress: progress}
	if c.Environment == nil && in.GetEnvironmentSent() {
		c.Environment = map[string]string{}
	}
	return c
}

// exitCodes maps the front's exit codes to statuses.
var exitCodes = map[int]codes.Code{
	1: codes.FailedPrecondition, // cannot be met
	2: codes.InvalidArgument,    // wrong request or input
}

// refusalTrailer is the trailer of an error's refusal; gRPC requires -bin for arbitrary bytes.
const refusalTrailer = "memopt-refusal-bin"

// tellRefusal sends the refusal of an error in a trailer, if it has one.
func tellRefusal(ctx context.Context, err error) {
	var refusal interface{ Refusal() string }
	if !errors.As(err, &refusal) {
		return
	}
	// If it is too long for a header, the host gets the message only.
	if text := refusal.Refusal(); len(text) <= maxMessage {
		grpc.SetTrailer(ctx, metadata.Pairs(refusalTrailer, text))
	}
}

// kindTrailer is the trailer that tells errors of one code apart.
const kindTrailer = "memopt-kind"

// tellKind sends the kind of a model's error, if it has one.
func tellKind(ctx context.Context, err error) {
	var kind interface{ Kind() string }
	if errors.As(err, &kind) {
		grpc.SetTrailer(ctx, metadata.Pairs(kindTrailer, kind.Kind()))
	}
}

func grpcError(ctx context.Context, err error) error {
	if ctx.Err() != nil { // the host has given up, and err is a consequence
		return status.FromContextError(ctx.Err()).Err()
	}
	code := codes.Unknown
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		if c, ok := exitCodes[exit.ExitCode()]; ok {
			code = c
		}
	}
	return status.Error(code, shorten(visible.Error(err)))
}

// valid replaces bytes that protobuf strings cannot have, as in node names of hostile files.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func shorten(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s … (%d more bytes)", s[:cut], len(s)-cut)
}

// newServer makes the gRPC server for go-plugin. before runs at the start of each call.
func newServer(before func(), logger *slog.Logger) func([]grpc.ServerOption) *grpc.Server {
	return func(options []grpc.ServerOption) *grpc.Server {
		return grpc.NewServer(append(options,
			grpc.MaxRecvMsgSize(maxRequest),
			grpc.UnaryInterceptor(func(ctx context.Context, in any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
				before()
				defer recovered(logger, call.FullMethod, &err)
				err = onFiles(ctx, func() error {
					out, err = next(ctx, in)
					return err
				})
				return out, err
			}),
			grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
				before()
				defer recovered(logger, call.FullMethod, &err)
				return onFiles(stream.Context(), func() error { return next(srv, stream) })
			}))...)
	}
}

// onFiles does a call. A mapped file that another process truncates meanwhile is bad input, whatever part of
// the call was reading it.
func onFiles(ctx context.Context, do func() error) error {
	err := func() (err error) {
		defer weights.Guard(&err)()
		return do()
	}()
	var changed *weights.ChangedError
	if errors.As(err, &changed) {
		return grpcError(ctx, changed)
	}
	return err
}

// recovered turns a panic in a call into an error of that call, so that the service survives.
func recovered(logger *slog.Logger, method string, err *error) {
	if p := recover(); p != nil {
		logger.Error("panic", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, shorten(visible.Sprintf("a bug in memopt: %s: panic: %v", method, p)))
	}
}
