// Package phases records the memory of each phase of a run, promised and measured.
package phases

import (
	"fmt"
	"slices"

	"memopt/configs"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/machine"
)

// Record records the memory of each phase of a training run, from the start of the process until its device is
// closed: promised and measured. The methods of a nil Phases do nothing.
type Record struct {
	r       *loader.Recorder
	unified bool
	lowered bool // the device runs kernels that its driver compiles
	parts   Parts
	sums    int64  // accumulated gradients, which persist between micro-batches
	flat    bool   // all memory is allocated from the start
	early   bool   // optimizer states are needed before the first backward pass ends
	resumed bool   // states came from a checkpoint, before the first step
	row     string // current row
	runs    sessions
	loading int64 // bytes of activations that are allocated before the weights
}

// Parts divides the memory of a run, in bytes: M = W + G + O + A + io.
type Parts struct {
	M  int64 `json:"M"`
	W  int64 `json:"W"`  // parameters, buffers and constants
	G  int64 `json:"G"`  // gradients: what the backward pass needs outside of the activations' memory
	O  int64 `json:"O"`  // optimizer states
	A  int64 `json:"A"`  // activations, and values that reuse their memory later in the step
	IO int64 `json:"io"` // inputs
	C  int64 `json:"c"`  // buffer for copies to and from memory that the processor cannot access
	// Early is the part of O that is allocated from the start: scalars.
	Early int64 `json:"early"`
	// Uploaded was copied to the device before the first step, and Zeroed was filled with zeros by the device
	// itself.
	Uploaded int64 `json:"uploaded"`
	Zeroed   int64 `json:"zeroed"`
}

// Table is the finished table.
type Table struct {
	Device  string
	Forward bool // of a forward program, without gradients and optimizer states
	Unified bool
	Rule    string // how host and device are combined
	Parts   Parts
	Rows    []loader.Phase
}

// New starts a table with the process (P0) and its device (P1).
func New(device string) (*Record, error) {
	p, gpu, err := begin(device)
	if err != nil {
		return nil, err
	}
	if gpu != nil {
		s, err := vulkan.OpenStore(gpu)
		if err != nil {
			return nil, exit.Cannot(err)
		}
		if p.unified = s.Unified(); p.unified {
			p.r.Watch(unifiedHost{})
		}
		if err := s.Close(); err != nil {
			return nil, err
		}
	} else {
		p.r.Watch(loader.NewHost())
	}
	p.r.End()
	return p, nil
}

// begin starts a table with the process, begins the row of its device, and finds that; gpu is nil on the
// processor.
func begin(device string) (p *Record, gpu *vk.Physical, err error) {
	kind, which, err := devices.Find(device)
	if err != nil {
		return nil, nil, err
	}
	p = &Record{r: loader.NewRecorder(), unified: true, lowered: kind.Lowered}
	p.Next("P0", "process started", 0)
	p.Next("P1", "device ready", 0)
	if kind.Name == "vulkan" {
		if gpu, err = vulkan.Choose(which); err != nil {
			return nil, nil, exit.Cannot(err)
		}
	}
	return p, gpu, nil
}

// unifiedHost is a device with unified memory whose driver reports nothing.
type unifiedHost struct{ loader.Host }

// promised bounds the process's memory as the system reports it, given what the device holds.
func (p *Record) promised(device int64) (_, host int64) {
	return device, device + device/20 + machine.ProgramMemory
}

// Next ends the current phase and begins another.
func (p *Record) Next(name, what string, device int64) {
	if p == nil {
		return
	}
	p.r.Begin(name, what, device)
	if p.row = name; p.parts.M > 0 {
		p.r.Promise(p.promised(device))
	}
}

// scheduled takes the sizes from a schedule.
func (p *Record) scheduled(s *schedule.Schedule, kind devices.Kind) {
	if p == nil {
		return
	}
	for _, g := range s.Segments(kind.Lowered) {
		n := g.End - g.At
		switch g.Owner {
		case "weights":
			p.parts.W += n
		case "gradients":
			if p.parts.G += n; g.Space == schedule.State {
				p.sums += n
			}
		case "optimizer":
			if p.parts.O += n; g.Stage == schedule.Loading {
				p.parts.Early += n
			}
		case "staging":
			p.parts.IO += n
		default:
			p.parts.A += n
		}
		p.parts.M += n
	}
	needs := s.Needs()
	p.early = slices.Contains(needs[:s.BackwardEnd()], schedule.UpdateStage)
}

// at is the memory allocated in a stage of the first step.
func (p *Record) at(stage schedule.Stage) int64 {
	n, states := p.parts.W+p.parts.Early+p.parts.C, p.parts.O-p.parts.Early+p.sums
	if p.flat {
		return p.parts.M + p.parts.C
	}
	if stage >= schedule.ForwardStage {
		n += p.parts.A + p.parts.IO
	}
	if stage >= schedule.BackwardStage {
		n += p.parts.G
	}
	if stage >= schedule.UpdateStage {
		return n + states - p.sums
	}
	if p.resumed {
		if n += states; stage >= schedule.BackwardStage {
			n -= p.sums
		}
	}
	return n
}

