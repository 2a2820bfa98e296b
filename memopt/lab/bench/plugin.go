package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/report"
	"memopt/plugin/host"
	"memopt/plugin/pb"
)

// PluginDoc describes the service's bench.
const PluginDoc = "the service as a Go host sees it, over mutual TLS and with tensors in the shared arena; groups start, calls, arena, steps"

// PluginOptions select what is measured, and for how long.
type PluginOptions struct {
	Binary   string   // executable whose service and command line are measured
	Only     []string // groups; none: all
	Quick    bool     // a few short rounds
	Progress func(what string)
}

// PluginReport is the figures of one run.
type PluginReport struct{ Rows []PluginRow }

// PluginRow is one measurement, and its rival's, if any.
type PluginRow struct {
	Group, Case string
	Unit        string // call, start, step or copy
	Here, There Figure
	Rival       string
	MS          float64 // most wall time; 0: Bar applies
	Bar         Bar
	Ratio       float64
	Met         bool
}

// pluginGroups lists the groups and their functions.
var pluginGroups = []struct {
	name string
	run  func(*pluginBench) error
}{
	{"start", (*pluginBench).start},
	{"calls", (*pluginBench).calls},
	{"arena", (*pluginBench).arena},
	{"steps", (*pluginBench).steps},
}

type pluginBench struct {
	o      PluginOptions
	folder string
	length rounds
	report PluginReport
}

