package vulkan

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// stages allocates memory when the first step reaches the stage that uses it. Until then a block has no buffer; descriptor
// sets that need it are made when it is allocated.
type stages struct {
	segments []schedule.Segment // of the schedule; nil if all memory is allocated at the start
	needs    []schedule.Stage   // by launch
	later    []laterBlock
	sets     []laterSet
	now      schedule.Stage
	counted  []counted
	uploaded int64
	zeroed   int64
	counts   Counts // of the first step
}

// laterBlock is a block that is not allocated yet.
type laterBlock struct {
	*vk.Block
	space   schedule.Space
	at, end int64
	stage   schedule.Stage
}

// laterSet is a descriptor set of which some blocks are not allocated yet.
type laterSet struct {
	set      int
	pipeline *vk.Pipeline
	bindings []vk.Binding
}

// counted is memory that was reported to Options.Count.
type counted struct {
	owner              string
	requested, granted int64
}

// Staged reports whether memory is allocated in stages. In poison mode all is allocated at the start.
func (d *Device) Staged() bool { return d.stages.segments != nil }

// stage decides whether memory is allocated in stages.
func (d *Device) stage() error {
	if d.stages.now = schedule.UpdateStage; d.options.Staged && !d.options.Poison {
		d.stages.segments, d.stages.needs, d.stages.now = d.schedule.Segments(true), d.schedule.Needs(), schedule.Loading
	}
	return nil
}

// stagesOf returns the segments of a space by stage, or the whole space if memory is not allocated in stages.
func (d *Device) stagesOf(i schedule.Space, height int64) (all []schedule.Segment) {
	for _, g := range d.stages.segments {
		if g.Space != i {
			continue
		}
		if n := len(all); n > 0 && all[n-1].Stage == g.Stage {
			all[n-1].End = g.End
			continue
		}
		all = append(all, g)
	}
	if all == nil {
		all = []schedule.Segment{{Space: i, End: height, Stage: d.stages.now}}
	}
	return all
}

// come allocates the memory of all stages up to the given one.
func (d *Device) come(stage schedule.Stage) error {
	d.stages.now = max(d.stages.now, stage)
	return d.comeThose(func(b laterBlock) bool { return b.stage <= d.stages.now })
}

// there allocates the memory of a value.
func (d *Device) there(r schedule.Ref) error {
	return d.comeThose(func(b laterBlock) bool { return b.space == r.Space && b.at <= r.Offset && r.Offset < b.end })
}

func (d *Device) comeThose(wanted func(laterBlock) bool) error {
	var left []laterBlock
	came := false
	for k, b := range d.stages.later {
		if !wanted(b) {
			left = append(left, b)
			continue
		}
		got, err := d.gpu.NewBlock(b.Bytes, vk.Near)
		if err != nil {
			d.stages.later = append(left, d.stages.later[k:]...)
			return fmt.Errorf("%s of %d bytes: %w%s", b.space, b.Bytes, err, d.largest())
		}
		*b.Block, came = *got, true
		d.took(b.space, b.Block, b.at, b.end)
		if err := d.fillWith(b.Block, 0); err != nil {
			return err
		}
	}
	if d.stages.later = left; !came || d.handles == nil {
		return nil
	}
	sets := d.stages.sets
	d.stages.sets = nil
	return d.newSets(sets)
}

// newSets makes the descriptor sets whose blocks are allocated; the others are made later.
func (d *Device) newSets(all []laterSet) error {
	var pipelines []*vk.Pipeline
	var bindings [][]vk.Binding
	var at []int
	for _, s := range all {
		if s.pipeline.Pushed() {
			continue
		}
		if slices.ContainsFunc(s.bindings, func(b vk.Binding) bool { return d.waits(b.Block) }) {
			d.stages.sets = append(d.stages.sets, s)
			continue
		}
		pipelines, bindings, at = append(pipelines, s.pipeline), append(bindings, s.bindings), append(at, s.set)
	}
	if len(pipelines) == 0 {
		return nil
	}
	sets, err := d.gpu.NewSets(pipelines, bindings)
	if err != nil {
		return err
	}
	d.sets = append(d.sets, sets)
	for i, set := range at {
		d.handles[set] = sets.Handles[i]
	}
	return nil
}

// waits reports whether a block is not allocated yet.
func (d *Device) waits(b *vk.Block) bool {
	return slices.ContainsFunc(d.stages.later, func(l laterBlock) bool { return l.Block == b })
}

