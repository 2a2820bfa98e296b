package vulkan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// launch is a launch of the schedule as the device executes it: dispatches, or a call on the CPU.
type launch struct {
	src        schedule.Launch
	dispatches []dispatch
	call       *fallback
	run        *run // the joined dispatch that begins here, or nil
	joined     bool // executed by a run
}

type dispatch struct {
	graph.Dispatch
	pipeline      *vk.Pipeline
	set           int          // index in the device's descriptor sets
	addresses     []vk.Binding // of buffers that the kernel accesses by address
	reads, writes []span
	streams       []streamed // states that come before it and go behind it
}

// limits returns the device's limits for lowering.
func (d *Device) limits() graph.Limits {
	p := d.gpu.Physical
	l := graph.Limits{Subgroup: p.Subgroup, Range: d.options.Range, Int64: p.Int64, Int8: p.Int8 && p.Storage8, Shared: d.shared, Addressed: d.takes(BufferAddresses), Far: d.gpu.Addressed,
		Invocations: p.MaxInvocations, SharedBytes: p.SharedBytes, Picker: d.options.Picker}
	if d.takes(CooperativeMatrix) {
		l.Matrices.Float16 = matrixOf(p.Matrices)
	}
	if d.takes(CooperativeBFloat16) {
		l.Matrices.BFloat16 = matrixOf(p.BFloat16Matrices)
	}
	for i, g := range p.MaxGroups {
		l.Groups[i] = int(min(g, 1<<30))
	}
	return l
}

// prepare lowers every node, and makes pipelines and descriptor sets.
func (d *Device) prepare() error {
	limits := d.limits()
	lowered := map[*graph.Node]*graph.Lowering{}
	lower := func(l schedule.Launch) (*graph.Lowering, error) {
		n := l.Node
		if lowered[n] == nil {
			low, err := graph.Lower(n, d.schedule.Binding, d.inPieces(l, limits))
			if err != nil {
				return nil, fmt.Errorf("node %q: %w", n.Name, err)
			}
			lowered[n] = low
		}
		return lowered[n], nil
	}
	var pipelines []*vk.Pipeline
	var bindings [][]vk.Binding
	for _, src := range d.schedule.Launches {
		l := launch{src: src}
		d.touch(src.In...)
		d.touch(src.Out...)
		d.touch(src.Scratch)
		for _, part := range src.Parts {
			d.touch(part.Out...)
		}
		if src.Node != nil {
			parts, err := d.apart(src, lower)
			if err != nil {
				return err
			}
			for _, part := range parts {
				if err := d.bind(&l, part, lowered[part.Node], &pipelines, &bindings); err != nil {
					return fmt.Errorf("node %q (%s) of %s: %w", part.Node.Name, part.Node.Op.FullName(), names(part), err)
				}
			}
		}
		d.launches = append(d.launches, l)
	}
	err := d.join(&pipelines, &bindings)
	if err != nil {
		return err
	}
	if err == nil {
		d.handles, d.pushed = make([]uint64, len(pipelines)), bindings
		sets := make([]laterSet, len(pipelines))
		for i, p := range pipelines {
			sets[i] = laterSet{i, p, bindings[i]}
		}
		err = d.newSets(sets)
	}
	if d.options.Poison {
		d.frees = make([][]schedule.Life, len(d.schedule.Launches)+1)
		steps := 0
		for _, l := range d.schedule.Launches {
			if l.Node != nil {
				steps++
			}
		}
		for _, l := range d.schedule.Lives {
			if int(l.Last) < steps { // the others are read after the last step
				d.frees[l.Last] = append(d.frees[l.Last], l)
			}
		}
	}
	return err
}

// apart splits a chain that has no kernel on this device into its parts, if they all have one.
func (d *Device) apart(src schedule.Launch, lower func(schedule.Launch) (*graph.Lowering, error)) ([]schedule.Launch, error) {
	low, err := lower(src)
	if err != nil || src.Parts == nil || d.unfit(low) == "" {
		return []schedule.Launch{src}, err
	}
	for _, part := range src.Parts {
		if low, err := lower(part); err != nil || d.unfit(low) != "" {
			return []schedule.Launch{src}, err
		}
	}
	return src.Parts, nil
}

