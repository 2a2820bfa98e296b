package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/kernels/cpu"
)

// Fetch is a result to compute.
type Fetch struct {
	Name string
	// Place, if not nil, returns the memory for it, before anything runs. If Place or its result is
	// nil, the session keeps it.
	Place func(x *graph.Tensor, bytes int64) ([]byte, error)
	// OnDevice leaves it on a device with its own memory until it is read. Place is not called.
	OnDevice bool
	// Bound returns a place in a buffer to compute it into instead.
	Bound func(x *graph.Tensor, bytes int64) (Place, error)
	// Slot is a slot to allocate a buffer of its size in.
	Slot *Slot
}

// buffered reports whether the result goes to a buffer.
func (f *Fetch) buffered() bool { return f.Bound != nil || f.Slot != nil }

// place is the result's place in a buffer.
func (f *Fetch) place(s *Session, x *graph.Tensor) (p Place, err error) {
	n := bytesOf(x)
	if f.Slot != nil {
		p, err = f.Slot.place(s, n)
	} else if p, err = f.Bound(x, n); err == nil {
		err = p.within(n)
	}
	if err != nil {
		return p, fmt.Errorf("output %q: %w", f.Name, err)
	}
	return p, nil
}

// RunOptions are the options of one run.
type RunOptions struct {
	Shrink bool // shrink the arena at the end
	// Same names inputs with the values of the last run, which need not be copied to the device
	// again.
	Same map[string]bool
	// Inputs is the places of inputs that are read in place. Their tensors have a type and a shape
	// only.
	Inputs map[string]Place
}

// Result is the result of a run.
type Result struct {
	Outputs []Output
	Took    time.Duration
	// CopiedIn and CopiedOut are the bytes copied because they could not be used in place.
	CopiedIn, CopiedOut int64
	Copies              []string // why bound memory was copied
	Known               bool     // the pattern was in the cache
	Height              int64    // of the pattern's block; 0: none
	Bound               int64    // most bytes alive at once
	Returned            int64    // bytes freed by shrinking
	Promised, Measured  Memory
	Device              string
}

// Memory is the bytes that a run takes.
type Memory struct {
	Weights int64 `json:"weights"`
	Values  int64 `json:"values"`  // most in the arena at once
	Inputs  int64 `json:"inputs"`  // copies of inputs
	Results int64 `json:"results"` // kept by the session
	Total   int64 `json:"total"`
}

// Output is one result.
type Output struct {
	Name string
	*graph.Tensor
	Kept bool // kept by the session until the next run
}

var errClosed = errors.New("the session is closed")

// Run runs the program. No fetches mean all outputs.
func (s *Session) Run(ctx context.Context, in map[string]*graph.Tensor, fetches []Fetch, o RunOptions) (*Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return stop.When(ctx, func() (*Result, error) { return s.run(ctx, in, fetches, o) })
}

func (s *Session) run(ctx context.Context, in map[string]*graph.Tensor, fetches []Fetch, o RunOptions) (r *Result, err error) {
	defer weights.Guard(&err)()
	begin := time.Now()
	in, copied, err := s.show(in, o.Inputs)
	if err != nil {
		return nil, err
	}
	if err := s.checkInputs(in, o.Inputs); err != nil {
		return nil, err
	}
	if len(fetches) == 0 {
		for _, p := range s.Signature.Outputs {
			fetches = append(fetches, Fetch{Name: p.Name})
		}
	}
	for _, f := range fetches {
		if !hasPort(s.Signature.Outputs, f.Name) {
			return nil, fmt.Errorf("the model has no output %q; it has %s", f.Name, names(portNames(s.Signature.Outputs)))
		}
	}
	s.release()
	s.tidy()
	t, known, err := s.planned(ctx, in, fetches, byAll)
	if err == nil {
		t, known, err = s.ready(t, fetches, o.Inputs)
	}
	if err != nil {
		return nil, err
	}
	r = &Result{Device: s.Device(), Known: known, Height: t.height, Bound: t.bound, CopiedIn: copied}
	x := &execution{s: s, t: t, lentBefore: s.arena.Mark(), same: o.Same, ctx: ctx, in: in, fetches: fetches, r: r}
	defer func() {
		x.end()
		if err != nil {
			s.release()
		}
		if o.Shrink {
			if returned := s.shrink(); err == nil {
				r.Returned = returned
			}
		}
	}()
	if err := x.run(); err != nil {
		return nil, err
	}
	if !s.copies {
		if err := t.p.source.Intact(); err != nil {
			return nil, err
		}
	}
	x.tell()
	s.runs++
	s.promised, s.measured = r.Promised, r.Measured
	s.stats.copiedIn += r.CopiedIn
	s.stats.copiedOut += r.CopiedOut
	r.Took = time.Since(begin)
	return r, nil
}

