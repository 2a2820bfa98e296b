package vulkan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"

	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/kernels/cpu"
	"memopt/kernels/vulkan/vk"
)

// Options of a device.
type Options struct {
	// Poison is for tests: memory outside of live ranges is filled with NaN, every launch is
	// submitted alone, and writes outside of its outputs and work space are errors.
	Poison bool
	// Timeout limits each submission: a step, or the part between two launches on the CPU;
	// 0 is ten minutes.
	Timeout time.Duration
	// Groups is how workgroups of large kernels work: GroupsShared or GroupsAlone. "" uses
	// MEMOPT_VULKAN_GROUPS, or else the default of the kind of device.
	Groups string
	// Picker decides between variants of kernels with the same bits; nil takes those that a model of
	// the device expects to be fastest.
	Picker *graph.Picker
	// Tune is the folder of what was measured of kernels, which then decides, and where what was not is measured and kept;
	// "" does neither.
	Tune string
	// FastPaths lists the fast paths to use, or is auto or none; see FastPaths.
	FastPaths []string
	// Faults is for tests: see vk.Device.
	Faults func(call string) int32
	// Hidden is for tests: device memory is treated as not host-visible, so all transfers go
	// through a staging block. MEMOPT_VULKAN_HIDDEN does the same.
	Hidden bool
	// Range is for tests: a lower limit on the bytes of a descriptor.
	Range int64

	// Staged allocates memory only when the first step reaches the stage that uses it (schedule.Segment).
	Staged bool
	// Load is how weights are loaded; nil streams them.
	Load *loader.Planned
	// Loaded, if not nil, is called when weights are loaded; activations are not yet allocated, unless
	// the mode of loading has them come first.
	Loaded func()
	// Count, if not nil, is called for memory that is allocated or, with negative bytes, freed.
	Count func(owner string, requested, granted int64)

	// Arena is the least size of the arena, for devices of other schedules that will share it (With).
	Arena int64

	// Context is a shared context; nil opens one for this device alone.
	Context *Context
	// Places has the places of bound inputs and outputs.
	Places Places

	proving bool // this device only verifies a fast path of another
}

// runBytes is the size of the block with the values that change with each run.
const runBytes = graph.RunBytes

// Device holds the memory of one schedule and its recorded commands.
type Device struct {
	name     string
	schedule *schedule.Schedule
	options  Options
	context  *Context
	gpu      *vk.Device // the context's; nil once the device is closed
	spaces   [spaces]space
	spans    [spaces][]span  // of values in the spaces, until blocks are allocated
	run      *vk.Block       // seed and step
	bounce   *vk.Block       // staging block; nil if all memory is host-visible
	tables   *vk.Block       // of joined launches; nil if none are
	shared   bool            // kernels use workgroup shared memory
	paths    map[string]bool // the fast paths in use
	unproved []string        // warnings about fast paths that failed verification, and about measuring
	tuned    *Tuning
	memory   Memory
	pool     *cpu.Pool // for launches that run on the CPU; nil if there are none

	launches []launch
	sets     []*vk.Sets
	handles  []uint64       // of the sets; 0 where bindings are pushed
	pushed   [][]vk.Binding // of all dispatches, in the place of sets
	stages   stages
	moves    moves
	streamed int                           // pieces of updates whose states stream
	whole    *program                      // every launch
	partial  *program                      // without the updates; nil until it is needed
	timed    *program                      // every launch, with timestamps
	passes   [schedule.Ending + 1]*program // by planner.Part; nil until it is needed
	frees    [][]schedule.Life
	copied   []copied // bound inputs and outputs that are copied
	bound    []piece  // inputs that are read where they are bound
	staging  int64    // bytes of the other inputs

	fixed   map[string]schedule.Ref
	inputs  []schedule.Ref
	outputs map[string]schedule.Ref
	varying []schedule.Ref // constants that depend on the schedule's dims
	common  *common
	dead    error // of the step that failed
}

// common is shared by devices made from one another by With: the memory of parameters and constants.
type common struct {
	devices int
	last    *Device           // the device whose varying constants are stored now
	arenas  map[*vk.Block]int // number of devices that use it
	shared  sharedWeights     // also shared with programs of other models
}

