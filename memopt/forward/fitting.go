package forward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/bytesize"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/memopt/devices"
	"memopt/memopt/feed"
	"memopt/memopt/fit"
	"memopt/memopt/machine"
	"memopt/memopt/session"
	"memopt/planner"
)

// fitting looks for changes that would let a forward program run for which there was too little memory. Each
// is tried in a dry run before it is suggested.
type fitting struct {
	ctx     context.Context
	s       *session.Session
	path    string // of the model; "" if it is not a file
	config  configs.Config
	in      map[string]*graph.Tensor
	fetches []session.Fetch
	rows    bool  // inputs are arrays of which only the number of rows can be reduced
	limit   int64 // memory limit; 0 is none
	*fit.Search
}

// trialTime bounds the time of the search for what would fit.
const trialTime = 2 * time.Second

// wouldFit adds to a memory error the changes that would fit. Any other error is returned unchanged.
func (f *fitting) wouldFit(ctx context.Context, err error) error {
	e := machine.AsMemoryError(err)
	if e == nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, trialTime)
	defer end()
	f.ctx, f.limit = ctx, max(e.Room, 0)
	f.Search = &fit.Search{Asked: f.config, Try: f.try}
	switch {
	case f.in == nil:
		f.Skip("sizes of inputs are not known yet", fit.Anything)
	case e.Room < 0:
		f.Skip(fit.Unsaid, fit.Anything)
	default:
		f.raise(e)
		f.settings()
		f.dims()
		f.quantized()
	}
	f.Spell()
	e.Changes, e.Note = f.Found, f.Note()
	return e
}

// run does a dry run of the program under the memory limit.
func (f *fitting) run(in map[string]*graph.Tensor, change func(*session.Options)) (int64, error) {
	return f.s.DryRun(f.ctx, in, f.fetches, f.changing(change))
}

// anew is run for inputs of other sizes: the session allocates the results.
func (f *fitting) anew(s *session.Session, in map[string]*graph.Tensor) (int64, error) {
	var fetches []session.Fetch
	for _, g := range f.fetches {
		fetches = append(fetches, session.Fetch{Name: g.Name, OnDevice: g.OnDevice})
	}
	return s.DryRun(f.ctx, in, fetches, f.changing(func(*session.Options) {}))
}

// changing returns a change to a session's options that also applies the memory limit.
func (f *fitting) changing(change func(*session.Options)) func(*session.Options) {
	return func(o *session.Options) {
		o.MemoryLimit = f.limit
		change(o)
	}
}

// raise looks for a sufficient memory limit, if the setting is what refused.
func (f *fitting) raise(e *machine.MemoryError) {
	if e.Short.Limit == 0 || e.Short.Cause != nil {
		return
	}
	need, err := f.run(f.in, func(o *session.Options) { o.MemoryLimit = 0 })
	if err != nil {
		f.Skip(f.late(err).Error(), f.config.Name("mem_limit"))
		return
	}
	text := bytesize.Near(need)
	limit, _ := configs.ParseBudget(text)
	if _, err := f.run(f.in, func(o *session.Options) { o.MemoryLimit = limit.Bytes }); err == nil {
		f.Found = append(f.Found, planner.Change{Set: []planner.Setting{{Name: "mem_limit", Value: text}}, Share: float64(need-f.limit) / float64(max(f.limit, 1))})
	}
}

// late is an error of a dry run, or that there was no time for it.
func (f *fitting) late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &fit.ErrLong{Why: fmt.Sprintf("it takes more than %s", trialTime)}
	}
	return err
}

// try does a dry run under changed settings of the arena.
func (f *fitting) try(set ...planner.Setting) (fit.Takes, error) {
	most, err := f.run(f.in, func(o *session.Options) {
		for _, s := range set {
			if s.Name == "enable_mem_pattern" {
				o.Pattern = true
			} else {
				o.Arena.Strategy = arena.Planned
			}
		}
	})
	return fit.Takes{Bytes: most, Of: fit.InAll}, err
}

// settings tries the settings with which the arena takes no more than planned.
func (f *fitting) settings() {
	if devices.Lowered(f.s.Device()) {
		return
	}
	var off []fit.Row
	if !f.config.MemoryPattern {
		off = append(off, fit.Change("enable_mem_pattern", "on"))
	}
	if f.config.ArenaStrategy != string(arena.Planned) {
		off = append(off, fit.Change("arena_extend_strategy", string(arena.Planned)))
	}
	if !f.First(off...) && len(off) > 1 {
		f.Offer(fit.All(off...))
	}
}

