// Package forward runs forward programs in sessions, as settings say, and quantizes them.
package forward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/tensorfile"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/machine"
	"memopt/memopt/phases"
	"memopt/memopt/session"
)

// arenas are shared by the forward sessions of this process.
var arenas session.Arenas

// optionsOf converts settings to session options.
func optionsOf(c configs.Config, watch session.Watch) (o session.Options, err error) {
	o = session.Options{
		Watch:    watch,
		Optimize: c.Optimize, Pattern: c.MemoryPattern, Patterns: c.MaxPatterns, MemoryLimit: c.MemoryLimit, Seed: c.Seed, Threads: c.Threads, SaveTo: c.OptimizedModelPath, SaveBeside: c.OptimizedModelFile, SaveFrom: c.OptimizedModelFrom,
		Arena: arena.Options{Strategy: arena.Strategy(c.ArenaStrategy), InitialChunkBytes: c.InitialChunk, InitialGrowthBytes: c.InitialGrowth,
			MaxDeadBytes: c.MaxDead, MaxPowerOfTwoBytes: c.MaxPowerOfTwo, Off: !c.CPUArena},
	}
	o.Fits = func(bytes int64) error { return machine.Fits(bytes, "the session", "") }
	kind, which, err := devices.Find(c.Device)
	if err != nil {
		return o, err
	}
	load, err := devices.Loads(c)
	if err != nil {
		return o, err
	}
	o.Load = load.Mode
	if o.Kind = kind.Name; kind.Lowered {
		o.Lowered = true
		o.Memory = func() (session.DeviceMemory, error) {
			p, err := vulkan.Choose(which)
			if err != nil {
				return nil, exit.Cannot(err)
			}
			shared, err := vulkan.Share(p)
			if err != nil {
				return nil, exit.Cannot(err)
			}
			return contextMemory{shared}, nil
		}
		o.Device = func(m session.DeviceMemory, s *schedule.Schedule, with session.Device, arena int64, places session.Places, loaded func()) (session.Device, error) {
			if v, is := with.(*vulkan.Device); is {
				return devices.FromVulkan(v.With(s, arena, placesIn(places)))
			}
			load, err := devices.Loads(c)
			if err != nil {
				return nil, err
			}
			tune, err := devices.TuneFolder(c)
			if err != nil {
				return nil, err
			}
			return devices.OpenVulkan(s, which, vulkan.Options{FastPaths: c.FastPaths, Tune: tune, Arena: arena, Context: m.(contextMemory).Context, Places: placesIn(places), Load: load, Loaded: loaded, Count: watch.Count})
		}
	}
	return o, nil
}

// Open opens a session for a forward program. Sessions that name the same arena share it, with the options
// and the limit of the first one. data is the file that inputs will come from, if it is known; it is used for
// errors only.
func Open(ctx context.Context, m session.Model, c configs.Config, data string) (*session.Session, error) {
	return OpenRecorded(ctx, nil, m, c, data)
}

// OpenRecorded is OpenForward with the memory of its phases recorded, if p is not nil.
func OpenRecorded(ctx context.Context, p *phases.Record, m session.Model, c configs.Config, data string) (*session.Session, error) {
	o, err := optionsOf(c, p.Watch(m.Path))
	if err != nil {
		return nil, err
	}
	if m.Arena != "" && !o.Lowered {
		limit, options := o.MemoryLimit, o
		o.Share = func() (*arena.Arena, func() error) { return arenas.Use(m.Arena, limit, options) }
		o.MemoryLimit = 0
	}
	s, err := session.Open(ctx, m, o)
	switch {
	case err == nil:
		return s, nil
	case machine.AsMemoryError(err) != nil:
		o.MemoryLimit = 0
		dry, wrong := session.OpenDry(ctx, m, o)
		if wrong != nil {
			return nil, err
		}
		defer dry.Close()
		f := &fitting{s: dry, path: m.Path, config: c, rows: data != ""}
		var end func()
		f.in, end = inputsFor(dry, c, data)
		defer end()
		return nil, f.wouldFit(ctx, err)
	case !exit.Coded(err):
		err = exit.Input(err)
	}
	return nil, err
}

