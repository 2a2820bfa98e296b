package memopt

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
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/arena"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/memopt/session"
	"memopt/memopt/tensorfile"
	"memopt/memopt/weights"
	"memopt/planner"
)

// arenas are those that forward sessions of this process share.
var arenas session.Arenas

// OpenForward holds a forward program open, as settings say.
// Sessions that name one arena share it, as the first of them has it, and its limit.
func OpenForward(ctx context.Context, m session.Model, c configs.Config) (*session.Session, error) {
	o := session.Options{
		Optimize: c.Optimize, Pattern: c.MemoryPattern, Patterns: c.MaxPatterns, MemoryLimit: c.MemoryLimit, Seed: c.Seed, Threads: c.Threads, SaveTo: c.OptimizedModelPath, SaveBeside: c.OptimizedModelFile, SaveFrom: c.OptimizedModelFrom,
		Arena: arena.Options{Strategy: arena.Strategy(c.ArenaStrategy), InitialChunkBytes: c.InitialChunk, InitialGrowthBytes: c.InitialGrowth,
			MaxDeadBytes: c.MaxDead, MaxPowerOfTwoBytes: c.MaxPowerOfTwo, Off: !c.CPUArena},
	}
	o.Fits = func(bytes int64) error { return Fits(bytes, "the session", "; smaller inputs may fit") }
	kind, which, err := findDevice(c.Device)
	if err != nil {
		return nil, err
	}
	if o.Kind = kind.name; kind.lowered {
		o.Lowered = true
		o.Device = func(s *planner.Schedule, with session.Device, arena int64) (session.Device, error) {
			if v, is := with.(*vulkan.Device); is {
				return fromVulkan(v.With(s, arena))
			}
			return openVulkanAt(s, which, c.FastPaths, arena)
		}
	}
	if m.Arena != "" && !kind.lowered {
		limit, options := o.MemoryLimit, o
		o.Share = func() (*arena.Arena, func() error) { return arenas.Use(m.Arena, limit, options) }
		o.MemoryLimit = 0
	}
	s, err := session.Open(ctx, m, o)
	if err != nil && !coded(err) {
		err = input(err)
	}
	return s, err
}

// ForwardWarnings are of settings that a session's device does not heed.
func ForwardWarnings(s *session.Session, c configs.Config) (all []string) {
	if !Lowered(s.Device()) {
		return nil
	}
	for _, name := range []string{"enable_mem_pattern", "enable_cpu_mem_arena", "threads", "max_dead_bytes_per_chunk"} {
		if from, given := c.Source(name); given {
			all = append(all, fmt.Sprintf("%s is not heeded on %s, where all values are planned", from, s.Device()))
		}
	}
	return all
}

// coded reports whether an error has an exit code.
func coded(err error) bool {
	var c interface{ ExitCode() int }
	return errors.As(err, &c)
}

// Forward says what to run, on what, and how often.
type Forward struct {
	Data   string   // npz; "" makes numbers up
	Fetch  []string // outputs; none are all
	Repeat int
	// Progress is called after every run, if it is set.
	Progress func(run, runs int, took time.Duration)
	Stop     <-chan struct{} // as Training has it
}

// Ran is what runs of a forward program gave.
type Ran struct {
	*session.Result // of the last
	Times           []time.Duration
	Anonymous       *Anonymous // nil where the system does not tell it
	Warnings        []string
	Stopped         error
}

// RunForward runs a session on data. Its results are the session's until it is closed.
func RunForward(ctx context.Context, s *session.Session, c configs.Config, f Forward) (r *Ran, err error) {
	r = &Ran{Warnings: ForwardWarnings(s, c)}
	var data *tensorfile.Set
	if f.Data != "" {
		if data, err = tensorfile.ReadNPZ(f.Data); err != nil {
			return nil, input(err)
		}
		defer data.Close()
		defer weights.Guard(&err)()
	} else {
		r.Warnings = append(r.Warnings, "no --data: running on made-up numbers")
	}
	in, warnings, err := forwardInputs(s, data, c)
	if err != nil {
		return nil, input(err)
	}
	r.Warnings = append(r.Warnings, warnings...)
	var fetches []session.Fetch
	for _, name := range f.Fetch {
		fetches = append(fetches, session.Fetch{Name: name})
	}
	watch := watchMemory()
	defer func() {
		watch.end()
		if r != nil && r.Result != nil {
			r.Anonymous = watch.ofSession(s, data)
		}
	}()
	var o session.RunOptions
	for i := range max(f.Repeat, 1) {
		if i == 1 {
			o.Same = map[string]bool{}
			for name := range in {
				o.Same[name] = true
			}
		}
		if r.Result, err = s.Run(ctx, in, fetches, o); err != nil {
			if !coded(err) {
				err = input(err)
			}
			return nil, err
		}
		if err := data.Unchanged(); err != nil {
			return nil, input(err)
		}
		r.Times = append(r.Times, r.Took)
		if f.Progress != nil {
			f.Progress(i+1, f.Repeat, r.Took)
		}
		if i+1 < f.Repeat && closed(f.Stop) {
			r.Stopped = codedError{fmt.Errorf("interrupted after run %d of %d", i+1, f.Repeat), ExitStopped}
			break
		}
	}
	return r, nil
}

// ofSession is what was seen beside what a session holds that no file is behind; nil where the system does not tell.
func (w *memoryWatch) ofSession(s *session.Session, data *tensorfile.Set) *Anonymous {
	a := &Anonymous{Measured: w.most.Load()}
	if a.Measured == 0 {
		return nil
	}
	if data != nil {
		a.Data = data.Copied
	}
	if stats := s.Stats(); !Lowered(stats.Device) {
		held := stats.HeldMost - stats.Weights.Mapped + kernels.Workspace() + a.Data
		a.Promised = held + held/20 + programMemory
	}
	return a
}

// forwardInputs are the arrays of a file that a model takes, or numbers made up for sizes of its dims.
func forwardInputs(s *session.Session, data *tensorfile.Set, c configs.Config) (map[string]*graph.Tensor, []string, error) {
	in := map[string]*graph.Tensor{}
	if data == nil {
		rng := rand.New(rand.NewPCG(c.Seed, 0x6d656d6f7074))
		for _, p := range s.Signature.Inputs {
			shape, err := sizesOf(p, c.Dims)
			if err != nil {
				return nil, nil, err
			}
			if err := Fits(bytesOf(p.Of, shape), fmt.Sprintf("input %q", p.Name), ""); err != nil {
				return nil, nil, err
			}
			in[p.Name] = madeUp(p.Of, shape, rng)
		}
		return in, strayForward(s, c.Dims), nil
	}
	var warnings []string
	for _, p := range s.Signature.Inputs {
		x := array(data, p.Name)
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
			x = convert(x, p.Of)
		}
		in[p.Name] = x
	}
	return in, append(warnings, strayForward(s, c.Dims)...), nil
}

// firstRows is as much of an array as sizes of dims ask for.
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

// sizesOf is an input's shape under sizes of dims.
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

// madeUp is numbers that every model accepts, as feeder.synthesize makes them.
func madeUp(t graph.DType, shape []int, rng *rand.Rand) *graph.Tensor {
	x := graph.NewTensor(t, shape...)
	for i := range x.Len() {
		if x.Type.IsReal() {
			x.SetFloat(i, rng.NormFloat64())
		} else {
			x.SetInt(i, rng.Int64N(2))
		}
	}
	return x
}

// bytesOf is what a tensor takes, at most the largest number.
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

// strayForward warns of sizes for dims that no input has.
func strayForward(s *session.Session, dims map[string]int64) (warnings []string) {
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