// ArenaBytes is the largest arena of a schedule that With can place in this device's arena; 0 if none can.
func (d *Device) ArenaBytes() int64 {
	if blocks := d.spaces[schedule.Arena].own; len(blocks) == 1 {
		return blocks[0].Bytes
	}
	return 0
}

// With makes a device for another schedule of the same program. Both share parameters and constants, and the arena unless
// one of arena bytes is asked for, until both are closed. Only one may run at a time, and its outputs must be read before
// the other runs.
func (d *Device) With(s *schedule.Schedule, arena int64, places Places) (*Device, error) {
	if !s.SameStates(d.schedule) {
		return nil, fmt.Errorf("vulkan: the schedules are of different programs")
	}
	d.context.hold()
	d.context.mu.Lock()
	o, err := d.with(s, arena, places)
	d.context.mu.Unlock()
	if err != nil {
		d.context.Close()
	}
	return o, err
}

func (d *Device) with(s *schedule.Schedule, arena int64, places Places) (*Device, error) {
	if err := d.come(schedule.UpdateStage); err != nil {
		return nil, err
	}
	o := &Device{name: d.name, schedule: s, options: d.options, context: d.context, gpu: d.gpu, shared: d.shared, paths: d.paths, unproved: d.unproved,
		fixed: map[string]schedule.Ref{}, outputs: map[string]schedule.Ref{}, common: d.common}
	o.options.Staged, o.options.Loaded, o.options.Load = false, nil, nil
	for _, i := range []schedule.Space{schedule.State, schedule.Elsewhere} {
		o.spaces[i] = d.spaces[i]
	}
	o.options.Places, o.options.Arena = places, arena
	o.common.devices++
	if err := o.make(o.place); err != nil {
		return nil, err
	}
	if arena == 0 {
		if d.ArenaBytes() < o.schedule.Arena {
			o.close()
			return nil, fmt.Errorf("vulkan: the schedule's arena of %d bytes does not fit one of %d", o.schedule.Arena, d.ArenaBytes())
		}
		o.spaces[schedule.Arena] = d.spaces[schedule.Arena]
		o.spaces[schedule.Arena].used = 0
		o.common.arenas[o.spaces[schedule.Arena].own[0]]++
	}
	if o.gpu.Physical.Addresses && o.farthest() > o.options.Range && !o.gpu.Addressed {
		o.close()
		return nil, fmt.Errorf("vulkan: the schedule needs buffer addresses, but the device was opened without them")
	}
	return o, o.make(o.stage, o.allocate, o.load, o.prepare, o.record)
}

// Turn replaces the device by one for another schedule of the same program, which takes over its parameters and states. d is
// closed. After an error d no longer runs, but its parameters and states can still be read.
func (d *Device) Turn(s *schedule.Schedule) (*Device, error) {
	if !s.SameStates(d.schedule) {
		return nil, errors.New("vulkan: the schedules are of different programs")
	}
	arena := int64(0)
	if d.ArenaBytes() < s.Arena {
		arena = s.Arena
	}
	d.context.mu.Lock()
	if arena > 0 {
		d.free(schedule.Arena) // before the new one is allocated
	}
	d.free(schedule.Staging)
	d.free(away)
	d.context.mu.Unlock()
	next, err := d.With(s, arena, d.options.Places)
	if err != nil {
		return nil, err
	}
	return next, d.Close()
}

// make runs the steps of opening; on an error it closes the device.
func (d *Device) make(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			name := d.gpu.Physical.Name
			err = d.short(err)
			d.close()
			return fmt.Errorf("vulkan: %s: %w", name, err)
		}
	}
	d.ask() // start of the driver's peak
	return nil
}

// Open prepares a device for a schedule: memory, parameters and states, pipelines and recorded
// commands.
func Open(s *schedule.Schedule, p *vk.Physical, o Options) (*Device, error) {
	c := o.Context
	if c != nil {
		if err := c.refused(); err != nil {
			return nil, err
		}
		c.hold()
	} else {
		var err error
		if c, err = newContext(p); err != nil {
			return nil, err
		}
		c.gpu.Faults, c.gpu.Hidden = o.Faults, c.gpu.Hidden || o.Hidden
	}
	c.mu.Lock()
	d, err := openIn(c, s, o)
	c.mu.Unlock()
	if err != nil {
		c.Close()
	}
	return d, err
}