// Once is Session.Run, but its memory errors say what would fit.
func Once(ctx context.Context, s *session.Session, c configs.Config, in map[string]*graph.Tensor, fetches []session.Fetch, o session.RunOptions) (*session.Result, error) {
	r, err := s.Run(ctx, in, fetches, o)
	if err != nil {
		f := &fitting{s: s, path: s.Path(), config: c, in: in, fetches: fetches}
		return nil, f.wouldFit(ctx, err)
	}
	return r, nil
}

// contextMemory is a Vulkan device's memory, for the buffers of sessions.
type contextMemory struct{ *vulkan.Context }

func (m contextMemory) NewBuffer(bytes int64) (session.Buffer, error) {
	return bufferOf(m.Context.NewBuffer(bytes))
}
func (m contextMemory) Import(host []byte) (session.Buffer, error) {
	return bufferOf(m.Context.Import(host))
}

func (m contextMemory) Need(s *schedule.Schedule, places session.Places) (arena, inputs int64, err error) {
	return m.Context.Need(s, placesIn(places))
}

func bufferOf(b *vulkan.Buffer, err error) (session.Buffer, error) {
	if err != nil {
		if errors.Is(err, vk.ErrDeviceMemory) || errors.Is(err, vk.ErrHostMemory) {
			err = exit.Cannot(err)
		}
		return nil, err
	}
	return b, nil
}

// placesIn converts places to a Vulkan device's. A place in a foreign buffer gets a nil buffer, which the device
// refuses.
func placesIn(places session.Places) vulkan.Places {
	in := func(all map[string]session.Place) map[string]vulkan.Place {
		out := map[string]vulkan.Place{}
		for name, p := range all {
			b, _ := session.Base(p.Buffer).(*vulkan.Buffer)
			out[name] = vulkan.Place{Buffer: b, At: p.At}
		}
		return out
	}
	return vulkan.Places{Inputs: in(places.Inputs), Outputs: in(places.Outputs)}
}

// Warnings warn of settings that have no effect on the session's device.
func Warnings(s *session.Session, c configs.Config) (all []string) {
	names, why := []string{"chunk"}, "no ring buffer is needed"
	if devices.Lowered(s.Device()) {
		names, why = []string{"enable_mem_pattern", "enable_cpu_mem_arena", "threads", "max_dead_bytes_per_chunk"}, "all values are planned"
	}
	for _, name := range names {
		if from, given := c.Source(name); given {
			all = append(all, fmt.Sprintf("%s is ignored on %s, where %s", from, s.Device(), why))
		}
	}
	return all
}

// Running says what to run, on which data, and how often.
type Running struct {
	Data   string   // npz; "" uses generated data
	Fetch  []string // outputs; none means all
	Repeat int
	// Bind is one of Binds, and says how inputs and outputs are bound.
	Bind string
	// Beside are sessions that run in turn with this one, on generated data.
	Beside []*session.Session
	Shrink bool           // release idle memory at the end
	Phases *phases.Record // nil records none; the caller calls Close for the table, once all sessions are closed
	// Progress, if not nil, is called after every run.
	Progress func(run, runs int, took time.Duration)
	Stop     <-chan struct{} // as in Training
}

// Ran is the result of running a forward program.
type Ran struct {
	*session.Result // of the last run
	Times           []time.Duration
	Stats           session.Stats // while inputs and outputs were still bound
	Beside          []Beside
	Shrunk          int64              // bytes released by Shrink
	Anonymous       *machine.Anonymous // nil if the system does not report it
	Warnings        []string
	Stopped         error
}

