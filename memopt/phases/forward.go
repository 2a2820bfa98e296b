package phases

import (
	"fmt"
	"path/filepath"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/exit"
	"memopt/memopt/feed"
	"memopt/memopt/session"
)

// sessions is the part of Phases for a forward program: its sessions, whose accounts make the promises.
type sessions struct {
	context  *vulkan.Context // open from P1 to U3; nil on the processor
	imported bool            // buffers are in the host's memory
	sessions int
	arenas   map[*arena.Arena]bool
	granted  int64 // granted to sessions
	held     int64 // held by all sessions at the end of a stage
	pass     int64 // largest amount that a run takes in addition
	inputs   int64 // memory of the process for inputs
	bound    int64 // buffers for inputs that no session accounts for yet
	over     bool  // the first run is over; later runs share one row
}

// NewForward starts the table of a forward program with the process (P0) and its device (P1).
func NewForward(device string) (*Record, error) {
	p, gpu, err := begin(device)
	if err != nil {
		return nil, err
	}
	if gpu != nil {
		if p.runs.context, err = vulkan.Share(gpu); err != nil {
			return nil, exit.Cannot(err)
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

// touchedHost is the processor, whose memory becomes resident when it is written.
type touchedHost struct {
	loader.Host
	p *Record
}

// Resident is the resident part of the sessions' memory.
func (h touchedHost) Resident() int64 {
	n := h.p.runs.granted
	for a := range h.p.runs.arenas {
		n -= a.Untouched()
	}
	return n
}

// stageRows are the rows for the stages of a session.
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

// Watch makes a session report its stages to the table. Rows of all sessions but the first include the model's
// name.
func (p *Record) Watch(path string) (w session.Watch) {
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
			row[0] = "P3a" // before planning: the program reads weights in place
		}
		f.bound = 0
		f.held, held = others+end, end
		f.pass = max(f.pass, most-end)
		switch {
		case s == session.CloseStage && p.row != row[0]:
			p.Next(row[0], row[1], 0)
		case s != session.CloseStage && !f.over:
			p.Next(row[0], row[1]+of, others+most)
		}
	}
	return w
}

// count adds an allocation to the class of its owner.
func (p *Record) count(owner string, requested, granted int64) {
	class := "activations"
	switch owner {
	case "weights", "staging", loader.Other, session.OwnHost:
		class = owner
	case "bounce":
		class = loader.Other
	case session.OwnBuffers:
		if class = "staging"; p.runs.imported {
			class = "imported"
		}
	}
	p.runs.granted += granted
	p.r.Count(class, requested, granted)
}

// stays begins a phase in which sessions hold what they held before, plus more bytes.
func (p *Record) stays(name, what string, more int64) {
	if p != nil {
		p.Next(name, what, p.runs.held+more)
	}
}

// Reading begins the phase in which inputs are read; read adds the memory that they take.
func (p *Record) Reading() { p.stays("P3b", "inputs read", 0) }

// Read notes what the inputs take.
func (p *Record) Read(in map[string]*graph.Tensor, data *tensorfile.Set) {
	if p != nil {
		p.runs.inputs += HeapOf(in, data)
	}
}

// HeapOf is the process's memory for inputs: that of all but views of a mapped file.
func HeapOf(in map[string]*graph.Tensor, data *tensorfile.Set) (n int64) {
	if data != nil {
		n = data.Copied
	}
	for name, x := range in {
		if data != nil && feed.Array(data, name).Type == x.Type {
			continue
		}
		n += int64(len(x.Bytes))
	}
	return n
}

// Binding begins the phase in which inputs are copied to buffers.
func (p *Record) Binding(how string, bytes int64) {
	if p != nil {
		p.runs.imported = how == "import"
		p.stays("P3c", "inputs bound", bytes)
		p.runs.held += bytes // the session accounts for it from the next stage on
		p.runs.bound = bytes
	}
}

// Again begins the phase of all runs after the first.
func (p *Record) Again(run, runs int) {
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

// Unbinding begins the phase in which buffers are released.
func (p *Record) Unbinding() { p.stays("RU", "inputs and outputs unbound", 0) }

// Writing begins the phase in which results are written to a file.
func (p *Record) Writing() { p.stays("RW", "results written", 0) }

// Shrinking begins the phase in which idle memory is released.
func (p *Record) Shrinking() { p.stays("RS", "idle memory given back", 0) }

// Ran takes the sizes that a run promised, of the first session alone.
func (p *Record) Ran(m session.Memory, s session.Stats) {
	if p != nil {
		io := m.Inputs + s.Owners[session.OwnBuffers]
		p.parts.M, p.parts.W, p.parts.A, p.parts.IO = m.Weights+m.Values+m.Results+io, m.Weights, m.Values+m.Results, io
	}
}

// Close ends the table, once all sessions are closed; it returns nil for a nil Phases.
func (p *Record) Close(device string) *Table {
	if p == nil {
		return nil
	}
	p.Next("U3", "device closed", 0)
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
		mapped := int64(0) // weights that the program reads in the mapped file
		if w := row.Owned("weights"); !p.lowered {
			mapped = w.Requested - w.Granted
		}
		// An arena has holes, and retains idle memory.
		of := max(row.Promised-mapped, row.Granted.High) + row.Copies.High + inputs
		if row.Name[0] == 'R' {
			of += kernels.Workspace()
		}
		_, row.PromisedHost = p.promised(of)
	}
	p.ofDriver(t.Rows)
	return t
}