// openIn is Open in a context.
func openIn(c *Context, s *schedule.Schedule, o Options) (*Device, error) {
	p := c.gpu.Physical
	if o.Range == 0 {
		o.Range = int64(p.MaxRange)
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	d := &Device{name: c.name, schedule: s, options: o, context: c, gpu: c.gpu, fixed: map[string]schedule.Ref{}, outputs: map[string]schedule.Ref{}, common: &common{devices: 1, arenas: map[*vk.Block]int{}}}
	var err error
	if d.shared, err = sharesMemory(o.Groups, p); err == nil {
		err = d.choosePaths(p)
	}
	if err == nil && o.Context != nil && d.takes(BufferAddresses) && !c.gpu.Addressed {
		err = fmt.Errorf("fast path %s is not available in a shared context that was opened without it", BufferAddresses)
	}
	if err != nil {
		d.close()
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	if o.Context == nil {
		c.gpu.Addressed = d.takes(BufferAddresses) || p.Addresses && d.farthest() > o.Range
		if d.takes(CopyQueues) && d.moving() {
			if err := c.gpu.MakeLanes(); err != nil {
				d.close()
				return nil, fmt.Errorf("vulkan: %w", err)
			}
		}
	}
	if err := d.make(d.prove, d.tune, d.place, d.stage, d.allocate, d.load, d.prepare, d.record); err != nil {
		return nil, err
	}
	return d, nil
}

// pages is implemented by mapped data, whose file pages can be released after they are copied.
type pages interface{ ReleasePages() }

// load copies parameters, constants and states to their places, and allocates what the forward pass needs.
func (d *Device) load() error {
	var refs []schedule.Ref
	first := d.common.last == nil // else another device has loaded what does not vary
	if first {
		for _, i := range []schedule.Space{schedule.State, schedule.Elsewhere} {
			if err := d.fill(i); err != nil {
				return err
			}
		}
	}
	for _, r := range d.schedule.Fixed {
		d.fixed[r.Value.Name] = r
		d.touch(r)
		if r.Value.Kind == graph.Input {
			if _, elsewhere := d.options.Places.Inputs[r.Value.Name]; !elsewhere {
				d.inputs = append(d.inputs, r)
			}
			continue
		}
		if r.Value.Kind == graph.State && r.Value.Data == nil {
			continue // zeros
		}
		if r.Value.Data == nil {
			d.varying = append(d.varying, r)
		} else if !first {
			continue
		}
		if d.common.shared.loaded(r) {
			continue
		}
		refs = append(refs, r)
	}
	if err := d.upload(refs); err != nil {
		return err
	}
	d.common.last = d
	for _, r := range d.schedule.Outputs {
		d.outputs[r.Value.Name] = r
	}
	if at, is := d.schedule.Border(); is { // results that can be read between the passes
		for _, r := range d.schedule.Launches[at].In {
			if r.Value == nil {
				continue
			}
			if _, known := d.outputs[r.Value.Name]; !known {
				d.outputs[r.Value.Name] = r
			}
		}
	}
	return nil
}

// Name describes the device, also after Close.
func (d *Device) Name() string { return d.name }

// vary loads the constants that depend on the schedule's dims, if another device's are stored.
func (d *Device) vary() error {
	if d.common.last == d {
		return nil
	}
	for _, r := range d.varying {
		x, err := r.Value.Tensor(d.schedule.Binding)
		if err != nil {
			return err
		}
		if err := d.write(spanOf(r), x.Bytes); err != nil {
			return err
		}
	}
	d.common.last = d
	return nil
}

// Run does one step.
func (d *Device) Run(r schedule.Run) (t schedule.Trace, err error) {
	d.context.mu.Lock()
	defer d.context.mu.Unlock()
	if err := d.refused(); err != nil {
		return t, fmt.Errorf("vulkan: %w", err)
	}
	begin := time.Now()
	d.moves.moved, d.moves.states = 0, 0
	if err := d.vary(); err != nil {
		return t, fmt.Errorf("vulkan: %w", err)
	}
	if r.Part == schedule.BackwardPass {
		if err := d.seed(r.Seeds); err != nil {
			return t, fmt.Errorf("vulkan: %w", err)
		}
	}
	for _, in := range d.inputs {
		if r.Part == schedule.BackwardPass || r.Part == schedule.Ending {
			break // inputs are set by the forward pass
		}
		x := r.Inputs[in.Value.Name]
		switch {
		case x == nil:
			return t, fmt.Errorf("vulkan: input %q is missing", in.Value.Name)
		case x.Type != in.Value.Type || !slices.Equal(x.Shape, in.Shape):
			return t, fmt.Errorf("vulkan: input %q is %s%v, but the plan is for %s%v", in.Value.Name, x.Type, x.Shape, in.Value.Type, in.Shape)
		}
		if r.Same[in.Value.Name] {
			continue
		}
		if err := d.write(spanOf(in), x.Bytes); err != nil {
			return t, fmt.Errorf("vulkan: input %q: %w", in.Value.Name, err)
		}
	}
	if err := d.copyBound(true); err != nil {
		return t, fmt.Errorf("vulkan: %w", err)
	}
	to := unsafe.Slice((*byte)(d.run.Mapped()), runBytes)
	binary.LittleEndian.PutUint64(to, r.Seed)
	binary.LittleEndian.PutUint64(to[8:], r.Step)
	p, err := d.step(r)
	if err != nil {
		return t, fmt.Errorf("vulkan: %w", err)
	}
	if err := d.copyBound(false); err != nil {
		return t, fmt.Errorf("vulkan: %w", err)
	}
	if r.Times {
		if t.Launches, err = d.times(p); err != nil {
			return t, fmt.Errorf("vulkan: %w", err)
		}
	}
	t.Took = time.Since(begin)
	if d.schedule.Elsewhere > 0 {
		t.Streamed = schedule.Moved{Bytes: d.moves.states, Far: d.spaces[schedule.Elsewhere].used, Waited: schedule.Unknown}
	}
	if d.moves.all != nil {
		t.Moved = schedule.Moved{Bytes: d.moves.moved, Far: d.spaces[away].used, Waited: schedule.Unknown}
	}
	t.Arena, t.State, t.Staging = d.spaces[schedule.Arena].used, d.spaces[schedule.State].used, d.spaces[schedule.Staging].used
	if len(d.options.Places.Inputs) > 0 {
		t.Staging = d.staging
	}
	return t, nil
}

// seed stores the user's gradients in the outputs of the border, the node between the passes.
func (d *Device) seed(seeds []*graph.Tensor) error {
	border, is := d.schedule.Border()
	if !is {
		return nil // reported when the program is recorded
	}
	for k, to := range d.schedule.Launches[border].Out {
		if to.Value == nil {
			continue
		}
		var bytes []byte
		switch {
		case k >= len(seeds) || seeds[k] == nil:
			bytes = make([]byte, to.Bytes)
		case seeds[k].Type != to.Value.Type || !slices.Equal(seeds[k].Shape, to.Shape):
			return fmt.Errorf("gradient %d of the results is %s%v, not %s%v", k, seeds[k].Type, seeds[k].Shape, to.Value.Type, to.Shape)
		default:
			bytes = seeds[k].Bytes
		}
		if err := d.write(spanOf(to), bytes); err != nil {
			return err
		}
	}
	return nil
}

// submit runs lists and waits. After a failure the device is unusable: memory may hold half of a
// step.
func (d *Device) submit(lists []*vk.List) error {
	return d.submitted(d.gpu.Submit(lists, d.options.Timeout))
}

// submitPart is submit for a part of a program.
func (d *Device) submitPart(p part) error {
	if p.batches == nil {
		return d.submit(p.lists)
	}
	return d.submitted(d.gpu.SubmitLanes(p.batches, d.options.Timeout))
}

func (d *Device) submitted(err error) error {
	if err != nil {
		d.dead = err
		d.context.fail(err)
	}
	return err
}

// refused returns the error of calls after a failure.
func (d *Device) refused() error {
	if d.dead == nil {
		return d.context.refused()
	}
	return fmt.Errorf("an earlier step failed, and memory may hold half of it; open the plan again and continue from a checkpoint: %w", d.dead)
}

// Output returns a copy of a graph output after a step.
func (d *Device) Output(name string) (*graph.Tensor, error) {
	r, ok := d.outputs[name]
	if !ok {
		return nil, fmt.Errorf("vulkan: %q is not an output", name)
	}
	return d.copyOf(r)
}

// State returns a copy of a parameter, constant or optimizer state.
func (d *Device) State(name string) (*graph.Tensor, error) {
	r, ok := d.fixed[name]
	if !ok {
		return nil, fmt.Errorf("vulkan: no state is named %q", name)
	}
	return d.copyOf(r)
}

// WriteOutput writes the bytes of a graph output after a step, without copying all of them first.
func (d *Device) WriteOutput(w io.Writer, name string) error {
	return d.writeTo(w, d.outputs, "output", name)
}

// WriteState writes the bytes of a parameter, constant or optimizer state, without copying all of
// them first.
func (d *Device) WriteState(w io.Writer, name string) error {
	return d.writeTo(w, d.fixed, "state", name)
}

func (d *Device) writeTo(w io.Writer, of map[string]schedule.Ref, what, name string) error {
	d.context.mu.Lock()
	defer d.context.mu.Unlock()
	r, ok := of[name]
	if !ok {
		return fmt.Errorf("no %s is named %q", what, name)
	}
	err := d.there(r)
	if err == nil {
		err = d.pieces(spanOf(r), func(b []byte) error {
			_, err := w.Write(b)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

func (d *Device) copyOf(r schedule.Ref) (*graph.Tensor, error) {
	d.context.mu.Lock()
	defer d.context.mu.Unlock()
	if err := d.there(r); err != nil {
		return nil, fmt.Errorf("vulkan: %q: %w", r.Value.Name, err)
	}
	x := graph.NewTensor(r.Value.Type, r.Shape...)
	if err := d.read(x.Bytes, spanOf(r)); err != nil {
		return nil, fmt.Errorf("vulkan: %q: %w", r.Value.Name, err)
	}
	return x, nil
}

// SetState replaces a parameter or optimizer state.
func (d *Device) SetState(name string, x *graph.Tensor) error {
	r, ok := d.fixed[name]
	switch {
	case !ok:
		return fmt.Errorf("vulkan: no state is named %q", name)
	case x.Type != r.Value.Type || !slices.Equal(x.Shape, r.Shape):
		return fmt.Errorf("vulkan: state %q is %s%v, not %s%v", name, r.Value.Type, r.Shape, x.Type, x.Shape)
	}
	d.context.mu.Lock()
	defer d.context.mu.Unlock()
	if err := d.there(r); err != nil {
		return fmt.Errorf("vulkan: state %q: %w", name, err)
	}
	if err := d.write(spanOf(r), x.Bytes); err != nil {
		return fmt.Errorf("vulkan: state %q: %w", name, err)
	}
	d.stages.uploaded += r.Bytes
	return nil
}

// free releases the memory of a space, unless another device uses it, too.
func (d *Device) free(i schedule.Space) {
	for _, b := range d.spaces[i].own {
		if i == schedule.Arena {
			if d.common.arenas[b]--; d.common.arenas[b] > 0 {
				continue
			}
			delete(d.common.arenas, b)
		}
		d.gpu.Free(b)
	}
	d.spaces[i] = space{}
}

// Close releases everything. Closing twice does nothing.
func (d *Device) Close() error {
	d.context.mu.Lock()
	closed := d.gpu == nil
	if !closed {
		d.close()
	}
	d.context.mu.Unlock()
	if !closed {
		d.context.Close()
	}
	return nil
}

// close is Close without releasing the context.
func (d *Device) close() {
	if d.gpu == nil {
		return
	}
	if d.pool != nil {
		d.pool.Close()
	}
	for _, p := range append([]*program{d.whole, d.partial, d.timed}, d.passes[:]...) {
		d.forget(p)
	}
	for _, s := range d.sets {
		d.gpu.FreeSets(s)
	}
	d.common.devices--
	for i := range d.spaces {
		if i := schedule.Space(i); (i == schedule.State || i == schedule.Elsewhere) && d.common.devices > 0 {
			continue
		}
		d.free(schedule.Space(i))
	}
	if d.common.devices == 0 {
		d.common.shared.drop()
	}
	for _, b := range []*vk.Block{d.run, d.bounce, d.tables} {
		d.gpu.Free(b)
	}
	d.forgetCounts()
	d.gpu = nil
}