// Plugin runs the bench.
func Plugin(o PluginOptions) (*PluginReport, error) {
	var names []string
	for _, g := range pluginGroups {
		names = append(names, g.name)
	}
	if err := noGroup("plugin", names, o.Only); err != nil {
		return nil, err
	}
	b := &pluginBench{o: o, length: rounds{count: 15, least: 100 * time.Millisecond}}
	if o.Quick {
		b.length = rounds{count: 3, least: 30 * time.Millisecond}
	}
	var err error
	if b.folder, err = os.MkdirTemp("", "memopt-bench-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.folder)
	for _, g := range pluginGroups {
		if len(o.Only) > 0 && !slices.Contains(o.Only, g.name) {
			continue
		}
		if o.Progress != nil {
			o.Progress(g.name)
		}
		if err := g.run(b); err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return &b.report, nil
}

// row measures a side, against another if given.
func (b *pluginBench) row(r PluginRow, ours, rival Side) error {
	sides := []Side{ours}
	if rival != nil {
		sides = append(sides, rival)
	}
	figures, err := b.length.measure(sides...)
	if err != nil {
		return err
	}
	r.Here, r.Met = figures[0], r.MS > 0 && 1e3*figures[0].Wall <= r.MS
	if rival != nil {
		r.There = figures[1]
		r.Ratio = r.Bar.ratio(r.Here.Wall, r.There.Wall)
		r.Met = r.Bar.met(r.Ratio)
	}
	b.report.Rows = append(b.report.Rows, r)
	return nil
}

// timed is a side that measures its own steps.
type timed func(n int) (time.Duration, error)

func (t timed) Run(n int) (Time, error) {
	took, err := t(n)
	return Time{Wall: took.Seconds()}, err
}

func (t timed) Close() {}

// start measures how long a host waits for a service to start. Each start is a process, so it is
// not repeated to fill a turn.
func (b *pluginBench) start() error {
	return b.row(PluginRow{Group: "start", Case: "start to the first answer", Unit: "start", MS: 30}, timed(func(n int) (took time.Duration, err error) {
		for range n {
			begin := time.Now()
			h, err := host.Start(exec.Command(b.o.Binary, "serve"), 1<<20)
			if err != nil {
				return 0, err
			}
			_, err = h.Info(context.Background(), &pb.InfoRequest{})
			took += time.Since(begin)
			h.Close()
			if err != nil {
				return 0, err
			}
		}
		return took, nil
	}), nil)
}

// held is a host's session, with its tensors laid out in the arena.
type held struct {
	*host.Host
	session, binding uint64
	tensors          []*pb.Tensor
	all              []int32 // places of parameters
}

// size is the bytes of an element of the types in these models.
func size(of string) int64 { return map[string]int64{"f32": 4, "i64": 8}[of] }

// openOn opens a model and lays out its tensors.
func openOn(h *host.Host, path, mode string, settings map[string]string, shapes map[string][]int64) (*held, error) {
	ctx := context.Background()
	o, err := h.Open(ctx, &pb.OpenRequest{Model: path, Mode: mode, Settings: settings, EnvironmentSent: true})
	if err != nil {
		return nil, err
	}
	var batch []*pb.Tensor
	for _, v := range o.GetInputs() {
		batch = append(batch, &pb.Tensor{Name: v.GetName(), Type: v.GetType(), Shape: shapes[v.GetName()]})
	}
	bound, err := h.Bind(ctx, &pb.BindRequest{Session: o.GetSession(), Inputs: batch})
	if err != nil {
		return nil, err
	}
	s := &held{Host: h, session: o.GetSession(), binding: bound.GetBinding(), tensors: bound.GetTensors()}
	var spans []*pb.Span
	var kept []*pb.Tensor
	at := int64(0)
	for i, t := range s.tensors {
		n := size(t.GetType())
		for _, d := range t.GetShape() {
			n *= d
		}
		t.Span = &pb.Span{Offset: at, Bytes: n}
		spans = append(spans, t.GetSpan())
		if at += (n + 63) / 64 * 64; at > int64(len(h.Arena)) {
			return nil, fmt.Errorf("tensors of %s take more than the arena's %d bytes", path, len(h.Arena))
		}
		if t.GetRole() == "param" {
			kept, s.all = append(kept, t), append(s.all, int32(i))
		}
	}
	if _, err := h.Sync(ctx, &pb.SyncRequest{Session: s.session, Tensors: kept}); err != nil {
		return nil, err
	}
	_, err = h.Bind(ctx, &pb.BindRequest{Session: s.session, Binding: s.binding, Spans: spans})
	return s, err
}

// at is a tensor's bytes in the arena.
func (s *held) at(role, name string) []byte {
	for _, t := range s.tensors {
		if t.GetRole() == role && t.GetName() == name {
			return s.Arena[t.GetSpan().GetOffset():][:t.GetSpan().GetBytes()]
		}
	}
	return nil
}

// forward and backward are the passes of a bridge, with all parameters marked as changed.
func (s *held) forward() (uint64, error) {
	r, err := s.Forward(context.Background(), &pb.StepRequest{Session: s.session, Binding: s.binding, Changed: s.all})
	return r.GetRun(), err
}

func (s *held) backward(run uint64) error {
	_, err := s.Backward(context.Background(), &pb.StepRequest{Session: s.session, Binding: s.binding, Run: run})
	return err
}

// calls measures the round trip of a call that does nothing, and of a trivial pass.
func (b *pluginBench) calls() error {
	path, err := b.reader(16)
	if err != nil {
		return err
	}
	h, err := host.Start(exec.Command(b.o.Binary, "serve"), 1<<20)
	if err != nil {
		return err
	}
	defer h.Close()
	s, err := openOn(h, path, "bridge", nil, map[string][]int64{"x": {16}})
	if err != nil {
		return err
	}
	if err := b.row(PluginRow{Group: "calls", Case: "round trip, mutual TLS", Unit: "call", MS: 0.1}, local{step: func() error {
		_, err := h.Sync(context.Background(), &pb.SyncRequest{Session: s.session})
		return err
	}}, nil); err != nil {
		return err
	}
	return b.row(PluginRow{Group: "calls", Case: "forward and backward pass of a model of one parameter", Unit: "step", MS: 0.3}, local{step: func() error {
		run, err := s.forward()
		if err != nil {
			return err
		}
		return s.backward(run)
	}}, nil)
}

// reader writes a model that takes n numbers and reads the first one only.
func (b *pluginBench) reader(n int64) (path string, err error) {
	g := graph.New(kernels.Library, "reader")
	err = graph.Try(func() {
		make := graph.NewBuilder(g)
		x, wrong := make.Define(graph.Input, "x", graph.Float32, graph.Shape{graph.Num(n)})
		w, failed := make.Define(graph.Param, "w", graph.Float32, graph.Shape{graph.Num(1)})
		if wrong != nil || failed != nil {
			panic(fmt.Sprint(wrong, failed)) // the names are unique
		}
		one := graph.TensorOf(graph.Float32, []float32{1}, 1)
		w.Data = graph.Bytes(one.Bytes)
		first := make.Op("Slice", nil, x, make.Ints(graph.Num(0)), make.Ints(graph.Num(1)))
		g.Outputs = []*graph.Value{make.Op("ReduceMean", graph.A{"keepdims": 0}, make.Op("Mul", nil, first, w))}
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(b.folder, fmt.Sprintf("reader%d.onnx", n))
	return path, onnx.Write(path, g)
}

// arenaBytes is the tensor of the group arena.
const arenaBytes = 64 << 20

// arena compares a large tensor in the arena with one that is first copied there.
func (b *pluginBench) arena() error {
	path, err := b.reader(arenaBytes / 4)
	if err != nil {
		return err
	}
	h, err := host.Start(exec.Command(b.o.Binary, "serve"), arenaBytes+1<<20)
	if err != nil {
		return err
	}
	defer h.Close()
	s, err := openOn(h, path, "bridge", nil, map[string][]int64{"x": {arenaBytes / 4}})
	if err != nil {
		return err
	}
	x := s.at("input", "x")
	from, to := bytes.Repeat([]byte{1}, arenaBytes), bytes.Repeat([]byte{2}, arenaBytes)
	copy(x, from)
	if err := b.row(PluginRow{Group: "arena", Case: "forward pass, 64 MiB of input in the arena", Unit: "call", MS: 0.2}, local{step: func() error {
		_, err := s.forward()
		return err
	}}, nil); err != nil {
		return err
	}
	return b.row(PluginRow{Group: "arena", Case: "64 MiB into the arena and a forward pass", Unit: "copy", Rival: "a copy in the host", Bar: Bar{Speed: 0.5}}, local{step: func() error {
		copy(x, from)
		_, err := s.forward()
		return err
	}}, local{step: func() error {
		copy(to, from)
		return nil
	}})
}

// steps compares a GPT's training step in the service with the command line's.
func (b *pluginBench) steps() error {
	model, data := filepath.Join(b.folder, "gpt.onnx"), filepath.Join(b.folder, "gpt.npz")
	sizes := strings.Fields("--layers 4 --width 256 --heads 8 --vocab 2048 --seq 64 --samples 8")
	batch := []int64{8, 64}
	if b.o.Quick {
		sizes, batch = strings.Fields("--layers 2 --width 128 --heads 4 --vocab 512 --seq 32 --samples 4"), []int64{4, 32}
	}
	if _, err := b.command(append([]string{"new", "gpt", "-o", model, "--data", data}, sizes...)...); err != nil {
		return err
	}
	settings := map[string]string{"optimizer": "sgd", "device": "cpu"}
	shapes := map[string][]int64{"input_ids": batch, "labels": batch}
	h, err := host.Start(exec.Command(b.o.Binary, "serve"), 256<<20)
	if err != nil {
		return err
	}
	defer h.Close()
	bridge, err := openOn(h, model, "bridge", map[string]string{"device": "cpu"}, shapes)
	if err != nil {
		return err
	}
	one := graph.TensorOf(graph.Float32, []float32{1})
	copy(bridge.at("seed", "loss"), one.Bytes)
	train := timed(func(n int) (time.Duration, error) {
		out, err := b.command("train", model, "--data", data, "--dims", fmt.Sprintf("batch=%d,seq=%d", batch[0], batch[1]), "--device", "cpu",
			"--optimizer", "sgd", "--lr", "1e-6", "--steps", fmt.Sprint(n+2), "--format", "json")
		var said struct {
			StepMS []float64 `json:"step_ms"`
		}
		if err == nil {
			err = json.Unmarshal(out, &said)
		}
		if err != nil {
			return 0, err
		}
		took := 0.0
		for _, ms := range said.StepMS[min(2, len(said.StepMS)):] { // skip warm-up steps
			took += ms
		}
		return time.Duration(took * float64(time.Millisecond)), nil
	})
	name := fmt.Sprintf("GPT of %s, batch %d × %d", strings.Join(sizes[:6], " "), batch[0], batch[1])
	bar := PluginRow{Group: "steps", Unit: "step", Rival: "memopt train", Bar: Bar{Time: 1.15}}
	bar.Case = name + ", bridge"
	if err := b.row(bar, local{step: func() error {
		run, err := bridge.forward()
		if err != nil {
			return err
		}
		return bridge.backward(run)
	}}, train); err != nil {
		return err
	}
	resident, err := openOn(h, model, "resident", settings, shapes)
	if err != nil {
		return err
	}
	bar.Case = name + ", resident"
	return b.row(bar, local{step: func() error {
		_, err := h.Step(context.Background(), &pb.StepRequest{Session: resident.session, Binding: resident.binding, Lr: 1e-6})
		return err
	}}, train)
}

// command runs the executable in an environment without settings.
func (b *pluginBench) command(args ...string) ([]byte, error) {
	cmd := exec.Command(b.o.Binary, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MEMOPT_") || strings.HasPrefix(v, "ORTMODULE_") })
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("memopt %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// Text writes the report as a table for people.
func (r *PluginReport) Text(w io.Writer) {
	table := [][]string{{"group", "case", "ours", "rival", "", "ratio", "bar", ""}}
	met := 0
	ms := func(f Figure) string { return fmt.Sprintf("%.3g ms", 1e3*f.Wall) }
	for _, row := range r.Rows {
		line := []string{row.Group, row.Case, ms(row.Here), "", row.Rival, "", row.Bar.String(), verdict(row.Met)}
		if row.MS > 0 {
			line[6] = fmt.Sprintf("≤ %g ms", row.MS)
		} else {
			line[3], line[5] = ms(row.There), fmt.Sprintf("%.2f", row.Ratio)
		}
		if row.Met {
			met++
		}
		table = append(table, line)
	}
	report.Table(w, "llrrlrll", table)
	fmt.Fprintf(w, "\n%d of %d bars are met. The quickest rounds count, by the clock on the wall.\n", met, len(r.Rows))
}

// File converts the report.
func (r *PluginReport) File(h Head) File {
	f := File{Head: h, Rows: []FileRow{}, Peers: []Found{}, Missing: []Missing{}, Unset: []string{}}
	for _, row := range r.Rows {
		out := FileRow{Group: row.Group, Case: row.Case, Threads: runtime.GOMAXPROCS(0), Work: 1, Unit: row.Unit, Clock: "wall",
			Ours: fileSide("memopt", row.Here), Bar: FileBar{Speed: row.Bar.Speed, Time: row.Bar.Time, MS: row.MS}, Met: &row.Met}
		if row.Rival != "" {
			rival := fileSide(row.Rival, row.There)
			out.Rival, out.Ratio, out.RatioOf = &rival, finite(row.Ratio), "speed"
			if row.Bar.Time > 0 {
				out.RatioOf = "time"
			}
		}
		f.Rows = append(f.Rows, out)
	}
	return f
}