// dims looks for smaller sizes of each of the inputs' dims.
func (f *fitting) dims() {
	sizes, inside := map[string]int64{}, map[string]bool{}
	var order []string
	for _, p := range f.s.Signature.Inputs {
		x := f.in[p.Name]
		if x == nil || len(p.Shape) != len(x.Shape) {
			continue
		}
		for i, d := range p.Shape {
			if d == "" {
				d = fmt.Sprintf("%s_dim%d", p.Name, i)
			}
			if names := onnx.DimOf(d).Names(); len(names) == 1 && names[0] == d && sizes[d] == 0 {
				sizes[d] = int64(x.Shape[i])
				order = append(order, d)
			}
			inside[d] = inside[d] || i > 0
		}
	}
	copied := map[string][]byte{} // misaligned stand-ins for inputs that are copied because they are misaligned
	defer func() {
		for _, b := range copied {
			arena.Unmap(b)
		}
	}()
	for name, x := range f.in {
		if session.Copied(x) {
			b, err := arena.Map(int64(len(x.Bytes)) + 1)
			if err != nil {
				f.Skip(err.Error(), f.config.Name("dims"))
				return
			}
			copied[name] = b
		}
	}
	for _, name := range order {
		if f.rows && inside[name] {
			continue
		}
		if err := f.Size(name, sizes[name], func(n int64) error {
			dims := maps.Clone(sizes)
			dims[name] = n
			in := map[string]*graph.Tensor{}
			for _, p := range f.s.Signature.Inputs {
				shape, err := sizesOf(p, dims)
				if err != nil {
					return err
				}
				x := &graph.Tensor{Type: p.Of, Shape: shape}
				if b := copied[p.Name]; b != nil {
					x.Bytes = b[1 : 1+int64(x.Len())*x.Type.Size()]
				}
				in[p.Name] = x
			}
			_, err := f.anew(f.s, in)
			var short *arena.OutOfMemory
			if errors.As(err, &short) {
				return fit.ErrShort
			}
			return f.late(err)
		}); err != nil {
			return
		}
	}
}

// mostQuantized is the largest file that is quantized on trial.
const mostQuantized = 256 << 20

// quantized tries the model with 8-bit weights: it is written to a temporary file, and run dry.
func (f *fitting) quantized() {
	if f.path == "" {
		return
	}
	q, most, err := QuantizedTo(f.ctx, f.path, func(to string) (int64, error) {
		o, err := optionsOf(f.config, session.Watch{})
		if err != nil {
			return 0, err
		}
		o.MemoryLimit = f.limit
		s, err := session.OpenDry(f.ctx, session.Model{Path: to}, o)
		if err != nil {
			return 0, err
		}
		defer s.Close()
		return f.anew(s, f.in)
	})
	OfferQuantized(f.Search, f.path, q, most, err)
}

var errTooLarge = errors.New("the model is large")

// inputsFor returns a program's inputs, as far as data or dims determine their sizes; nil if neither does. They are
// valid until end is called.
func inputsFor(s *session.Session, c configs.Config, data string) (in map[string]*graph.Tensor, end func()) {
	if data != "" {
		set, err := feed.Read(data)
		if err != nil {
			return nil, func() {}
		}
		in, _, err := InputsOf(s, set, c)
		if err != nil {
			in = nil
		}
		return in, func() { set.Close() }
	}
	in = map[string]*graph.Tensor{}
	for _, p := range s.Signature.Inputs {
		shape, err := sizesOf(p, c.Dims)
		if err != nil {
			return nil, func() {}
		}
		in[p.Name] = &graph.Tensor{Type: p.Of, Shape: shape}
	}
	return in, func() {}
}

// QuantizedTo quantizes a model to a temporary file for look, unless the model is large.
func QuantizedTo(ctx context.Context, path string, look func(to string) (int64, error)) (q Quantized, most int64, err error) {
	ctx, end := context.WithTimeout(ctx, trialTime)
	defer end()
	size := int64(0)
	for _, file := range []string{path, path + ".data"} {
		if is, err := os.Stat(file); err == nil {
			size += is.Size()
		}
	}
	if size > mostQuantized {
		return q, 0, errTooLarge
	}
	dir, err := os.MkdirTemp("", "memopt-")
	if err != nil {
		return q, 0, err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "quantized.onnx")
	if q, err = Quantize(ctx, path, to, configs.Default()); err != nil {
		return q, 0, err
	}
	most, err = look(to)
	return q, most, err
}

// OfferQuantized offers the model with 8-bit weights, which takes so much in all, unless an error says why not.
func OfferQuantized(s *fit.Search, path string, q Quantized, most int64, err error) {
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, context.DeadlineExceeded):
		s.Skip("it takes long", "the model with weights of 8 bits")
	case err == nil && q.After < q.Before: // else it cannot be quantized, or does not fit either
		s.Found = append(s.Found, planner.Change{Text: fmt.Sprintf("%s (weights %s → %s, %s)", s.Asked.Quantize(path),
			configs.FormatBytes(q.Before), configs.FormatBytes(q.After), fit.Takes{Bytes: most, Of: fit.InAll}.Memory())})
	}
}
