package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"memopt/plugin/host"
	"memopt/plugin/pb"
)

// startService starts the program's service under a Go host, with an arena of some bytes.
func startService(t *testing.T, arena int64) (memopt pb.MemOptClient, pid int) {
	t.Helper()
	h, err := host.Start(exec.Command("memopt", "serve"), arena)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h.MemOptClient, h.Pid()
}

// soon is a context for calls that should not take long.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestServiceHolds: plans, refused ones among them, leave a service no larger than it was.
func TestServiceHolds(t *testing.T) {
	alone(t, "new mlp -o m.onnx --width 64 --inputs 8 --classes 4 --layers 3")
	memopt, pid := startService(t, 1<<20)
	path := absolute(t, "m.onnx")
	held := func() (all [3]int64) {
		answer, err := memopt.Stats(soon(t), &pb.SessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		return [3]int64{int64(len(open)), gjson.Get(answer.GetJson(), "goroutines").Int(), gjson.Get(answer.GetJson(), "anonymous").Int()}
	}
	var before [3]int64
	for i := range 300 {
		if i == 100 {
			before = held()
		}
		settings := map[string]string{"dims": fmt.Sprintf("batch=%d", 1+i%40), "budget": []string{"100%", "1KiB", "no size", "1GiB"}[i%4]}
		_, err := memopt.Plan(soon(t), &pb.Question{Model: path, Settings: settings, EnvironmentSent: true})
		if want := []codes.Code{codes.OK, codes.FailedPrecondition, codes.InvalidArgument, codes.OK}[i%4]; grpcstatus.Code(err) != want {
			t.Fatalf("plan %d: %v, not %v", i, err, want)
		}
	}
	after := held()
	if before[2] == 0 || after[0] > before[0] || after[1] > before[1]+2 || after[2] > before[2]+16<<20 {
		t.Errorf("descriptors, goroutines and bytes were %v after 100 plans, and are %v after 300", before, after)
	}
}

// TestServiceSurvives: requests of any content are answered, with an error that is no bug's,
// by a service that stays the same.
func TestServiceSurvives(t *testing.T) {
	alone(t, "new mlp -o m.onnx --width 8 --inputs 2 --classes 2 --layers 1")
	if err := os.WriteFile("junk.onnx", []byte("\x08\x07\x12\xff\xff\xff\xff\x0fjunk"), 0o600); err != nil {
		t.Fatal(err)
	}
	const arena = 1 << 16
	memopt, pid := startService(t, arena)
	g := stranger{rand.New(rand.NewPCG(1, 2)), []string{"", "m.onnx", "junk.onnx", ".", "/dev/zero", "/proc/self/mem", "no/such.onnx", "\x00", strings.Repeat("a/", 3000)}, absolute(t, "."), arena}
	calls := map[string]func(context.Context) error{
		"Plan": func(ctx context.Context) error {
			_, err := memopt.Plan(ctx, &pb.Question{Model: g.path(), Settings: g.settings(), Show: g.words(), Folder: g.folder, Job: g.word(), EnvironmentSent: true})
			return err
		},
		"Frontier": func(ctx context.Context) error { _, err := memopt.Frontier(ctx, g.question()); return err },
		"MaxBatch": func(ctx context.Context) error { _, err := memopt.MaxBatch(ctx, g.question()); return err },
		"Explain":  func(ctx context.Context) error { _, err := memopt.Explain(ctx, g.question()); return err },
		"Check":    func(ctx context.Context) error { _, err := memopt.Check(ctx, g.question()); return err },
		"Open": func(ctx context.Context) error {
			r, err := memopt.Open(ctx, &pb.OpenRequest{Model: g.path(), Bytes: g.span(), Mode: g.word(), Settings: g.settings(), Outputs: g.words(), Grads: g.words(), Given: g.tensors(),
				EnvironmentSent: true, Folder: g.folder})
			if err == nil && g.IntN(2) == 0 {
				_, err = memopt.Close(ctx, &pb.SessionRequest{Session: r.GetSession()})
			}
			return err
		},
		"Bind": func(ctx context.Context) error {
			_, err := memopt.Bind(ctx, &pb.BindRequest{Session: g.number(), Inputs: g.tensors(), Binding: g.number(), Spans: []*pb.Span{g.span(), g.span()}})
			return err
		},
		"Forward":  func(ctx context.Context) error { _, err := memopt.Forward(ctx, g.step()); return err },
		"Backward": func(ctx context.Context) error { _, err := memopt.Backward(ctx, g.step()); return err },
		"Step":     func(ctx context.Context) error { _, err := memopt.Step(ctx, g.step()); return err },
		"Run": func(ctx context.Context) error {
			_, err := memopt.Run(ctx, &pb.RunRequest{Session: g.number(), Inputs: g.tensors(), Outputs: g.tensors(), Room: g.span(), Options: g.settings()})
			return err
		},
		"Sync": func(ctx context.Context) error {
			_, err := memopt.Sync(ctx, &pb.SyncRequest{Session: g.number(), Binding: g.number(), Tensors: g.tensors(), ToService: g.IntN(2) == 0})
			return err
		},
		"Stats": func(ctx context.Context) error {
			_, err := memopt.Stats(ctx, &pb.SessionRequest{Session: g.number()})
			return err
		},
		"Close": func(ctx context.Context) error {
			_, err := memopt.Close(ctx, &pb.SessionRequest{Session: g.number()})
			return err
		},
	}
	n := 10000
	if testing.Short() {
		n = 1000
	}
	failed := 0
	for failed < n {
		for name, call := range calls {
			err := call(soon(t))
			if err == nil {
				continue
			}
			failed++
			switch grpcstatus.Code(err) {
			case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.ResourceExhausted:
			default:
				t.Fatalf("call %d, %s: %v", failed, name, err)
			}
		}
	}
	if info, err := memopt.Info(soon(t), &pb.InfoRequest{}); err != nil || info.GetPid() != int64(pid) {
		t.Errorf("after %d bad calls: %v, %v", failed, info, err)
	}
}

// stranger makes requests of any content.
type stranger struct {
	*rand.Rand
	paths  []string
	folder string
	arena  int64
}

func (g stranger) word() string {
	return []string{"", "batch", "bridge", "resident", "forward", "f32", "i64", "x", "labels", "\u202e", strings.Repeat("w", 5000), "50%"}[g.IntN(12)]
}

func (g stranger) words() (all []string) {
	for range g.IntN(3) {
		all = append(all, g.word())
	}
	return all
}

func (g stranger) path() string {
	path := g.paths[g.IntN(len(g.paths))]
	if path == "" || g.IntN(2) == 0 {
		return path
	}
	return g.folder + "/" + path
}

func (g stranger) number() uint64 { return []uint64{0, 1, 2, 3, math.MaxUint64}[g.IntN(5)] }

func (g stranger) signed() int64 {
	return []int64{0, 1, -1, 7, 64, g.arena, g.arena + 1, math.MinInt64, math.MaxInt64}[g.IntN(9)]
}

func (g stranger) span() *pb.Span {
	if g.IntN(3) == 0 {
		return nil
	}
	return &pb.Span{Offset: g.signed(), Bytes: g.signed()}
}

func (g stranger) settings() map[string]string {
	all := map[string]string{}
	for _, name := range []string{"dims", "budget", "device", "optimizer", "loss", "config", "level", "no_such"} {
		if g.IntN(4) == 0 {
			all[name] = []string{"", "batch=2", "batch=-1", "batch=9999999999", "60%", "cpu", "adamw", "cross-entropy", "3", "{", g.word()}[g.IntN(11)]
		}
	}
	return all
}

func (g stranger) tensors() (all []*pb.Tensor) {
	for range g.IntN(4) {
		all = append(all, &pb.Tensor{Name: g.word(), Type: g.word(), Shape: []int64{g.signed(), g.signed()}, Span: g.span(), Role: g.word()})
	}
	return all
}

func (g stranger) question() *pb.Question {
	return &pb.Question{Model: g.path(), Plan: g.path(), Settings: g.settings(), Dim: g.word(), Node: g.word(), Folder: g.folder, Job: g.word(), EnvironmentSent: true}
}

func (g stranger) step() *pb.StepRequest {
	return &pb.StepRequest{Session: g.number(), Binding: g.number(), Changed: []int32{int32(g.signed()), 0}, Seed: g.Uint64(), Step: g.Uint64(), Lr: g.NormFloat64(), Run: g.number(),
		Accumulate: g.IntN(2) == 0}
}

// TestSessionsHold: sessions that were closed leave nothing in the service, and neither do shapes that come and go in one.
func TestSessionsHold(t *testing.T) {
	alone(t, "new mlp -o m.onnx --width 64 --inputs 8 --classes 4 --layers 3")
	memopt, pid := startService(t, 1<<20)
	path := absolute(t, "m.onnx")
	train := func(session uint64, batch int64) {
		t.Helper()
		b, err := memopt.Bind(soon(t), &pb.BindRequest{Session: session, Inputs: []*pb.Tensor{{Name: "x", Type: "f32", Shape: []int64{batch, 8}}, {Name: "labels", Type: "i64", Shape: []int64{batch}}}})
		if err != nil {
			t.Fatal(err)
		}
		var spans []*pb.Span
		at := int64(0)
		for _, x := range b.GetTensors() {
			n := map[string]int64{"f32": 4, "i64": 8}[x.GetType()]
			for _, d := range x.GetShape() {
				n *= d
			}
			spans = append(spans, &pb.Span{Offset: at, Bytes: n})
			at += (n + 63) / 64 * 64
		}
		_, err = memopt.Bind(soon(t), &pb.BindRequest{Session: session, Binding: b.GetBinding(), Spans: spans})
		f, wrong := memopt.Forward(soon(t), &pb.StepRequest{Session: session, Binding: b.GetBinding()})
		_, failed := memopt.Backward(soon(t), &pb.StepRequest{Session: session, Binding: b.GetBinding(), Run: f.GetRun()})
		if err := errors.Join(err, wrong, failed); err != nil {
			t.Fatal(err)
		}
	}
	held := func() (all [3]int64) {
		answer, err := memopt.Stats(soon(t), &pb.SessionRequest{})
		open, wrong := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err := errors.Join(err, wrong); err != nil {
			t.Fatal(err)
		}
		return [3]int64{int64(len(open)), gjson.Get(answer.GetJson(), "goroutines").Int(), gjson.Get(answer.GetJson(), "anonymous").Int()}
	}
	open := func() uint64 {
		o, err := memopt.Open(soon(t), &pb.OpenRequest{Model: path, Mode: "bridge", EnvironmentSent: true})
		if err != nil {
			t.Fatal(err)
		}
		return o.GetSession()
	}
	one := open()
	var before [3]int64
	for i := range int64(150) {
		if i == 50 {
			before = held()
		}
		s := open()
		train(s, 1+i%7)
		train(one, 1+i%40)
		if _, err := memopt.Close(soon(t), &pb.SessionRequest{Session: s}); err != nil {
			t.Fatal(err)
		}
	}
	after := held()
	if before[2] == 0 || after[0] > before[0] || after[1] > before[1]+4 || after[2] > before[2]+16<<20 {
		t.Errorf("descriptors, goroutines and bytes were %v after 50 sessions, and are %v after 150", before, after)
	}
}