// touch records how far a space is used.
func (d *Device) touch(refs ...schedule.Ref) {
	for _, r := range refs {
		if r.Value != nil || r.Bytes > 0 {
			s := &d.spaces[r.Space]
			s.used = max(s.used, r.Offset+r.Bytes)
		}
	}
}

func names(l schedule.Launch) string {
	var all []string
	for _, r := range slices.Concat(l.Out, l.In) {
		if r.Value != nil {
			all = append(all, fmt.Sprintf("%s%v", r.Value.Name, r.Shape))
		}
	}
	return strings.Join(all, ", ")
}

// bind turns a lowering into dispatches on the memory of src, or into a call on the CPU.
func (d *Device) bind(l *launch, src schedule.Launch, low *graph.Lowering, pipelines *[]*vk.Pipeline, bindings *[][]vk.Binding) error {
	if why := d.unfit(low); why != "" {
		l.call = d.newFallback(src, why)
		return nil
	}
	if low.Scratch > src.Scratch.Bytes {
		return fmt.Errorf("kernels need %d bytes of work space, but the plan has %d; plan for this device", low.Scratch, src.Scratch.Bytes)
	}
	for _, x := range low.Dispatches {
		c := dispatch{Dispatch: x, set: len(*pipelines)}
		var all []vk.Binding
		for _, b := range x.Buffers {
			s, binding := d.range_(src, b)
			if s.space == schedule.Elsewhere && s.end > s.at {
				var err error
				if s, binding, err = d.through(src, s, &c); err != nil {
					return err
				}
			}
			all = append(all, binding)
			if s.end > s.at {
				if b.Writes {
					c.writes = append(c.writes, s)
				} else {
					c.reads = append(c.reads, s)
				}
			}
		}
		bound := all
		if c.Dispatch, all = addressed(x, all); x.Kernel.Bound != nil {
			c.addresses = bound
		}
		var err error
		if c.pipeline, err = d.pipeline(c.Dispatch, len(all)); err != nil {
			return fmt.Errorf("kernel %s: %w", x.Kernel.Name, err)
		}
		*pipelines, *bindings = append(*pipelines, c.pipeline), append(*bindings, all)
		l.dispatches = append(l.dispatches, c)
		if c.streams != nil {
			d.streamed++
		}
	}
	return nil
}

// unfit is why a lowering cannot run on this device; "" if it can.
func (d *Device) unfit(low *graph.Lowering) string {
	if low.Refused != "" {
		return low.Refused
	}
	p := d.gpu.Physical
	for _, x := range low.Dispatches {
		switch {
		case len(x.Kernel.Code()) == 0:
			return fmt.Sprintf("kernel %s is not compiled", x.Kernel.Name)
		case pushBytes(x) > p.MaxPush:
			return fmt.Sprintf("kernel %s needs %d bytes of push constants, but the device has %d", x.Kernel.Name, pushBytes(x), p.MaxPush)
		case len(x.Buffers) > p.StorageBuffers:
			return fmt.Sprintf("kernel %s binds %d buffers, but the device allows %d", x.Kernel.Name, len(x.Buffers), p.StorageBuffers)
		}
		if i := low.TooFar(x); i >= 0 {
			return fmt.Sprintf("buffer %d of kernel %s has %d bytes, but the device binds at most %d", i, x.Kernel.Name, low.Seen(x.Buffers[i]), low.Limits.Range)
		}
	}
	return ""
}

// range_ returns the span and binding of a buffer of a dispatch.
func (d *Device) range_(l schedule.Launch, b graph.Buffer) (span, vk.Binding) {
	var r schedule.Ref
	switch b.Place {
	case graph.PlaceIn:
		r = l.In[b.Index]
	case graph.PlaceOut:
		r = l.Out[b.Index]
	case graph.PlaceScratch:
		r = l.Scratch
	case graph.PlaceRun:
		return span{}, vk.Binding{Block: d.run, Bytes: runBytes}
	case graph.PlaceNone:
		return span{}, d.nowhere(b.Writes)
	}
	s := span{r.Space, r.Offset + b.At, r.Offset + r.Bytes}
	if b.Bytes > 0 {
		s.end = s.at + b.Bytes
	}
	if s.end <= s.at {
		// An empty buffer is not accessed, but a binding must have some bytes.
		return span{}, d.nowhere(b.Writes)
	}
	block, at := d.spaces[s.space].locate(s.at)
	return s, vk.Binding{Block: block, At: at, Bytes: s.end - s.at}
}

