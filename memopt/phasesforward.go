package memopt

import (
	"fmt"
	"path/filepath"

	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/arena"
	"memopt/memopt/graph"
	"memopt/memopt/loader"
	"memopt/memopt/session"
	"memopt/memopt/tensorfile"
)

// forwardPhases is what the table of a forward program's runs knows beside: its sessions, which promise by their accounts.
type forwardPhases struct {
	context  *vulkan.Context // open from P1 to U3; nil on the processor
	imported bool            // buffers are the host's memory
	sessions int
	arenas   map[*arena.Arena]bool
	granted  int64 // to sessions
	held     int64 // that they hold at the end of a stage, all together
	pass     int64 // that a run takes beside, the largest
	inputs   int64 // bytes of the process that inputs lie in
	bound    int64 // of buffers for inputs, until a session tells of them
	over     bool  // the first run: later ones are one row
}

// NewForwardPhases begins the table of a forward program with the process (P0) and its device (P1).
func NewForwardPhases(device string) (*Phases, error) {
	p, kind, which, err := beginPhases(device)
	if err != nil {
		return nil, err
	}
	if kind.name == "vulkan" {
		d, err := vulkan.Choose(which)
		if err != nil {
			return nil, codedError{err, ExitCannot}
		}
		if p.runs.context, err = vulkan.Share(d); err != nil {
			return nil, codedError{err, ExitCannot}
		}
		p.unified = p.runs.context.Unified()
		p.r.Watch(p.runs.context)
	} else {
		p.runs.arenas = map[*arena.Arena]bool{}
		p.r.Watch(touchedHost{p: p})
	}
	p.r.End()
	return p, nil
}

// touchedHost is the processor, whose memory is there as it is written to.
type touchedHost struct {
	loader.Host
	p *Phases
}

// Resident is what of the sessions' memory takes memory.
func (h touchedHost) Resident() int64 {
	n := h.p.runs.granted
	for a := range h.p.runs.arenas {
		n -= a.Untouched()
	}
	return n
}

// stageRows are the rows of a session's stages.
var stageRows = map[session.Stage][2]string{
	session.OpenStage:     {"P2", "model opened"},
	session.OptimizeStage: {"P3", "graph built and optimized"},
	session.WeighStage:    {"P5", "weights in"},
	session.PlanStage:     {"P4", "planned"},
	session.OutputStage:   {"P4a", "outputs bound"},
	session.BindStage:     {"P7", "activations bound"},
	session.RunStage:      {"R1", "first run"},
	session.CloseStage:    {"U1", "model unloaded"},
}

// watch has a session tell its stages to the table. Its model's name is in their rows, unless it is the first session.
func (p *Phases) watch(path string) (w session.Watch) {
	if p == nil {
		return w
	}
	f, of, held := &p.runs, "", int64(0)
	if f.sessions++; f.sessions > 1 {
		of = ", " + filepath.Base(path)
	}
	w.Count = p.count
	w.Arena = func(a *arena.Arena) {
		if f.arenas != nil {
			f.arenas[a] = true
		}
	}
	w.Begin = func(s session.Stage, end, most int64) {
		row, others := stageRows[s], f.held-held-f.bound
		if s == session.WeighStage && !p.lowered {
			row[0] = "P3a" // before anything is planned: the program reads them where they are
		}
		f.bound = 0
		f.held, held = others+end, end
		f.pass = max(f.pass, most-end)
		switch {
		case s == session.CloseStage && p.row != row[0]:
			p.next(row[0], row[1], 0)
		case s != session.CloseStage && !f.over:
			p.next(row[0], row[1]+of, others+most)
		}
	}
	return w
}

// count enters memory under the class of its owner.
func (p *Phases) count(owner string, requested, granted int64) {
	class := "activations"
	switch owner {
	case "weights", "staging", loader.Other, session.OwnHost:
		class = owner
	case "ferry":
		class = loader.Other
	case session.OwnBuffers:
		if class = "staging"; p.runs.imported {
			class = "imported"
		}
	}
	p.runs.granted += granted
	p.r.Count(class, requested, granted)
}

// stays begins a phase in which sessions hold what they do, and so many bytes more.
func (p *Phases) stays(name, what string, more int64) {
	if p != nil {
		p.next(name, what, p.runs.held+more)
	}
}

// reading is where inputs come to memory, read is what they take of it.
func (p *Phases) reading() { p.stays("P3b", "inputs read", 0) }

func (p *Phases) read(in map[string]*graph.Tensor, data *tensorfile.Set) {
	if p != nil {
		p.runs.inputs += heapOf(in, data)
	}
}

// heapOf is what inputs take of the process's memory: all but what lies in a file's.
func heapOf(in map[string]*graph.Tensor, data *tensorfile.Set) (n int64) {
	if data != nil {
		n = data.Copied
	}
	for name, x := range in {
		if data != nil && array(data, name).Type == x.Type {
			continue
		}
		n += int64(len(x.Bytes))
	}
	return n
}

// binding is where inputs are brought to buffers.
func (p *Phases) binding(how string, bytes int64) {
	if p != nil {
		p.runs.imported = how == "import"
		p.stays("P3c", "inputs bound", bytes)
		p.runs.held += bytes // which its session tells from the next stage on
		p.runs.bound = bytes
	}
}

// again is where the second of so many runs begins.
func (p *Phases) again(run, runs int) {
	if p == nil || run != 1 {
		return
	}
	p.runs.over = true
	what := fmt.Sprintf("runs 2 to %d", runs)
	if runs == 2 {
		what = "run 2"
	}
	p.stays("RN", what, p.runs.pass)
}

// unbinding is where buffers are given back.
func (p *Phases) unbinding() { p.stays("RU", "inputs and outputs unbound", 0) }

// Writing is where results are written to a file.
func (p *Phases) Writing() { p.stays("RW", "results written", 0) }

// shrinking is where idle memory is given back.
func (p *Phases) shrinking() { p.stays("RS", "idle memory given back", 0) }

// ran takes what a run promised, of the program itself.
func (p *Phases) ran(m session.Memory, s session.Stats) {
	if p != nil {
		io := m.Inputs + s.Owners[session.OwnBuffers]
		p.parts.M, p.parts.W, p.parts.A, p.parts.IO = m.Weights+m.Values+m.Results+io, m.Weights, m.Values+m.Results, io
	}
}

// Close ends the table, once all sessions are closed: nil for nil.
func (p *Phases) Close(device string) *PhaseTable {
	if p == nil {
		return nil
	}
	p.next("U3", "device closed", 0)
	if c := p.runs.context; c != nil {
		c.Close()
	}
	p.r.Watch(nil)
	p.r.End()
	t := p.table(device)
	t.Forward = true
	inputs := int64(0)
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Name == "P3b" {
			inputs = p.runs.inputs
		}
		if i < 2 || row.Name[0] == 'U' {
			row.PromisedHost = 0
			continue
		}
		mapped := int64(0) // weights that the program reads in the model's file
		if w := row.Owned("weights"); !p.lowered {
			mapped = w.Requested - w.Granted
		}
		of := max(row.Promised-mapped, row.Granted.High) + row.Copies.High + inputs // an arena has holes, and keeps what is idle
		if row.Name[0] == 'R' {
			of += kernels.Workspace()
		}
		_, row.PromisedHost = p.promised(of)
	}
	p.ofDriver(t.Rows)
	return t
}
