// Package cpu is the reference device, which runs everywhere. It executes a
// schedule.Schedule: one block of memory for each space, every value at its offset,
// launches in order. Operators' Eval defines the correct result; Fast is used where it
// exists.
//
// All cores work on one launch at a time; workers spin for a while before they sleep.
// Operators compute each output element in a fixed order, so results do not depend on the
// number of workers.
//
// Poison mode is for tests: memory outside of live ranges is filled with NaN, and every
// launch works on copies between canaries, which detects reads of freed memory, writes
// beyond an output and writes to an input.
package cpu

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/stop"
)

// Options of a device.
type Options struct {
	Workers   int  // 0 is GOMAXPROCS
	Poison    bool // see the package comment
	Reference bool // run Eval even where there is a Fast
	// Workspace returns the memory that operators use outside of the spaces; nil means none.
	Workspace func() int64
	// Lent has parameters that are lent from the start, and so are not loaded; see Lend.
	Lent map[string]*graph.Tensor
	// Staged commits memory only when the first step reaches the stage that uses it (schedule.Segment).
	Staged bool
	// Loaded, if not nil, is called when weights are loaded and activations are not yet allocated.
	Loaded func()
	// Count, if not nil, is called for memory that is allocated or, with negative bytes, freed; only with Staged.
	Count func(owner string, requested, granted int64)
	// Given opens a device without memory: each run works in what it is given (schedule.Run.Memory), until Release.
	// Parameters and constants are read where Lent or the graph has them, inputs where they are.
	Given bool
	// Load is how weights are loaded; nil streams them.
	Load *loader.Planned
	// Pool runs the operators; nil is a pool of the device's own.
	Pool *Pool
	// Far opens the place of so many bytes that values are moved to, if the schedule moves any.
	Far func(bytes int64) (Far, error)
}

// Device holds the memory of one schedule and its launches, ready to run.
type Device struct {
	schedule *schedule.Schedule
	options  Options
	spaces   [schedule.Spaces][]byte
	calls    []launch
	fixed    map[string]*graph.Tensor // parameters, states, constants, inputs
	inputs   []schedule.Ref
	outputs  map[string]*graph.Tensor
	used     [schedule.Spaces]int64
	pool     *pool
	frees    [][]schedule.Life // by launch: live ranges that end with it
	ended    int               // the launch whose live ranges are to be poisoned; −1
	moves    *moves            // nil if there are none
	streams  *streams          // nil if there are none
	places   map[string]place  // of fixed
	seen     map[place][]*graph.Tensor
	lent     map[string]bool
	stages   stages
	counted  []counted
	uploaded int64
	zeroed   int64
	given    given
}

type launch struct {
	node *graph.Node
	call *graph.Call
	run  func(*graph.Call)
	src  schedule.Launch
}

// Open allocates the schedule's spaces and loads parameters and states.
func Open(s *schedule.Schedule, o Options) (*Device, error) { return open(s, o, nil) }

// Turn replaces the device by one for another schedule of the same program, which takes over its parameters and states in
// place. d is closed. After an error d no longer runs, but its parameters and states can still be read.
func (d *Device) Turn(s *schedule.Schedule, lent map[string]*graph.Tensor) (*Device, error) {
	if !s.SameStates(d.schedule) {
		return nil, errors.New("cpu: the schedules are of different programs")
	}
	if err := d.commit(schedule.UpdateStage); err != nil {
		return nil, err
	}
	for name := range d.lent {
		if at := d.places[name]; at.space == schedule.State && lent[name] == nil {
			bytes := d.fixed[name].Bytes
			d.own(name)
			copy(d.fixed[name].Bytes, bytes)
		}
	}
	for _, i := range []schedule.Space{schedule.Arena, schedule.Staging} { // before the new ones are allocated
		arena.Unmap(d.spaces[i])
		d.spaces[i] = nil
	}
	o := d.options
	o.Lent, o.Staged, o.Loaded, o.Load = lent, false, nil, nil
	next, err := open(s, o, d)
	if err != nil {
		return nil, err
	}
	d.spaces[schedule.State] = nil // owned by next now
	return next, d.Close()
}