// nowhere is a dummy binding: one for shaders that declare it writable, one for others, so that the
// validation layer sees no hazard between them.
func (d *Device) nowhere(written bool) vk.Binding {
	at := int64(vk.MaxAlignment)
	if written {
		at *= 2
	}
	return vk.Binding{Block: d.run, At: at, Bytes: vk.MaxAlignment}
}

// pipeline returns the pipeline of a kernel with a dispatch's constants, from a cache.
func (d *Device) pipeline(x graph.Dispatch, bindings int) (*vk.Pipeline, error) {
	push := d.takes(PushDescriptors)
	key := fmt.Sprint(x.Kernel.Name, x.Spec, bindings, len(x.Push), push)
	if p := d.context.pipelines[key]; p != nil {
		return p, nil
	}
	p, err := d.gpu.NewPipeline(x.Kernel.Code(), x.Spec, bindings, 4*len(x.Push), push)
	if err == nil {
		d.context.pipelines[key] = p
	}
	return p, err
}

// program is launches in order, recorded as lists of commands, with CPU calls in between.
type program struct {
	parts   []part
	queries *vk.Queries
	counts  Counts
}

type part struct {
	lists   []*vk.List
	batches []vk.Batch // in the place of lists where copies have lanes of their own
	first   int        // number of the last launch, or of the one that moves stand before
	call    *fallback
	out, in []int32 // what is moved
	streams int64   // bytes of states that come in and go out
	copies  bool    // it has no launch
	dies    int     // in poison mode: the launch before which live ranges end that are poisoned behind this part; 0 is none
}

// stretch is launches of a program: those in [from, to) that takes is true for, and all moves before launches in [from, moves).
type stretch struct {
	from, to, moves int
	takes           func(launch int) bool
}

// everything is a whole step.
func (d *Device) everything() stretch {
	n := len(d.launches)
	return stretch{0, n, n, func(int) bool { return true }}
}

// listLength is the most commands of one submission.
const listLength = 128

func (d *Device) record() (err error) {
	if len(d.stages.later) > 0 {
		return nil // recorded by the first step
	}
	d.whole, err = d.newProgram(d.everything(), false)
	return err
}

// programFor returns the program of a run, recorded on first use.
func (d *Device) programFor(r schedule.Run) (p *program, err error) {
	switch {
	case r.Part != schedule.Whole:
		if d.passes[r.Part] == nil {
			from, to, err := d.schedule.Between(r.Part)
			if err != nil {
				return nil, err
			}
			part := stretch{from, to, to, func(int) bool { return true }}
			if r.Part == schedule.ForwardPass {
				part.moves++ // the border itself is not run, and what makes its results may write where values leave before it
			}
			d.passes[r.Part], err = d.newProgram(part, false)
			if err != nil {
				return nil, err
			}
		}
		return d.passes[r.Part], nil
	case r.Times && !r.Accumulate:
		if d.timed == nil {
			d.timed, err = d.newProgram(d.everything(), true)
		}
		return d.timed, err
	case r.Accumulate:
		if d.partial == nil {
			part := d.everything()
			part.takes = d.taken(r)
			d.partial, err = d.newProgram(part, false)
		}
		return d.partial, err
	}
	if d.whole == nil {
		err = d.record()
	}
	return d.whole, err
}

