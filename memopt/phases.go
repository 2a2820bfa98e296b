package memopt

import (
	"context"
	"fmt"
	"slices"

	"memopt/configs"
	"memopt/kernels/vulkan"
	"memopt/memopt/loader"
	"memopt/memopt/stop"
	"memopt/planner"
)

// Phases keeps the table of what each phase of a training run takes, from the start of the process to the end of its
// device: promised beside measured. All methods of a nil one do nothing.
type Phases struct {
	r       *loader.Recorder
	unified bool
	lowered bool // the device runs kernels, and its driver compiles them
	parts   PhaseParts
	sums    int64  // of the gradients, those that several runs add up
	flat    bool   // all memory is there from the start
	early   bool   // optimizer states are wanted before the first backward pass is over
	resumed bool   // states came from a checkpoint, and were there before the first step
	row     string // that goes on
	runs    forwardPhases
}

// PhaseParts are what the memory of a run is made of, in bytes: M = W + G + O + A + io.
type PhaseParts struct {
	M  int64 `json:"M"`
	W  int64 `json:"W"`  // parameters, buffers and constants
	G  int64 `json:"G"`  // gradients: what backward needs beside the activations' memory
	O  int64 `json:"O"`  // optimizer states
	A  int64 `json:"A"`  // activations, and all that takes their place later in the step
	IO int64 `json:"io"` // inputs
	C  int64 `json:"c"`  // what passes to and from memory that the processor does not see
	// Early is what of O is there from the start: single numbers.
	Early int64 `json:"early"`
	// Uploaded is what was brought to the device before the first step, and Zeroed what the device filled by itself.
	Uploaded int64 `json:"uploaded"`
	Zeroed   int64 `json:"zeroed"`
}

// PhaseTable is the table.
type PhaseTable struct {
	Device  string
	Forward bool // of a forward program, which has neither gradients nor optimizer states
	Unified bool
	Rule    string // how host and device are combined
	Parts   PhaseParts
	Rows    []loader.Phase
}