// open is Open; it takes over the states of device from, if that is not nil.
func open(s *schedule.Schedule, o Options, from *Device) (*Device, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	d := &Device{schedule: s, options: o, ended: -1, fixed: map[string]*graph.Tensor{}, outputs: map[string]*graph.Tensor{},
		places: map[string]place{}, seen: map[place][]*graph.Tensor{}, lent: map[string]bool{}}
	defer func() {
		if d.pool != nil {
			return // opened without an error
		}
		if from != nil {
			d.spaces[schedule.State] = nil
		}
		d.Close()
	}()
	if !o.Given {
		if err := d.reserve(s, from); err != nil {
			return nil, err
		}
	}
	var ws []loader.Weight
	var places []loader.Place
	for _, r := range s.Fixed {
		x := d.tensor(r)
		d.fixed[r.Value.Name] = x
		d.places[r.Value.Name] = place{r.Space, r.Offset}
		if r.Value.Kind == graph.Input {
			d.inputs = append(d.inputs, r)
			continue
		}
		if o.Given {
			if err := d.read(r); err != nil {
				return nil, fmt.Errorf("cpu: %w", err)
			}
			continue
		}
		if y := o.Lent[r.Value.Name]; y != nil && d.Lend(r.Value.Name, y) {
			continue
		}
		if from != nil && r.Value.Ints == nil {
			continue // loaded already, and independent of dims
		}
		if r.Value.Kind == graph.State && r.Value.Data == nil {
			continue // zeros
		}
		w, err := loader.WeightOf(r.Value, s.Binding, r.Bytes)
		if err != nil {
			return nil, fmt.Errorf("cpu: %w", err)
		}
		ws, places = append(ws, w), append(places, loader.Place{In: loader.InHost(d.spaces[r.Space]), At: r.Offset, Bytes: r.Bytes})
		d.uploaded += r.Bytes
	}
	if o.Given {
		d.given.divide(s)
	} else if err := d.load(ws, places); err != nil {
		return nil, err
	}
	for i, l := range s.Launches {
		d.calls = append(d.calls, d.prepare(i, l))
	}
	for _, r := range s.Outputs {
		d.outputs[r.Value.Name] = d.tensor(r)
	}
	if at, is := s.Border(); is { // results that can be read between the passes
		for _, r := range s.Launches[at].In {
			if r.Value != nil && d.outputs[r.Value.Name] == nil {
				d.outputs[r.Value.Name] = d.tensor(r)
			}
		}
	}
	if err := d.openMoves(s); err != nil {
		return nil, err
	}
	if err := d.openStreams(s, from); err != nil {
		return nil, err
	}
	if o.Poison {
		poison(d.spaces[schedule.Arena])
		d.frees = make([][]schedule.Life, len(s.Launches)+1)
		steps := 0
		for _, l := range s.Launches {
			if l.Node != nil {
				steps++
			}
		}
		for _, l := range s.Lives {
			if int(l.Last) < steps { // the others are read after the last step
				d.frees[l.Last] = append(d.frees[l.Last], l)
			}
		}
	}
	if o.Pool != nil {
		d.pool = o.Pool.pool
	} else {
		d.pool = newPool(o.Workers)
	}
	return d, nil
}

// load loads the weights, and allocates the memory of the forward pass: after them, or before if the
// mode of loading says so.
func (d *Device) load(ws []loader.Weight, places []loader.Place) error {
	o, l := d.options, d.options.Load
	if l == nil {
		l = &loader.Planned{Options: loader.Options{Mode: loader.Streamed}}
	}
	bind := func() error {
		stage := schedule.ForwardStage
		if o.Poison {
			stage = schedule.UpdateStage
		}
		return d.commit(stage)
	}
	if l.Mode.ActivationsFirst() {
		if err := bind(); err != nil {
			return err
		}
	}
	err := l.Begin(ws, d.schedule.Arena+d.schedule.Staging, false)
	if err == nil {
		err = l.Load(loader.Host{}, ws, places)
	}
	if err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if o.Loaded != nil {
		o.Loaded()
	}
	if err := bind(); err != nil {
		return err
	}
	l.End()
	return nil
}

func (d *Device) bytes(r schedule.Ref) []byte {
	if r.Space == schedule.Elsewhere {
		return nil // while its update runs it is in the ring
	}
	end := r.Offset + r.Bytes
	d.used[r.Space] = max(d.used[r.Space], end)
	if d.options.Given {
		return nil // until a run gives it
	}
	return d.spaces[r.Space][r.Offset:end:end]
}

func (d *Device) tensor(r schedule.Ref) *graph.Tensor {
	if r.Value == nil {
		return nil
	}
	if d.options.Given && r.Space == schedule.Arena {
		return d.given.tensor(r)
	}
	x := &graph.Tensor{Type: r.Value.Type, Shape: r.Shape, Bytes: d.bytes(r)}
	d.sees(r, x)
	return x
}