// show sets the bytes of bound inputs if the processor can address them or needs their values, and
// returns the bytes copied for that.
func (s *Session) show(in map[string]*graph.Tensor, places map[string]Place) (map[string]*graph.Tensor, int64, error) {
	if len(places) == 0 {
		return in, 0, nil
	}
	in = maps.Clone(in)
	copied := int64(0)
	for name, p := range places {
		x := in[name]
		if x == nil {
			return nil, 0, fmt.Errorf("input %q is bound without a type and a shape", name)
		}
		n, err := sizeOf(x)
		if err == nil {
			err = p.within(n)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("input %q: %w", name, err)
		}
		y := &graph.Tensor{Type: x.Type, Shape: x.Shape}
		if all := p.Buffer.Bytes(); all != nil {
			y.Bytes = all[p.At : p.At+n : p.At+n]
		} else if s.direct || s.first == nil || hasPort(s.Signature.Overridable, name) { // shapes may depend on its values
			y.Bytes = make([]byte, n)
			if err := p.Buffer.ReadAt(y.Bytes, p.At); err != nil {
				return nil, 0, fmt.Errorf("input %q: %w", name, err)
			}
			copied += n
		}
		in[name] = y
	}
	return in, copied, nil
}

// sizeOf is the bytes of a tensor.
func sizeOf(x *graph.Tensor) (int64, error) {
	n := x.Type.Size()
	for _, d := range x.Shape {
		if d < 0 {
			return 0, fmt.Errorf("it is %s%v, which has a negative size", x.Type, x.Shape)
		}
		high, low := bits.Mul64(uint64(n), uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("%s%v is larger than any memory", x.Type, x.Shape)
		}
		n = int64(low)
	}
	return n, nil
}

// checkInputs checks inputs against the model.
func (s *Session) checkInputs(in map[string]*graph.Tensor, bound map[string]Place) error {
	if err := s.checkShapes(in); err != nil {
		return err
	}
	for name, x := range in {
		if _, is := bound[name]; is {
			continue
		}
		if int64(len(x.Bytes)) != int64(x.Len())*x.Type.Size() {
			return fmt.Errorf("input %q is %s%v and has %d bytes", name, x.Type, x.Shape, len(x.Bytes))
		}
	}
	return nil
}

