// Package held keeps training steps open for hosts that provide each batch, one call a pass: the service's sessions.
// Shapes have bindings, each with a plan, and take turns on one device.
package held

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/loader"
	"memopt/internal/schedule"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/forms"
)

// Session is an open training step whose host provides each batch. In a bridge, the weights stay with the host: it
// provides them and the gradients of the results, and receives the gradients of the weights. Otherwise the step
// keeps and updates its weights itself. Its methods must not be called concurrently.
type Session struct {
	m        *step.Model
	ctx      call
	bridge   bool
	order    []string   // the model's outputs
	bindings []*Binding // most recently used first
	last     uint64     // ID of the newest binding
	planned  int        // number of bindings ever made

	device  devices.Device
	at      *Binding                 // binding whose plan the device runs
	stash   map[string]*graph.Tensor // states for the next device
	run     run
	broken  error // why nothing can run any more
	steps   int   // completed steps
	skipped int   // of these, steps that updated nothing
	micro   int64 // micro-batches since the last update
	high    [3]int64
	load    *loader.Report // of the last device that loaded weights
	started uint64
}

// run is a forward pass whose backward pass may follow.
type run struct {
	id         uint64 // 0 is none
	binding    uint64
	seed, step uint64
}

// Options says how to hold a step.
type Options struct {
	Bridge bool
	// Results names a bridge's outputs whose gradients the host provides; nil means all float outputs except
	// running statistics.
	Results []string
	// Inputs names a bridge's inputs whose gradients the host wants.
	Inputs []string
	// Bytes is the model itself, if it is not a file: then path is only its name, and its folder is where external
	// data is.
	Bytes []byte
	// Given are initializers that replace the model's.
	Given map[string]*graph.Tensor
}

// Open reads a model and derives its step. The caller must Close it. Open copies the contents of the options. The
// model's files may be removed once Open returns, but must not be written to.
func Open(ctx context.Context, path string, c configs.Config, o Options) (*Session, error) {
	h := &Session{bridge: o.Bridge, stash: map[string]*graph.Tensor{}}
	h.m = &step.Model{Path: path, Config: c, Ctx: &h.ctx, Held: true, Bytes: bytes.Clone(o.Bytes), Given: map[string]*graph.Tensor{}}
	for name, x := range o.Given {
		y := graph.NewTensor(x.Type, x.Shape...)
		copy(y.Bytes, x.Bytes)
		h.m.Given[name] = y
	}
	defer h.during(ctx)()
	_, err := stop.When(ctx, func() (*step.Model, error) { return h.m, h.open(o) })
	if err != nil {
		h.m.Close()
		return nil, err
	}
	return h, nil
}

// call is the context of the current call.
type call struct{ context.Context }

// during makes ctx the context of work on the model until end is called.
func (h *Session) during(ctx context.Context) (end func()) {
	h.ctx.Context = ctx
	return func() { h.ctx.Context = context.Background() }
}

func (h *Session) open(o Options) (err error) {
	m := h.m
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.Read(); err != nil {
		return m.Unparted(err)
	}
	if err := step.Runnable(m.Graph); err != nil {
		return err
	}
	if m.Graph.HasBackward() {
		return h.openStep(o)
	}
	for _, v := range m.Graph.Outputs {
		h.order = append(h.order, v.Name)
	}
	adding := m.StepOptions()
	if h.bridge {
		if o.Results == nil {
			for _, v := range m.Graph.Outputs {
				statistic := slices.ContainsFunc(m.Graph.Updates, func(u graph.Update) bool { return u.New == v })
				if v.Type.IsFloat() && !statistic {
					o.Results = append(o.Results, v.Name)
				}
			}
		}
		results := append([]string{}, o.Results...) // empty, not nil, if there is no float output
		adding = autograd.Options{Context: m.Ctx, Results: results, Inputs: o.Inputs, KeepGrads: true}
	}
	return m.Derive(adding)
}

// openStep uses the training step of a trainer's file.
func (h *Session) openStep(o Options) error {
	m := h.m
	border := borderNode(m)
	switch {
	case h.bridge && border == nil:
		return exit.Input(errors.New("the file has a backward pass, and no YieldOp that parts it from the forward pass; a bridge needs one, or a file of the forward pass alone"))
	case h.bridge && (o.Results != nil || len(o.Inputs) > 0):
		return exit.Input(errors.New("the file has a backward pass of its own, which says what has gradients; name no outputs or inputs"))
	}
	if err := m.ReadOutline(); err != nil {
		return err
	}
	return m.Take(forms.Brought(m.Ctx, m.Graph))
}

// border is the node between the forward and the backward pass, or nil.
func borderNode(m *step.Model) *graph.Node { return borderOf(m.Graph) }