// Open opens a device for a schedule, as the phases P5 to P7.
func (p *Record) Open(c configs.Config, s *schedule.Schedule, o devices.Opening) (devices.Device, error) {
	o.Staged = true
	if p == nil {
		return devices.Open(c.Device, s, o)
	}
	kind, _, err := devices.Find(c.Device)
	if err != nil {
		return nil, err
	}
	p.scheduled(s, kind)
	o.Load.Host = func(bytes int64) { p.r.Count("host", bytes, bytes) }
	if early := o.Load.Mode.ActivationsFirst(); early {
		p.loading = p.at(schedule.ForwardStage) - p.at(schedule.Loading)
	}
	p.Next("P5", "weights uploaded", p.at(schedule.Loading)+p.loading)
	if o.Load.Mode.Reads() { // copies of all weights, and one in staging memory
		device, host := p.promised(p.at(schedule.Loading) + p.loading)
		p.r.Promise(device, host+p.parts.W+largestWeight(s))
	}
	o.Loaded = func() {
		p.Next("P6", "pages of the files dropped", p.at(schedule.Loading)+p.loading)
		p.Next("P7", "activations bound", p.at(schedule.ForwardStage))
	}
	o.Count = func(owner string, requested, granted int64) {
		if owner == "bounce" {
			if owner = "staging"; requested > 0 {
				p.parts.C = requested
				p.r.Promise(p.promised(p.at(schedule.Loading) + p.loading))
			}
		}
		p.r.Count(owner, requested, granted)
	}
	d, err := devices.Open(c.Device, s, o)
	if err != nil {
		return nil, err
	}
	if w, is := d.(loader.Driven); is {
		p.r.Watch(w)
	}
	if w, is := d.(interface{ Staged() bool }); is && !w.Staged() { // it allocates everything at the start
		p.flat = true
		p.Next("P7", "activations bound", p.at(schedule.ForwardStage))
	}
	return d, nil
}

// largestWeight is the most bytes of a value that is loaded.
func largestWeight(s *schedule.Schedule) (n int64) {
	for _, r := range s.Fixed {
		if r.Value.Data != nil {
			n = max(n, r.Bytes)
		}
	}
	return n
}

// Resuming begins the phase in which a checkpoint is read; by then, all memory is allocated.
func (p *Record) Resuming() {
	if p != nil {
		p.resumed = true
		p.Next("P8", "checkpoint read", p.at(schedule.ForwardStage))
	}
}

// Forward begins the phase of the first forward pass of a step with this many micro-batches.
func (p *Record) Forward(runs int) {
	if p != nil {
		p.early = p.early && runs == 1 // with several, the first one has no update
		p.Next("T1", "after the first forward pass", p.at(schedule.ForwardStage))
	}
}

// Moments returns the callback for moments inside run i; only the first run has one.
func (p *Record) Moments(i int) func(schedule.Moment) {
	if p == nil || i > 0 {
		return nil
	}
	return func(m schedule.Moment) {
		switch {
		case m == schedule.BackwardOver:
			p.Next("T3", "after the first optimizer step", p.at(schedule.UpdateStage))
		case p.early:
			p.Next("T2", "after the first backward pass", p.at(schedule.UpdateStage))
		default:
			p.Next("T2", "after the first backward pass", p.at(schedule.BackwardStage))
		}
	}
}

// Stepped is called after each step.
func (p *Record) Stepped(done, of int) {
	switch {
	case p == nil || done >= of:
	case done == 1:
		p.Next("T4", fmt.Sprintf("step %d done", min(3, of)), p.at(schedule.UpdateStage))
	case done == 3:
		p.Next("T4N", fmt.Sprintf("step %d done", of), p.at(schedule.UpdateStage))
	}
}

// Saving begins the phase in which a checkpoint or a model is written.
func (p *Record) Saving() {
	if p != nil {
		p.Next("T5", "checkpoint written", p.at(schedule.UpdateStage))
	}
}

// CloseDevice closes the device and ends the table. Steps took beside bytes of the process outside of the plan.
func (p *Record) CloseDevice(d devices.Device, beside int64) (*Table, error) {
	name := d.Name()
	if p == nil {
		return nil, d.Close()
	}
	if f, is := d.(interface {
		Filled() (uploaded, zeroed int64)
	}); is {
		p.parts.Uploaded, p.parts.Zeroed = f.Filled()
	}
	p.r.Begin("U1", "device closed", 0)
	err := d.Close()
	p.r.Watch(nil)
	p.r.End()
	t := p.table(name)
	for i := range t.Rows {
		if row := &t.Rows[i]; row.PromisedHost > 0 && row.Name[0] == 'T' {
			row.PromisedHost += beside + beside/20
		}
	}
	p.ofDriver(t.Rows)
	return t, err
}

// table is the table as recorded so far.
func (p *Record) table(device string) *Table {
	return &Table{Device: device, Unified: p.unified, Rule: loader.Rule(p.unified), Parts: p.parts, Rows: p.r.Phases()}
}

// ofDriver adds the driver's own memory, as measured, to the promises for the process.
func (p *Record) ofDriver(rows []loader.Phase) {
	for i := range rows {
		row := &rows[i]
		if row.PromisedHost == 0 || !p.lowered {
			continue
		}
		row.PromisedHost += max(0, row.Rest-rows[0].Rest)
		if row.Name == "P7" || row.Name[0] == 'R' { // and temporarily while it compiles, which drivers also do in a run
			row.PromisedHost += row.System.High - row.System.Point
		}
	}
}