// checkShapes is checkInputs for inputs without bytes.
func (s *Session) checkShapes(in map[string]*graph.Tensor) error {
	var missing []string
	for _, p := range s.Signature.Inputs {
		x := in[p.Name]
		switch {
		case x == nil:
			missing = append(missing, p.Name)
		case !p.Of.Valid():
			return fmt.Errorf("input %q is %s, which is not supported", p.Name, p.Type)
		case x.Type != p.Of:
			return fmt.Errorf("input %q is %s, but the model takes %s", p.Name, x.Type, p.Of)
		case p.Ranked && len(x.Shape) != len(p.Shape):
			return fmt.Errorf("input %q has %d dims, but the model takes %d: %s[%s]", p.Name, len(x.Shape), len(p.Shape), p.Of, strings.Join(p.Shape, ", "))
		case slices.ContainsFunc(x.Shape, func(n int) bool { return n < 0 }):
			return fmt.Errorf("input %q is %s%v, which has a negative size", p.Name, x.Type, x.Shape)
		}
		for i, d := range p.Shape {
			if x != nil && d != "" && d[0] >= '0' && d[0] <= '9' && d != fmt.Sprint(x.Shape[i]) {
				return fmt.Errorf("input %q is %s%v, but dim %d is %s in the model", p.Name, x.Type, x.Shape, i, d)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("inputs are missing: %s", names(missing))
	}
	for name, x := range in {
		if i := slices.IndexFunc(s.Signature.Overridable, func(p onnx.Port) bool { return p.Name == name }); i >= 0 {
			if p := s.Signature.Overridable[i]; x.Type != p.Of {
				return fmt.Errorf("input %q is %s, but the model takes %s", name, x.Type, p.Of)
			}
			continue
		}
		if !hasPort(s.Signature.Inputs, name) {
			return fmt.Errorf("the model has no input %q; it has %s", name, names(portNames(s.Signature.Inputs)))
		}
	}
	return nil
}

// planned finds or makes the plan of a run, reading the model at a level of at most most.
func (s *Session) planned(ctx context.Context, in map[string]*graph.Tensor, fetches []Fetch, most int) (t *pattern, known bool, err error) {
	var key strings.Builder
	key.WriteString(keyOf(in))
	for _, f := range fetches {
		fmt.Fprintf(&key, " %q", f.Name)
	}
	var first error
	if s.first != nil {
		most = min(most, byShapes) // values are not needed if the model can be read by names
	}
	for level := s.level; level <= most; level++ {
		part := s.reading(level, in)
		if t, ok := s.plans.get(part + key.String()); ok {
			return t, true, nil
		}
		s.begin(PlanStage, nil)
		t, err := s.planAt(ctx, level, part, in, fetches)
		if err == nil {
			t.key = part + key.String()
			s.plans.put(t.key, t)
			return t, false, nil
		}
		var short *arena.OutOfMemory
		var changed *weights.ChangedError
		if errors.As(err, &short) || errors.As(err, &changed) {
			return nil, false, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, false, first
}

// planAt makes a plan of the program read at a level.
func (s *Session) planAt(ctx context.Context, level int, part string, in map[string]*graph.Tensor, fetches []Fetch) (*pattern, error) {
	p := s.first
	if part != "" {
		var ok bool
		if p, ok = s.programs.get(part); !ok {
			var err error
			if p, err = s.read(ctx, level, in); err != nil {
				return nil, err
			}
			s.programs.put(part, p)
		}
	}
	dims, err := bind(p.g, in)
	if err != nil {
		return nil, err
	}
	return s.plan(ctx, p, dims, fetches)
}

// execution is a run in progress.
type execution struct {
	s          *Session
	t          *pattern
	ctx        context.Context
	in         map[string]*graph.Tensor
	same       map[string]bool
	fetches    []Fetch
	r          *Result
	chunks     []*arena.Chunk // freed at the end
	places     [][]byte       // by result
	later      []int          // results that are copied at the end
	trace      schedule.Trace // of a device with its own memory
	beside     int64          // bytes of results that are computed elsewhere and copied
	lentBefore int64          // bytes of the arena in use by other sessions that share it
}

// run runs the pattern, and copies results that could not be computed in their final place.
func (x *execution) run() (err error) {
	s, t := x.s, x.t
	run := schedule.Run{Inputs: x.in, Seed: s.options.Seed, Step: s.runs, Context: x.ctx}
	if s.direct {
		s.begin(BindStage, func() (int64, int64) {
			stay, pass := x.takes()
			return stay + pass, 0
		})
		if run.Inputs, err = x.feed(); err == nil {
			run.Memory, err = x.lendAll()
		}
		defer func() { t.device.(*cpu.Device).Release() }()
	} else {
		run.Same, err = x.unchanged(), x.find()
	}
	if err != nil {
		return err
	}
	s.begin(RunStage, func() (int64, int64) {
		_, pass := x.takes()
		return 0, pass
	})
	t.fed = false // unknown until the run has succeeded
	if x.trace, err = t.device.Run(run); err != nil || s.options.dry {
		return err
	}
	t.fed = true
	if d, is := t.device.(interface {
		Copies() (in, out int64, why []string)
	}); is {
		in, out, why := d.Copies()
		x.r.CopiedIn, x.r.CopiedOut, x.r.Copies = x.r.CopiedIn+in, x.r.CopiedOut+out, why
	}
	for _, k := range x.later {
		w := &into{x.places[k]}
		if err := t.device.WriteOutput(w, t.results[k].Value.Name); err != nil {
			return err
		}
		if len(w.rest) > 0 {
			return fmt.Errorf("output %q is %d bytes short", x.fetches[k].Name, len(w.rest))
		}
		x.r.CopiedOut += int64(len(x.places[k]))
	}
	return nil
}

// takes is the bytes that the run takes: for outputs, which stay, and for everything else that it is given.
func (x *execution) takes() (stay, pass int64) {
	s, t := x.s, x.t
	if stay = s.grows(t, x.fetches); !s.direct {
		return stay, 0
	}
	for k, f := range x.fetches {
		if !f.buffered() && f.Place == nil {
			stay += t.bytes(k)
		}
	}
	for name := range t.read {
		if in := x.in[name]; !isAligned(in.Bytes, in.Type) {
			pass += bytesOf(in)
		}
	}
	return stay, pass + s.valueBytes(t)
}

// valueBytes is the bytes of the values of a pattern that works in the arena.
func (s *Session) valueBytes(t *pattern) int64 {
	if !s.options.Pattern {
		return t.bound
	}
	return t.height
}

// unchanged is the inputs whose values are on the device already. The others, unless they are bound, are copied to it.
func (x *execution) unchanged() map[string]bool {
	same := map[string]bool{}
	for _, v := range x.t.p.g.Inputs {
		if _, bound := x.t.places.Inputs[v.Name]; bound {
			continue
		}
		if same[v.Name] = x.same[v.Name] && x.t.fed; !same[v.Name] {
			x.r.CopiedIn += int64(len(x.in[v.Name].Bytes))
		}
	}
	return same
}

// tell sets the promised and measured memory of the run.
func (x *execution) tell() {
	p, m := &x.r.Promised, &x.r.Measured
	for k, out := range x.r.Outputs {
		if out.Kept {
			p.Results += int64(len(x.places[k]))
		}
	}
	for _, k := range x.s.kept {
		if k.c != nil {
			m.Results += k.c.Size()
		}
	}
	if s, t := x.s, x.t; s.direct {
		p.Weights, m.Weights = s.copiedBytes+s.mappedBytes+t.p.owned, s.account.Owners()[ownWeights]
		p.Inputs, m.Inputs = x.r.CopiedIn, x.r.CopiedIn
		p.Values, m.Values = s.valueBytes(t)+x.beside, s.arena.Highest()-x.lentBefore-m.Results-m.Inputs
	} else {
		p.Weights, m.Weights = t.state, s.account.Owners()[ownLoaded]
		p.Inputs, m.Inputs = t.inputs, x.trace.Staging
		p.Values, m.Values = t.height, x.trace.Arena
	}
	for _, of := range []*Memory{p, m} {
		of.Total = of.Weights + of.Values + of.Inputs + of.Results
	}
}

// lend allocates memory in the arena until the end of the run.
func (x *execution) lend(n int64, owner string) ([]byte, error) {
	c, err := x.s.arena.Alloc(n, owner)
	if err != nil {
		return nil, err
	}
	x.chunks = append(x.chunks, c)
	return c.Bytes, nil
}

// feed is the inputs of a run on the processor: the caller's, or copies of those that the program reads and that are not
// aligned.
func (x *execution) feed() (map[string]*graph.Tensor, error) {
	in, copied := x.in, false
	for name := range x.t.read {
		from := in[name]
		if isAligned(from.Bytes, from.Type) {
			continue
		}
		b, err := x.lend(int64(len(from.Bytes)), ownInputs)
		if err != nil {
			return nil, err
		}
		if !x.s.options.dry {
			copy(b, from.Bytes)
		}
		x.r.CopiedIn += int64(len(from.Bytes))
		if !copied {
			in, copied = maps.Clone(in), true
		}
		in[name] = &graph.Tensor{Type: from.Type, Shape: from.Shape, Bytes: b}
	}
	return in, nil
}

// lendAll is the memory of a run on the processor: where results are computed, and a block for values, or none yet where
// they are allocated one by one.
func (x *execution) lendAll() (*schedule.Memory, error) {
	if err := x.find(); err != nil {
		return nil, err
	}
	s, m, later := x.s, &schedule.Memory{Outputs: map[int64][]byte{}, Dry: x.s.options.dry}, x.later[:0]
	// A result can be computed in its final place unless the program reads that memory, or another
	// result has it.
	for k, place := range x.places {
		r := x.t.results[k]
		if _, taken := m.Outputs[r.Offset]; taken || r.Space != schedule.Given || r.Bytes != int64(len(place)) {
			later = append(later, k)
			continue
		}
		if !isAligned(place, r.Value.Type) || x.conflicts(k, place) {
			b, err := x.lend(int64(len(place)), ownValues)
			if err != nil {
				return nil, err
			}
			later = append(later, k)
			x.beside += int64(len(place))
			place = b
		}
		m.Outputs[r.Offset] = place
	}
	x.later = later
	if !s.options.Pattern {
		m.Take = func(n int64, of string) ([]byte, func(), error) {
			c, err := s.arena.Alloc(n, of)
			if err != nil {
				return nil, nil, err
			}
			s.stats.fallback += n
			return c.Bytes, func() { s.arena.Free(c) }, nil
		}
		return m, nil
	}
	var err error
	if x.t.height > 0 {
		m.Arena, err = x.lend(x.t.height, ownValues)
	}
	return m, err
}

// find finds the memory for results. A device with its own memory copies them there, unless they stay on it.
func (x *execution) find() error {
	x.places = make([][]byte, len(x.fetches))
	for k, f := range x.fetches {
		out := x.t.tensor(k)
		n := bytesOf(out)
		if f.buffered() {
			p, is := x.t.places.Outputs[x.t.results[k].Value.Name]
			if !is {
				var err error
				if p, err = f.place(x.s, out); err != nil {
					return err
				}
				if p.Buffer.Bytes() == nil {
					return fmt.Errorf("output %q is bound to memory of a device, which the processor, where the session runs, cannot address", f.Name)
				}
			}
			if all := p.Buffer.Bytes(); all != nil {
				out.Bytes = all[p.At : p.At+n : p.At+n]
				x.places[k] = out.Bytes
			}
			x.r.Outputs = append(x.r.Outputs, Output{Name: f.Name, Tensor: out})
			continue
		}
		if f.OnDevice && !x.s.direct {
			x.s.kept[f.Name] = kept{x: out, on: x.t, of: x.t.results[k].Value.Name}
			x.r.Outputs = append(x.r.Outputs, Output{Name: f.Name, Tensor: out, Kept: true})
			continue
		}
		var at []byte
		if f.Place != nil && !f.OnDevice {
			var err error
			if at, err = f.Place(out, n); err != nil {
				return fmt.Errorf("output %q: %w", f.Name, err)
			}
			if at != nil && int64(len(at)) != n {
				return fmt.Errorf("output %q takes %d bytes, but %d were given for it", f.Name, n, len(at))
			}
		}
		place := at
		if at == nil {
			k := x.s.kept[f.Name]
			if k.c == nil {
				var c *arena.Chunk
				err := x.s.withRoom(1, func() (err error) { // keep this run's
					c, err = x.s.arena.Reserve(n, ownResults)
					return err
				})
				if err != nil {
					return err
				}
				k = kept{x: out, c: c}
				x.s.kept[f.Name] = k
			}
			place = k.c.Bytes
		}
		out.Bytes = place
		x.r.Outputs = append(x.r.Outputs, Output{Name: f.Name, Tensor: out, Kept: at == nil})
		x.places[k] = place
		x.later = append(x.later, k)
	}
	return nil
}

// conflicts reports whether a place overlaps an input, another result or a given initializer.
func (x *execution) conflicts(k int, place []byte) bool {
	for _, in := range x.in {
		if overlap(place, in.Bytes) {
			return true
		}
	}
	for _, given := range x.s.given {
		if overlap(place, given.Bytes) {
			return true
		}
	}
	for j, other := range x.places {
		if j != k && overlap(place, other) {
			return true
		}
	}
	return false
}

// end frees the memory of the run.
func (x *execution) end() {
	for _, c := range x.chunks {
		x.s.arena.Free(c)
	}
}