// newProgram records a stretch of launches. In poison mode each launch is a list of its own; there, and with times, launches
// run one after the other.
func (d *Device) newProgram(some stretch, timed bool) (p *program, err error) {
	p = &program{}
	now, lanes := part{}, laned{d: d}
	defer func() {
		if err != nil {
			p.parts = append(p.parts, now, part{batches: lanes.batches})
			d.forget(p)
		}
	}()
	if timed {
		if p.queries, err = d.gpu.NewQueries(2 * len(d.launches)); err != nil {
			return p, err
		}
	}
	var h hazards
	var commands []vk.Command
	var pending []work // to be grouped
	if p.queries != nil {
		commands = append(commands, vk.Command{Kind: vk.Reset, Value: uint32(2 * len(d.launches))})
	}
	flush := func() error {
		for some := range slices.Chunk(commands, listLength) { // one launch may have many commands
			l, err := d.gpu.Record(some, p.queries)
			if err != nil {
				return err
			}
			now.lists = append(now.lists, l)
		}
		commands = commands[:0]
		return nil
	}
	inLanes := d.gpu.Laned() && d.moving() && !timed && !d.options.Poison
	// cut ends a batch of work.
	cut := func() error {
		if !inLanes {
			return nil
		}
		err := lanes.work(pending, &p.counts)
		pending, now.batches = pending[:0], lanes.batches
		return err
	}
	end := func(call *fallback) error {
		if err := cut(); err != nil {
			return err
		}
		lanes = laned{d: d}
		commands, pending = grouped(commands, pending, &p.counts), pending[:0]
		if len(commands) > 0 {
			commands = append(commands, vk.Command{Kind: vk.Barrier, Host: true})
		}
		if err := flush(); err != nil {
			return err
		}
		if len(now.lists) > 0 {
			p.counts.Submissions++
		}
		p.counts.Submissions += len(now.batches)
		if now.call = call; call != nil {
			p.counts.Calls++
		}
		p.parts = append(p.parts, now)
		now, h = part{}, hazards{}
		return nil
	}
	whole := !timed && !d.options.Poison
	// moved is the moves before a launch. Poison comes to live ranges between those that leave and those that come.
	moved := func(i int) error {
		out, in := d.moves.before(i)
		now.out, now.in = append(now.out, out...), append(now.in, in...)
		if inLanes {
			if !d.moves.cut(i) {
				return nil
			}
			return firstOf(cut(), lanes.copies(vk.Out, d.copies(out, false), &p.counts), lanes.copies(vk.Home, d.copies(in, true), &p.counts))
		}
		if whole {
			pending = append(append(pending, d.copies(out, false)...), d.copies(in, true)...)
			return nil
		}
		commands = inOrder(commands, d.copies(out, false), &h, &p.counts)
		if d.options.Poison && i < len(d.frees) && len(out)+len(d.frees[i]) > 0 {
			now.first, now.copies, now.in, now.dies = i, true, nil, i
			if err := end(nil); err != nil {
				return err
			}
			now.in = in
		}
		commands = inOrder(commands, d.copies(in, true), &h, &p.counts)
		if d.options.Poison && len(in) > 0 {
			now.first, now.copies = i, true
			return end(nil)
		}
		return nil
	}
	for i := some.from; i < some.moves; i++ {
		if err := moved(i); err != nil {
			return p, err
		}
		if i >= some.to {
			break
		}
		l := &d.launches[i]
		if !some.takes(i) || whole && l.joined && l.run == nil {
			continue
		}
		dispatches := l.dispatches
		if whole && l.run != nil {
			dispatches = []dispatch{l.run.dispatch}
		}
		now.streams += streamedBytes(dispatches)
		if now.first = i; l.call != nil {
			if err := end(l.call); err != nil {
				return p, err
			}
			continue
		}
		if inLanes && streams(l.src) {
			for k := range dispatches {
				if err := d.stream(&lanes, l, dispatches[k:k+1], cut, &pending, &p.counts); err != nil {
					return p, err
				}
			}
			continue
		}
		if whole {
			pending = append(pending, d.work(l, dispatches)...)
			continue
		}
		if p.queries != nil {
			commands = append(commands, vk.Command{Kind: vk.Barrier}, vk.Command{Kind: vk.Time, Value: uint32(2 * i)})
		}
		commands = inOrder(commands, d.work(l, dispatches), &h, &p.counts)
		if p.queries != nil {
			commands = append(commands, vk.Command{Kind: vk.Time, Value: uint32(2*i + 1)})
		}
		if len(commands) >= listLength {
			if err := flush(); err != nil {
				return p, err
			}
		}
		if d.options.Poison {
			if err := end(nil); err != nil {
				return p, err
			}
		}
	}
	if len(pending) == 0 && len(commands) == 0 && len(now.lists) == 0 && len(lanes.batches) == 0 {
		return p, nil // the last launch ended a part
	}
	return p, end(nil)
}