func borderOf(g *graph.Graph) *graph.Node {
	if i := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Border }); i >= 0 {
		return g.Nodes[i]
	}
	return nil
}

// Close releases everything.
func (h *Session) Close() error {
	var err error
	if h.device != nil {
		err = h.device.Close()
	}
	h.device, h.at, h.bindings, h.stash = nil, nil, nil, nil
	h.broken = errors.New("the session is closed")
	h.m.Close()
	return err
}

// Model is the step before planning.
func (h *Session) Model() *step.Model { return h.m }

// Inputs are the inputs that the host provides for every run.
func (h *Session) Inputs() []*graph.Value { return inputsOf(h.m.Graph) }

func inputsOf(g *graph.Graph) []*graph.Value {
	return slices.DeleteFunc(slices.Clone(g.Inputs), func(v *graph.Value) bool {
		return v.Name == autograd.LearningRate || v.Name == autograd.MicroBatch
	})
}

// Outputs are the step's results.
func (h *Session) Outputs() []*graph.Value { return h.outputsOf(h.m.Graph) }

func (h *Session) outputsOf(g *graph.Graph) (all []*graph.Value) {
	from := g.Outputs
	if h.bridge {
		from = borderOf(g).Inputs
	}
	for _, v := range from {
		if v == nil || slices.Contains(all, v) ||
			slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return d.Grad == v }) && !h.bridge ||
			slices.ContainsFunc(g.Updates, func(u graph.Update) bool { return u.New == v }) {
			continue
		}
		all = append(all, v)
	}
	place := func(v *graph.Value) int { return slices.Index(h.order, v.Name) }
	slices.SortStableFunc(all, func(v, w *graph.Value) int { return place(v) - place(w) })
	return all
}

// Params are the trained parameters.
func (h *Session) Params() []*graph.Value { return paramsOf(h.m.Graph) }

func paramsOf(g *graph.Graph) (all []*graph.Value) {
	for _, v := range g.Values {
		if v.Kind == graph.Param && slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return d.Param == v }) {
			all = append(all, v)
		}
	}
	return all
}

// Buffers are the running statistics.
func (h *Session) Buffers() []*graph.Value { return buffersOf(h.m.Graph) }

func buffersOf(g *graph.Graph) (all []*graph.Value) {
	for _, u := range g.Updates {
		if u.State.Kind == graph.ModelBuffer || u.State.Kind == graph.Param && !slices.ContainsFunc(g.Grads, func(d graph.Grad) bool { return d.Param == u.State }) {
			all = append(all, u.State)
		}
	}
	return all
}

// cannot gives an error the exit code of a request that cannot be met now.
func cannot(err error) error { return exit.Cannot(err) }

// Trains lists what the step trains, as plans do.
func (h *Session) Trains() *planner.Trains { return h.m.Trains() }

// Stats describes a session's memory and its steps so far.
type Stats struct {
	Format   string `json:"format"`
	Device   string `json:"device"` // "" before the first run
	Bindings int    `json:"bindings"`
	Planned  int    `json:"planned"` // number of bindings ever made
	Steps    int    `json:"steps"`
	Skipped  int    `json:"skipped"` // of these, steps without an update: a scaled gradient was infinite or NaN
	Promised struct {
		Arena   int64 `json:"arena"`
		State   int64 `json:"state"`
		Staging int64 `json:"staging"`
	} `json:"promised"` // of the plan that the device runs
	High struct {
		Arena   int64 `json:"arena"`
		State   int64 `json:"state"`
		Staging int64 `json:"staging"`
	} `json:"high"` // peak over the launches of all plans
	LossScale float64         `json:"loss_scale,omitempty"`
	Memory    *devices.Memory `json:"memory,omitempty"`
	// Load is what loading the weights took, of the device that did.
	Load *loader.Report `json:"load,omitempty"`
}

// Stats describes the session's memory and its steps so far.
func (h *Session) Stats() Stats {
	s := Stats{Format: "memopt.sessionstats/1", Bindings: len(h.bindings), Planned: h.planned, Steps: h.steps, Skipped: h.skipped, Load: h.load}
	s.High.Arena, s.High.State, s.High.Staging = h.high[schedule.Arena], h.high[schedule.State], h.high[schedule.Staging]
	if h.device != nil {
		s.Device, s.Memory = h.device.Name(), devices.MemoryOf(h.device)
		s.Promised.Arena, s.Promised.State, s.Promised.Staging = h.at.schedule.Arena, h.at.schedule.State, h.at.schedule.Staging
		if x, err := h.device.State(autograd.Scale); err == nil {
			s.LossScale = x.Float(0)
		}
	}
	return s
}