// Beside is the result of a session that ran in turn with another.
type Beside struct {
	Model    string        `json:"model"`
	Took     time.Duration `json:"-"`
	MS       float64       `json:"ms"` // of the last run
	CopiedIn int64         `json:"copied_in"`
	Stats    session.Stats `json:"stats"`
}

// runBeside runs each of the other sessions once.
func runBeside(ctx context.Context, all []*session.Session, in []map[string]*graph.Tensor) (ran []Beside, err error) {
	for i, s := range all {
		r, err := s.Run(ctx, in[i], nil, session.RunOptions{})
		if err != nil {
			if !exit.Coded(err) {
				err = exit.Input(err)
			}
			return nil, fmt.Errorf("%s: %w", s.Path(), err)
		}
		ran = append(ran, Beside{Model: s.Path(), Took: r.Took, MS: float64(r.Took.Microseconds()) / 1000, CopiedIn: r.CopiedIn, Stats: s.Stats()})
	}
	return ran, nil
}

// Binds are the ways to bind inputs and outputs: not at all, so that they are copied to and from a device with its
// own memory; to host memory that the device accesses directly; or to the device's buffers.
func Binds() []string { return []string{"copy", "import", "device"} }

// boundBytes is the size of the buffers for bound inputs.
func boundBytes(s *session.Session, how string, in map[string]*graph.Tensor) (n int64) {
	room := session.OnDevice
	if how == "import" {
		room = session.OnHost
	}
	for _, x := range in {
		n += s.BufferBytes(room, int64(len(x.Bytes)))
	}
	return n
}

// bind binds all inputs, and the outputs to fetch.
func bind(s *session.Session, how string, in map[string]*graph.Tensor, fetch []string) (*session.Binding, error) {
	b := s.NewBinding()
	room, make := session.OnDevice, s.NewBuffer
	if how == "import" {
		room, make = session.OnHost, s.NewHostBuffer
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		x := in[name]
		buffer, err := make(int64(len(x.Bytes)))
		if err != nil {
			return b, fmt.Errorf("input %q: %w", name, err)
		}
		if err = buffer.WriteAt(x.Bytes, 0); err == nil {
			err = b.Device(name, x, session.Place{Buffer: buffer})
		}
		buffer.Drop() // the binding holds a reference
		if err != nil {
			return b, err
		}
	}
	for _, p := range s.Signature.Outputs {
		if len(fetch) > 0 && !slices.Contains(fetch, p.Name) {
			continue
		}
		if err := b.Output(p.Name, room); err != nil {
			return b, err
		}
	}
	return b, nil
}

