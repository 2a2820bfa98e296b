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
	t, known, err := s.pattern(ctx, in, fetches, byAll)
	if err == nil {
		t, known, err = s.on.open(t, known, fetches, o.Inputs)
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
			if returned := s.on.shrink(); err == nil {
				r.Returned = returned
			}
		}
	}()
	if err := s.on.run(x); err != nil {
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
		} else if s.on.direct() || s.first == nil || hasPort(s.Signature.Overridable, name) { // shapes may depend on its values
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

// pattern finds or makes the pattern of a run, reading the model at a level of at most most.
func (s *Session) pattern(ctx context.Context, in map[string]*graph.Tensor, fetches []Fetch, most int) (t *pattern, known bool, err error) {
	var key strings.Builder
	key.WriteString(keyOf(in))
	for _, f := range fetches {
		fmt.Fprintf(&key, " %q", f.Name)
	}
	var first error
	if s.first != nil {
		most = min(most, byShapes) // values are not needed if the model can be read by names
	}
	cache := s.on.planned()
	for level := s.level; level <= most; level++ {
		part := s.reading(level, in)
		if t, ok := cache.get(part + key.String()); ok {
			return t, true, nil
		}
		s.begin(PlanStage, nil)
		t, err := s.planAt(ctx, level, part, in, fetches)
		if err == nil {
			t.key = part + key.String()
			cache.put(t.key, t)
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

// planAt makes a pattern of the program read at a level.
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
	return s.on.plan(ctx, p, dims, fetches)
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
	memory     cpu.Memory     // of the run, if it is on the processor
	trace      schedule.Trace // if on a device
	beside     int64          // bytes of results that are computed elsewhere and copied
	lentBefore int64          // bytes of the arena in use by other sessions that share it
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
	x.s.on.memory(x, p, m)
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

// feed finds the memory of inputs: their own, if it is aligned.
func (x *execution) feed() error {
	x.memory.Inputs = map[string][]byte{}
	for name := range x.t.read {
		from := x.in[name].Bytes
		if !isAligned(from, x.in[name].Type) {
			b, err := x.lend(int64(len(from)), ownInputs)
			if err != nil {
				return err
			}
			if !x.s.options.dry {
				copy(b, from)
			}
			x.r.CopiedIn += int64(len(from))
			from = b
		}
		x.memory.Inputs[name] = from
	}
	return nil
}

// fetch finds the memory that results are computed in.
func (x *execution) fetch() error {
	if err := x.find(); err != nil {
		return err
	}
	x.memory.Outputs = map[int64][]byte{}
	// A result can be computed in its final place unless the program reads that memory, or another
	// result has it.
	for k, place := range x.places {
		r := x.t.results[k]
		if _, taken := x.memory.Outputs[r.Offset]; taken || r.Space != schedule.Given || r.Bytes != int64(len(place)) {
			x.later = append(x.later, k)
			continue
		}
		if !isAligned(place, r.Value.Type) || x.conflicts(k, place) {
			b, err := x.lend(int64(len(place)), ownValues)
			if err != nil {
				return err
			}
			x.later = append(x.later, k)
			x.beside += int64(len(place))
			place = b
		}
		x.memory.Outputs[r.Offset] = place
	}
	return nil
}

// find finds the memory for results.
func (x *execution) find() error {
	x.places = make([][]byte, len(x.fetches))
	for k, f := range x.fetches {
		out := x.t.tensor(k)
		n := bytesOf(out)
		if f.buffered() {
			p, err := x.s.on.place(x, k)
			if err != nil {
				return err
			}
			if all := p.Buffer.Bytes(); all != nil {
				out.Bytes = all[p.At : p.At+n : p.At+n]
				x.places[k] = out.Bytes
			}
			x.r.Outputs = append(x.r.Outputs, Output{Name: f.Name, Tensor: out})
			continue
		}
		if f.OnDevice && !x.s.on.direct() {
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

// block finds the memory of values: a block for all, or none yet.
func (x *execution) block() (err error) {
	if x.s.options.Pattern {
		if x.t.height > 0 {
			x.memory.Arena, err = x.lend(x.t.height, ownValues)
		}
		return err
	}
	x.memory.Take = func(n int64, of string) ([]byte, func(), error) {
		c, err := x.s.arena.Alloc(n, of)
		if err != nil {
			return nil, nil, err
		}
		x.s.stats.fallback += n
		return c.Bytes, func() { x.s.arena.Free(c) }, nil
	}
	return nil
}

// end frees the memory of the run.
func (x *execution) end() {
	for _, c := range x.chunks {
		x.s.arena.Free(c)
	}
}