// work is what a launch submits: a copy, or dispatches.
func (d *Device) work(l *launch, dispatches []dispatch) (all []work) {
	if l.src.Node == nil {
		if l.src.In[0].Bytes == 0 {
			return nil
		}
		return []work{d.copy(spanOf(l.src.In[0]), spanOf(l.src.Out[0]))}
	}
	for i := range dispatches {
		x := &dispatches[i]
		c := vk.Command{Kind: vk.Dispatch, Pipeline: x.pipeline, Set: d.handles[x.set], Push: x.push()}
		if x.pipeline.Pushed() {
			c.Bindings = d.pushed[x.set]
		}
		for i, g := range x.Groups {
			c.Groups[i] = uint32(g)
		}
		for _, s := range x.streams {
			all = append(all, d.copy(s.far, s.near))
		}
		all = append(all, work{c, x.reads, x.writes})
		for _, s := range x.streams {
			all = append(all, d.copy(s.near, s.far))
		}
	}
	return all
}

func (d *Device) forget(p *program) {
	if p == nil {
		return
	}
	for _, part := range p.parts {
		for _, l := range part.lists {
			d.gpu.FreeList(l)
		}
		for _, b := range part.batches {
			d.gpu.FreeList(b.List)
		}
	}
	d.gpu.FreeQueries(p.queries)
}

// execute runs a program.
func (d *Device) execute(p *program, r schedule.Run) error {
	for i, part := range p.parts {
		check, err := d.guard(&p.parts[i])
		if err != nil {
			return err
		}
		if err := d.submitPart(part); err != nil {
			from := 0
			if i > 0 {
				from = p.parts[i-1].first + 1
			}
			d.dead = d.blame(from, part, err)
			return d.dead
		}
		d.tally(part)
		if part.call != nil {
			if err := d.callHost(part.call, r); err != nil {
				return err
			}
		}
		if err := check(); err != nil {
			return err
		}
		if err := d.end(part.dies); err != nil {
			return err
		}
	}
	return nil
}

// blame adds to an error the launches of the failed submission, with kernels and tensors: the driver
// does not report which one failed.
func (d *Device) blame(from int, p part, err error) error {
	moving := d.moves.text(p.out, p.in)
	if p.copies {
		return fmt.Errorf("%w; it was %s", err, moving)
	}
	if moving != "" {
		moving = ", and " + moving
	}
	to := p.first
	if p.call != nil {
		to-- // the last one runs on the CPU
	}
	if from >= to {
		return fmt.Errorf("%w; it was running %s%s", err, d.launchText(max(to, 0)), moving)
	}
	return fmt.Errorf("%w; it was running launches %d to %d, from %s to %s%s", err, from, to, d.launchText(from), d.launchText(to), moving)
}

// launchText describes a launch with its kernels and tensors.
func (d *Device) launchText(i int) string {
	if i >= len(d.launches) {
		return "nothing"
	}
	l := d.launches[i]
	text := d.launchName(i)
	var kernels []string
	for _, x := range l.dispatches {
		if n := len(kernels); n == 0 || kernels[n-1] != x.Kernel.Name {
			kernels = append(kernels, x.Kernel.Name)
		}
	}
	if len(kernels) > 0 {
		text = fmt.Sprintf("node %s, kernel %s", text, strings.Join(kernels, ", "))
	}
	return fmt.Sprintf("%s, on %s", text, names(l.src))
}

func (d *Device) launchName(i int) string {
	if n := d.launches[i].src.Node; n != nil {
		return fmt.Sprintf("%q (%s)", n.Name, n.Op.FullName())
	}
	return fmt.Sprintf("launch %d, a copy", i)
}

// times reads the timestamps of a timed program.
func (d *Device) times(p *program) ([]time.Duration, error) {
	out := make([]time.Duration, len(d.launches))
	if p.queries == nil {
		return out, nil
	}
	points, err := d.gpu.Times(p.queries)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if d.launches[i].call == nil {
			out[i] = points[2*i+1] - points[2*i]
		} else {
			out[i] = d.launches[i].call.took
		}
	}
	return out, nil
}