// Run runs a session on data. The session owns the results until it is closed.
func Run(ctx context.Context, s *session.Session, c configs.Config, f Running) (r *Ran, err error) {
	r = &Ran{Warnings: Warnings(s, c)}
	var data *tensorfile.Set
	f.Phases.Reading()
	if f.Data != "" {
		if data, err = feed.Read(f.Data); err != nil {
			return nil, err
		}
		defer data.Close()
		defer weights.Guard(&err)()
	} else {
		r.Warnings = append(r.Warnings, "no --data: running on made-up numbers")
	}
	in, warnings, err := InputsOf(s, data, c)
	if err != nil {
		return nil, exit.Input(err)
	}
	r.Warnings = append(r.Warnings, warnings...)
	var fetches []session.Fetch
	for _, name := range f.Fetch {
		fetches = append(fetches, session.Fetch{Name: name})
	}
	f.Phases.Read(in, data)
	heap := phases.HeapOf(in, data)
	watch := machine.NewWatch()
	defer func() {
		watch.End()
		if r != nil && r.Result != nil {
			r.Anonymous = ofSessions(watch, append([]*session.Session{s}, f.Beside...), heap)
		}
	}()
	var beside []map[string]*graph.Tensor
	for _, other := range f.Beside {
		in, _, err := InputsOf(other, nil, c)
		if err != nil {
			return nil, exit.Input(fmt.Errorf("%s: %w", other.Path(), err))
		}
		beside = append(beside, in)
		f.Phases.Read(in, nil)
		heap += phases.HeapOf(in, nil)
	}
	var o session.RunOptions
	run := func() (*session.Result, error) { return s.Run(ctx, in, fetches, o) }
	if f.Bind != "" && f.Bind != Binds()[0] {
		f.Phases.Binding(f.Bind, boundBytes(s, f.Bind, in))
		b, err := bind(s, f.Bind, in, f.Fetch)
		defer b.ClearOutputs()
		defer b.ClearInputs()
		if err != nil {
			if !exit.Coded(err) {
				err = exit.Cannot(err)
			}
			return nil, err
		}
		run = func() (*session.Result, error) {
			result, _, err := b.Run(ctx, session.RunOptions{})
			return result, err
		}
		defer f.Phases.Unbinding()
		defer func() { // fetch results before the outputs are unbound
			for i := range resultsOf(r) {
				x := &r.Outputs[i]
				bytes := make([]byte, bytesOf(x.Type, x.Shape))
				if wrong := b.Read(x.Name, bytes); wrong != nil && err == nil {
					r, err = nil, wrong
					return
				}
				x.Tensor = &graph.Tensor{Type: x.Type, Shape: x.Shape, Bytes: bytes}
			}
		}()
	}
	for i := range max(f.Repeat, 1) {
		f.Phases.Again(i, f.Repeat)
		if i == 1 {
			o.Same = map[string]bool{}
			for name := range in {
				o.Same[name] = true
			}
		}
		if r.Result, err = run(); err != nil {
			f := &fitting{s: s, path: s.Path(), config: c, in: in, fetches: fetches, rows: data != nil}
			err = f.wouldFit(ctx, err)
			if !exit.Coded(err) {
				err = exit.Input(err)
			}
			return nil, err
		}
		if err := data.Unchanged(); err != nil {
			return nil, exit.Input(err)
		}
		r.Times = append(r.Times, r.Took)
		if r.Beside, err = runBeside(ctx, f.Beside, beside); err != nil {
			return nil, err
		}
		r.Stats = s.Stats()
		f.Phases.Ran(r.Promised, r.Stats)
		if f.Progress != nil {
			f.Progress(i+1, f.Repeat, r.Took)
		}
		if i+1 < f.Repeat && stop.Closed(f.Stop) {
			r.Stopped = exit.Stopped(fmt.Errorf("interrupted after run %d of %d", i+1, f.Repeat))
			break
		}
	}
	if f.Shrink {
		f.Phases.Shrinking()
		r.Shrunk = s.Shrink()
	}
	return r, nil
}

func resultsOf(r *Ran) []session.Output {
	if r == nil || r.Result == nil {
		return nil
	}
	return r.Outputs
}

// ofSessions compares the measured peak with the anonymous memory of sessions that run in turn and of their inputs.
// It returns nil if the system does not report anonymous memory.
func ofSessions(w *machine.Watch, all []*session.Session, inputs int64) *machine.Anonymous {
	a := &machine.Anonymous{Measured: w.Peak(), Data: inputs}
	if a.Measured == 0 {
		return nil
	}
	held := kernels.Workspace() + a.Data
	for i, s := range all {
		stats := s.Stats()
		if devices.Lowered(stats.Device) {
			return a
		}
		if held += stats.HeldMost - stats.Weights.Mapped; i == 0 && len(all) > 1 {
			held += stats.Arena.MaxTotalAllocated // the shared arena is in no session's account
		}
	}
	a.Promised = held + held/20 + machine.ProgramMemory
	return a
}