// prepare binds a launch to memory once, so that Run only iterates over the launches.
func (d *Device) prepare(i int, l schedule.Launch) launch {
	if d.options.Given {
		d.given.launch(i)
	}
	c := &graph.Call{Node: l.Node, Parallel: d.parallel}
	for _, r := range l.In {
		c.In = append(c.In, d.tensor(r))
	}
	for _, r := range l.Out {
		c.Out = append(c.Out, d.tensor(r))
	}
	if l.Scratch.Bytes > 0 {
		if c.Scratch = d.bytes(l.Scratch); d.options.Given {
			d.given.scratch(c, l.Scratch)
		}
	}
	for _, part := range l.Parts {
		d.bytes(part.Out[0])
	}
	out := launch{node: l.Node, call: c, src: l}
	switch {
	case l.Node == nil:
		out.run = func(c *graph.Call) { copy(c.Out[0].Bytes, c.In[0].Bytes) }
	case l.Node.Op.Fast != nil && !d.options.Reference:
		out.run = l.Node.Op.Fast
	default:
		out.run = l.Node.Op.Eval
	}
	return out
}

// Name describes the device.
func (d *Device) Name() string {
	return fmt.Sprintf("cpu (%s, %d workers)", runtime.GOARCH, d.options.Workers)
}

// Run does one step.
func (d *Device) Run(r schedule.Run) (t schedule.Trace, err error) {
	begin := time.Now()
	from, to, err := d.schedule.Between(r.Part)
	if err != nil {
		return t, fmt.Errorf("cpu: %w", err)
	}
	if d.options.Given {
		if err := d.give(r.Memory); err != nil {
			return t, err
		}
	}
	for _, in := range d.inputs {
		if from > 0 {
			break // inputs are set by the forward pass
		}
		x := r.Inputs[in.Value.Name]
		to := d.fixed[in.Value.Name]
		switch {
		case x == nil:
			return t, fmt.Errorf("cpu: input %q is missing", in.Value.Name)
		case x.Type != to.Type || !slices.Equal(x.Shape, to.Shape):
			return t, fmt.Errorf("cpu: input %q is %s%v, but the plan is for %s%v", in.Value.Name, x.Type, x.Shape, to.Type, to.Shape)
		}
		if d.options.Given {
			d.show(d.places[in.Value.Name], x.Bytes)
		} else if !r.Lent || !d.Lend(in.Value.Name, x) {
			d.own(in.Value.Name)
			copy(to.Bytes, x.Bytes)
		}
	}
	if r.Times {
		t.Launches = make([]time.Duration, len(d.calls))
	}
	over := false
	defer func() {
		if !over { // by an error, or given up
			d.moves.settle()
			d.streams.settle()
		}
	}()
	if from == 0 {
		d.moves.begin()
		d.streams.begin()
	}
	if r.Part == schedule.BackwardPass {
		if err := d.moves.before(from-1, d.free); err != nil {
			return t, err
		}
		if err := d.seed(from-1, r.Seeds); err != nil {
			return t, err
		}
	}
	for i := from; i < to; i++ {
		l := &d.calls[i]
		stop.Poll(r.Context)
		d.pass(i, r)
		skip := r.Accumulate && l.node != nil && l.node.Phase == graph.Updating
		if !skip {
			if err := d.reach(i); err != nil {
				return t, err
			}
		}
		if err := d.moves.before(i, d.free); err != nil {
			return t, err
		}
		if skip {
			continue
		}
		if err := d.given.take(i); err != nil {
			return t, err
		}
		l.call.Seed, l.call.Step = r.Seed, r.Step
		start := time.Now()
		if err := d.launch(i, l); err != nil {
			return t, err
		}
		if r.Times {
			t.Launches[i] = time.Since(start)
		}
		d.given.drop(i)
		d.ended = i
	}
	if to == len(d.calls) {
		if err := d.streams.end(); err != nil {
			return t, err
		}
	}
	over = true
	d.pass(to, r)
	t.Took = time.Since(begin)
	t.Arena, t.State, t.Staging = d.used[schedule.Arena], d.used[schedule.State], d.used[schedule.Staging]
	if d.moves != nil {
		t.Moved = d.moves.trace
	}
	if d.streams != nil {
		t.Streamed = d.streams.trace
	}
	if d.options.Workspace != nil {
		t.Workspace = d.options.Workspace()
	}
	return t, nil
}

// free poisons memory whose live range ended with the last launch. Some of it may have been copied elsewhere since then.
func (d *Device) free() {
	if d.options.Poison && d.ended >= 0 {
		for _, f := range d.frees[d.ended+1] {
			poison(d.spaces[schedule.Arena][f.Offset : f.Offset+f.Bytes])
		}
	}
	d.ended = -1
}