// took counts an allocated block of a space.
func (d *Device) took(i schedule.Space, b *vk.Block, from, end int64) {
	if placeOf(i) == vk.Host {
		d.memory.Host += b.Granted
		d.memory.own(owners[i], b)
		return
	}
	d.memory.Requested += b.Bytes
	d.memory.Granted += b.Granted
	d.memory.own(owners[i], b)
	granted := b.Granted
	for _, g := range d.stages.segments {
		if n := min(end, g.End) - max(from, g.At); g.Space == i && n > 0 {
			d.count(g.Owner, n, granted)
			if granted = 0; i == schedule.State && g.Owner != "weights" {
				d.stages.zeroed += n
			}
		}
	}
	if d.stages.segments == nil {
		d.count([...]string{schedule.Arena: "activations", schedule.State: "weights", schedule.Staging: "staging"}[i], b.Bytes, granted)
	}
}

// tookBeside counts an allocated block outside of the spaces.
func (d *Device) tookBeside(owner string, b *vk.Block) {
	d.memory.Own += b.Granted
	d.memory.own(ownersBeside, b)
	d.count(owner, b.Bytes, b.Granted)
}

func (d *Device) count(owner string, requested, granted int64) {
	if d.options.Count != nil {
		d.stages.counted = append(d.stages.counted, counted{owner, requested, granted})
		d.options.Count(owner, requested, granted)
	}
}

// forgetCounts reports all counted memory as freed.
func (d *Device) forgetCounts() {
	for _, c := range d.stages.counted {
		d.options.Count(c.owner, -c.requested, -c.granted)
	}
	d.stages.counted = nil
}

// Filled returns the bytes copied to parameters, constants and states, and the bytes of states that the device filled with
// zeros.
func (d *Device) Filled() (uploaded, zeroed int64) { return d.stages.uploaded, d.stages.zeroed }

// Unified reports whether the device shares the host's memory.
func (d *Device) Unified() bool { return d.gpu.Physical.Unified() }

// Driver returns the heap usage and budget of this process as the driver reports them.
func (d *Device) Driver() (usage, budget int64, ok bool) {
	return driver(d.gpu)
}

func driver(gpu *vk.Device) (usage, budget int64, ok bool) {
	if gpu == nil {
		return 0, 0, false
	}
	h := gpu.Heap(vk.Near)
	return int64(min(h.Usage, 1<<62)), int64(min(h.Budget, 1<<62)), h.Budget > 0
}

// taken returns whether a run executes a launch.
func (d *Device) taken(r schedule.Run) func(launch int) bool {
	return func(i int) bool {
		n := d.launches[i].src.Node
		return !r.Accumulate || n == nil || n.Phase != graph.Updating
	}
}

// first executes a run whose memory is not fully allocated, or that reports the ends of passes: part by part, allocating
// what each needs.
func (d *Device) first(r schedule.Run) error {
	d.stages.counts = Counts{}
	begin, end, launches := d.schedule.BackwardBegin(), d.schedule.BackwardEnd(), len(d.launches)
	takes := d.taken(r)
	borders := []int{0, begin, end, launches}
	if d.stages.needs != nil {
		for i := range launches {
			if takes(i) && d.stages.needs[i] > schedule.BackwardStage {
				borders = append(borders, i)
				break
			}
		}
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	for k, from := range borders {
		if r.At != nil && from == begin {
			r.At(schedule.ForwardOver)
		}
		if r.At != nil && from == end {
			r.At(schedule.BackwardOver)
		}
		if from == launches {
			break
		}
		need := schedule.ForwardStage
		for i := from; i < borders[k+1]; i++ {
			if d.stages.needs != nil && takes(i) {
				need = max(need, d.stages.needs[i])
			}
		}
		if err := d.come(need); err != nil {
			return err
		}
		p, err := d.newProgram(stretch{from, borders[k+1], borders[k+1], takes}, false)
		if err != nil {
			return err
		}
		d.stages.counts.add(p.counts)
		err = d.execute(p, r)
		d.forget(p)
		if err != nil {
			return err
		}
	}
	return nil
}

// step executes a run, and returns its program if there is a single one.
func (d *Device) step(r schedule.Run) (*program, error) {
	if whole := r.Part == schedule.Whole && !r.Times; whole && (r.At != nil || !d.complete(r)) {
		return nil, d.first(r)
	} else if !whole {
		if err := d.come(schedule.UpdateStage); err != nil {
			return nil, err
		}
	}
	p, err := d.programFor(r)
	if err != nil {
		return nil, err
	}
	return p, d.execute(p, r)
}

// complete reports whether all memory that a run needs is allocated.
func (d *Device) complete(r schedule.Run) bool {
	if len(d.stages.later) == 0 {
		return true
	}
	takes := d.taken(r)
	for i, need := range d.stages.needs {
		if need > d.stages.now && takes(i) {
			return false
		}
	}
	return true
}