// InputsOf takes a model's inputs from a data file, or generates them with the sizes of dims.
func InputsOf(s *session.Session, data *tensorfile.Set, c configs.Config) (map[string]*graph.Tensor, []string, error) {
	in := map[string]*graph.Tensor{}
	if data == nil {
		rng := rand.New(rand.NewPCG(c.Seed, 0x6d656d6f7074))
		for _, p := range s.Signature.Inputs {
			shape, err := sizesOf(p, c.Dims)
			if err != nil {
				return nil, nil, err
			}
			if err := machine.Fits(bytesOf(p.Of, shape), fmt.Sprintf("input %q", p.Name), ""); err != nil {
				return nil, nil, err
			}
			in[p.Name] = feed.MadeUp(p.Of, shape, rng)
		}
		return in, strayDims(s, c.Dims), nil
	}
	var warnings []string
	for _, p := range s.Signature.Inputs {
		x := feed.Array(data, p.Name)
		if x == nil {
			return nil, nil, fmt.Errorf("the data has no array %q or %q; it has %s", p.Name, "input."+p.Name, strings.Join(data.Names, ", "))
		}
		rows, err := firstRows(p, x, c.Dims)
		if err != nil {
			return nil, nil, err
		}
		if rows != x {
			warnings = append(warnings, fmt.Sprintf("input %q takes the first %d of the data's %d rows", p.Name, rows.Shape[0], x.Shape[0]))
		}
		if x = rows; x.Type != p.Of && p.Of.Valid() {
			x = feed.Convert(x, p.Of)
		}
		in[p.Name] = x
	}
	return in, append(warnings, strayDims(s, c.Dims)...), nil
}

// firstRows takes the first rows of an array, if dims set fewer rows than it has.
func firstRows(p onnx.Port, x *graph.Tensor, dims map[string]int64) (*graph.Tensor, error) {
	for i, d := range p.Shape {
		n, given := dims[d]
		switch {
		case !given || i >= len(x.Shape) || int64(x.Shape[i]) == n:
		case i > 0 || int64(x.Shape[0]) < n:
			return nil, fmt.Errorf("data array %q is %v, and %s is %d", p.Name, x.Shape, d, n)
		default:
			rows := &graph.Tensor{Type: x.Type, Shape: slices.Clone(x.Shape)}
			rows.Shape[0] = int(n)
			rows.Bytes = x.Bytes[:int64(rows.Len())*x.Type.Size()]
			x = rows
		}
	}
	return x, nil
}

// sizesOf is an input's shape under the given dims.
func sizesOf(p onnx.Port, dims map[string]int64) ([]int, error) {
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, err
	}
	if !p.Of.Valid() {
		return nil, fmt.Errorf("input %q is %s, which is not run here", p.Name, p.Type)
	}
	shape := make([]int, len(p.Shape))
	for i, d := range p.Shape {
		if d == "" {
			d = fmt.Sprintf("%s_dim%d", p.Name, i)
		}
		dim := onnx.DimOf(d)
		n, err := b.Eval(dim)
		if err != nil {
			missing := strings.Join(dim.Names(), ", ")
			return nil, fmt.Errorf("input %q is %s[%s], and %s has no size; %s gives one", p.Name, p.Of, strings.Join(p.Shape, ", "), missing, configs.CommandLine.Say("dims", missing+"=8"))
		}
		shape[i] = int(n)
	}
	return shape, nil
}

// bytesOf is the size of a tensor, or MaxInt64 if that overflows.
func bytesOf(t graph.DType, shape []int) int64 {
	n := uint64(t.Size())
	for _, d := range shape {
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return math.MaxInt64
		}
		n = low
	}
	return int64(n)
}

// strayDims warns of dims that no input has.
func strayDims(s *session.Session, dims map[string]int64) (warnings []string) {
	var has []string
	for _, p := range s.Signature.Inputs {
		for i, d := range p.Shape {
			if d == "" {
				d = fmt.Sprintf("%s_dim%d", p.Name, i)
			}
			has = append(has, onnx.DimOf(d).Names()...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		if !slices.Contains(has, name) {
			warnings = append(warnings, fmt.Sprintf("no input has a dim %q", name))
		}
	}
	return warnings
}