// NewPhases begins a table with the process (P0) and its device (P1).
func NewPhases(device string) (*Phases, error) {
	p, kind, which, err := beginPhases(device)
	if err != nil {
		return nil, err
	}
	if kind.name == "vulkan" {
		d, err := vulkan.Choose(which)
		if err != nil {
			return nil, codedError{err, ExitCannot}
		}
		s, err := vulkan.OpenStore(d)
		if err != nil {
			return nil, codedError{err, ExitCannot}
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

// beginPhases begins a table with the process, and the row of its device.
func beginPhases(device string) (p *Phases, kind deviceKind, which string, err error) {
	if kind, which, err = findDevice(device); err != nil {
		return nil, kind, "", err
	}
	p = &Phases{r: loader.NewRecorder(), unified: true, lowered: kind.lowered}
	p.next("P0", "process started", 0)
	p.next("P1", "device ready", 0)
	return p, kind, which, nil
}

// unifiedHost is a device whose driver says nothing.
type unifiedHost struct{ loader.Host }

// Open is OpenContext, as the phases P2 and P3; P4 is what follows.
func (p *Phases) Open(ctx context.Context, path string, c configs.Config) (*Model, error) {
	if p == nil {
		return OpenContext(ctx, path, c)
	}
	p.next("P2", "model opened", 0)
	m := &Model{Path: path, Config: c, ctx: ctx, phases: p}
	opened, err := stop.When(ctx, m.open)
	if err != nil {
		m.Close()
		return nil, err
	}
	p.next("P4", "planned", 0)
	return opened, nil
}

// promised is the most that the system sees of the process beside what the device holds.
func (p *Phases) promised(device int64) (_, host int64) {
	return device, device + device/20 + programMemory
}

// next begins a phase, and ends the one before.
func (p *Phases) next(name, what string, device int64) {
	if p == nil {
		return
	}
	p.r.Begin(name, what, device)
	if p.row = name; p.parts.M > 0 {
		p.r.Promise(p.promised(device))
	}
}

// scheduled takes what a schedule promises.
func (p *Phases) scheduled(s *planner.Schedule, kind deviceKind) {
	if p == nil {
		return
	}
	for _, g := range s.Segments(kind.lowered) {
		n := g.End - g.At
		switch g.Owner {
		case "weights":
			p.parts.W += n
		case "gradients":
			if p.parts.G += n; g.Space == planner.State {
				p.sums += n
			}
		case "optimizer":
			if p.parts.O += n; g.Stage == planner.Loading {
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
	p.early = slices.Contains(needs[:s.BackwardEnd()], planner.UpdateStage)
}

// at is what is there in a stage of the first step.
func (p *Phases) at(stage planner.Stage) int64 {
	n, states := p.parts.W+p.parts.Early+p.parts.C, p.parts.O-p.parts.Early+p.sums
	if p.flat {
		return p.parts.M + p.parts.C
	}
	if stage >= planner.ForwardStage {
		n += p.parts.A + p.parts.IO
	}
	if stage >= planner.BackwardStage {
		n += p.parts.G
	}
	if stage >= planner.UpdateStage {
		return n + states - p.sums
	}
	if p.resumed {
		if n += states; stage >= planner.BackwardStage {
			n -= p.sums
		}
	}
	return n
}

// open makes a device ready for a schedule: P5 to P7.
func (p *Phases) open(c configs.Config, s *planner.Schedule) (Device, error) {
	if p == nil {
		return openStaged(c.Device, c.FastPaths, s, stageWatch{})
	}
	kind, _, err := findDevice(c.Device)
	if err != nil {
		return nil, err
	}
	p.scheduled(s, kind)
	p.next("P5", "weights uploaded", p.at(planner.Loading))
	d, err := openStaged(c.Device, c.FastPaths, s, stageWatch{
		loaded: func() {
			p.next("P6", "pages of the files dropped", p.at(planner.Loading))
			p.next("P7", "activations bound", p.at(planner.ForwardStage))
		},
		count: func(owner string, requested, granted int64) {
			if owner == "ferry" {
				if owner = "staging"; requested > 0 {
					p.parts.C = requested
					p.r.Promise(p.promised(p.at(planner.Loading)))
				}
			}
			p.r.Count(owner, requested, granted)
		},
	})
	if err != nil {
		return nil, err
	}
	if w, is := d.(loader.Driven); is {
		p.r.Watch(w)
	}
	if w, is := d.(interface{ Staged() bool }); is && !w.Staged() { // it has all from the start
		p.flat = true
		p.next("P7", "activations bound", p.at(planner.ForwardStage))
	}
	return d, nil
}

// resuming is where a checkpoint is read: all memory is there then.
func (p *Phases) resuming() {
	if p != nil {
		p.resumed = true
		p.next("P8", "checkpoint read", p.at(planner.ForwardStage))
	}
}

// forward is where the first step begins, of so many runs.
func (p *Phases) forward(runs int) {
	if p != nil {
		p.early = p.early && runs == 1 // else updates are left out of the first
		p.next("T1", "after the first forward pass", p.at(planner.ForwardStage))
	}
}

// moments is what run i of the device tells of the inside of a step: the first does.
func (p *Phases) moments(i int) func(planner.Moment) {
	if p == nil || i > 0 {
		return nil
	}
	return func(m planner.Moment) {
		switch {
		case m == planner.BackwardOver:
			p.next("T3", "after the first optimizer step", p.at(planner.UpdateStage))
		case p.early:
			p.next("T2", "after the first backward pass", p.at(planner.UpdateStage))
		default:
			p.next("T2", "after the first backward pass", p.at(planner.BackwardStage))
		}
	}
}

// stepped is called when steps are done, of so many.
func (p *Phases) stepped(done, of int) {
	switch {
	case p == nil || done >= of:
	case done == 1:
		p.next("T4", fmt.Sprintf("step %d done", min(3, of)), p.at(planner.UpdateStage))
	case done == 3:
		p.next("T4N", fmt.Sprintf("step %d done", of), p.at(planner.UpdateStage))
	}
}

// saving is where a checkpoint or a model is written.
func (p *Phases) saving() {
	if p != nil {
		p.next("T5", "checkpoint written", p.at(planner.UpdateStage))
	}
}

// close ends the device and the table. Of the process steps took so much beside the plan.
func (p *Phases) close(d Device, beside int64) (*PhaseTable, error) {
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

// table is what there is of it.
func (p *Phases) table(device string) *PhaseTable {
	return &PhaseTable{Device: device, Unified: p.unified, Rule: loader.Rule(p.unified), Parts: p.parts, Rows: p.r.Phases()}
}

// ofDriver adds to what is promised of the process what a driver holds for itself, which is measured, and named.
func (p *Phases) ofDriver(rows []loader.Phase) {
	for i := range rows {
		row := &rows[i]
		if row.PromisedHost == 0 || !p.lowered {
			continue
		}
		row.PromisedHost += max(0, row.Rest-rows[0].Rest)
		if row.Name == "P7" { // and for a moment, while it compiles
			row.PromisedHost += row.System.High - row.System.Point
		}
	}
}