// seed stores the user's gradients in the outputs of the border, the node between the passes; missing
// ones are 0.
func (d *Device) seed(border int, seeds []*graph.Tensor) error {
	for k, to := range d.calls[border].call.Out {
		switch {
		case to == nil:
		case k >= len(seeds) || seeds[k] == nil:
			clear(to.Bytes)
		case seeds[k].Type != to.Type || !slices.Equal(seeds[k].Shape, to.Shape):
			return fmt.Errorf("cpu: gradient %d of the results is %s%v, not %s%v", k, seeds[k].Type, seeds[k].Shape, to.Type, to.Shape)
		default:
			copy(to.Bytes, seeds[k].Bytes)
		}
	}
	d.ended = border
	return nil
}

// launch runs one call. A failure inside, such as an index out of range, becomes an error that names
// the node.
func (d *Device) launch(i int, l *launch) (err error) {
	if d.given.Dry {
		return nil
	}
	run := func() { l.run(l.call) }
	if d.options.Poison && l.node != nil {
		run = func() { err = d.guarded(l) }
	}
	if d.streams != nil {
		if _, is := d.streams.of[i]; is {
			run = func() { err = d.streams.update(i, l) }
		}
	}
	if failed := graph.Try(run); failed != nil {
		if err = failed; !d.options.Given { // else the caller says where it ran
			err = fmt.Errorf("cpu: %w", failed)
		}
	}
	return err
}

// Output returns a copy of a graph output after a step.
func (d *Device) Output(name string) (*graph.Tensor, error) {
	x := d.outputs[name]
	if x == nil {
		return nil, fmt.Errorf("cpu: %q is not an output", name)
	}
	return clone(x), nil
}

// State returns a copy of a parameter, constant or optimizer state.
func (d *Device) State(name string) (*graph.Tensor, error) {
	x := d.fixed[name]
	if x == nil {
		return nil, fmt.Errorf("cpu: no state is named %q", name)
	}
	if err := d.there(name); err != nil {
		return nil, err
	}
	if from := d.elsewhere(name); from != nil {
		y := graph.NewTensor(x.Type, x.Shape...)
		_, err := io.ReadFull(from, y.Bytes)
		return y, err
	}
	return clone(x), nil
}

// WriteOutput writes the bytes of a graph output after a step, without copying them first.
func (d *Device) WriteOutput(w io.Writer, name string) error { return write(w, d.outputs[name], name) }

// WriteState writes the bytes of a parameter, constant or optimizer state, without copying them first.
func (d *Device) WriteState(w io.Writer, name string) error {
	if err := d.there(name); err != nil {
		return err
	}
	if from := d.elsewhere(name); from != nil {
		_, err := io.Copy(w, from)
		return err
	}
	return write(w, d.fixed[name], name)
}

func write(w io.Writer, x *graph.Tensor, name string) error {
	if x == nil {
		return fmt.Errorf("no output or state is named %q", name)
	}
	_, err := w.Write(x.Bytes)
	return err
}

// SetState replaces a parameter or optimizer state.
func (d *Device) SetState(name string, x *graph.Tensor) error {
	to := d.fixed[name]
	switch {
	case to == nil:
		return fmt.Errorf("cpu: no state is named %q", name)
	case x.Type != to.Type || !slices.Equal(x.Shape, to.Shape):
		return fmt.Errorf("cpu: state %q is %s%v, not %s%v", name, to.Type, to.Shape, x.Type, x.Shape)
	}
	if err := d.there(name); err != nil {
		return err
	}
	d.uploaded += int64(len(x.Bytes))
	if at := d.places[name]; at.space == schedule.Elsewhere {
		d.streams.forget()
		_, err := d.streams.far.WriteAt(x.Bytes, at.offset)
		return err
	}
	d.own(name)
	copy(to.Bytes, x.Bytes)
	return nil
}

func clone(x *graph.Tensor) *graph.Tensor {
	c := graph.NewTensor(x.Type, x.Shape...)
	copy(c.Bytes, x.Bytes)
	return c
}

// Close releases the memory.
func (d *Device) Close() error {
	if d.pool != nil && d.options.Pool == nil {
		d.pool.dismiss()
	}
	err := errors.Join(d.moves.close(), d.streams.close())
	for _, b := range d.spaces {
		arena.Unmap(b)
	}
	for _, c := range d.counted {
		if d.options.Count != nil {
			d.options.Count(c.owner, -c.requested, -c.granted)
		}
	}
	d.counted = nil
	d.spaces, d.calls, d.fixed, d.outputs, d.seen, d.moves, d.streams = [schedule.Spaces][]byte{}, nil, nil, nil, nil, nil, nil
	return err
}

func (d *Device) parallel(n, grain int, f func(lo, hi int)) { d.pool.run(n, grain, f) }
