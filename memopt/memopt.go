// Package memopt is the front door: it opens a model, plans its training step
// and trains it. It wires the line together and decides nothing itself.
//
//	model.onnx ─ onnx.Open, joint.Read ─▶ graph ─ Clean ─▶ graph ─ autograd.TrainStep ─▶ graph
//	      ─ planner.Make ─▶ plan ─ plan.Schedule ─▶ schedule ─ Device.Run ─▶ trace ─ report ─▶ promised beside measured
package memopt

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"memopt/autograd"
	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
	"memopt/memopt/stop"
	"memopt/memopt/weights"
	"memopt/planner"
	"memopt/planner/forms"
)

// Version is that of the program, the service and the Python package.
const Version = "0.1.0"

// Model is a training step that was read from a file, ready to be planned.
type Model struct {
	Path  string
	Graph *graph.Graph // the whole step
	// Outline is the nodes as the file spells them, if it is a trainer's.
	Outline *graph.Outline
	Config  configs.Config
	// LossInput is the input that a loss which was added compares with, as in
	// labels i64[batch]; "" if none was added.
	LossInput string
	// Passes is what was done to the forward graph first.
	Passes graph.Report

	// Profiled is the device whose times plans count in; "" for flops and bytes.
	Profiled string
	bytes    []byte                   // the model itself, where it is no file; Path is then a name and a folder
	given    map[string]*graph.Tensor // initializers instead of the file's
	held     bool                     // its files may go once they were read: see unchanged
	ctx      context.Context          // ends whatever is asked of the model
	phases   *Phases                  // that reading it is noted in; nil if it is not
	source   *onnx.Source             // nil if the file has no weights
	initials []initial                // the float initializers that were read
	selected autograd.Selection       // of them, by settings
	samples  map[string]string        // outputs that only a comparison needs, by running statistic
	loss     string                   // the value that is to be lowered; "" is the only scalar
	cleaned  graph.CleanOptions       // as the forward graph was
	steps    *forms.Steps             // the step in every form that it may take
	kept     []string                 // values that are kept in less, whatever settings say; nil leaves that to them
	costs    map[string]float64       // by node
}

// Open reads a model and derives its training step, unless it has one already. The
// weights stay in its files, which are mapped until it is closed.
func Open(path string, c configs.Config) (*Model, error) {
	return OpenContext(context.Background(), path, c)
}

// OpenContext is Open with a context, which ends the reading and whatever else the
// model is asked for: that gives its error then, and writes no file.
func OpenContext(ctx context.Context, path string, c configs.Config) (*Model, error) {
	m := &Model{Path: path, Config: c, ctx: ctx}
	opened, err := stop.When(ctx, m.open)
	if err != nil {
		m.Close()
		return nil, err
	}
	return opened, nil
}

func (m *Model) open() (opened *Model, err error) {
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.read(); err != nil {
		return nil, m.unparted(err)
	}
	m.phases.next("P3", "graph built", 0)
	if hasBackward(m.Graph) {
		if err := m.readOutline(); err != nil {
			return nil, err
		}
		if runnable(m.Graph) != nil {
			m.steps = forms.Recorded(m.ctx, m.Graph)
			return m, nil
		}
		return m, m.take(forms.Brought(m.ctx, m.Graph))
	}
	return m, m.derive(m.stepOptions())
}

// Plan decides what to keep, what to compute again and where each value lives.
func (m *Model) Plan() (*planner.Plan, error) { return stop.When(m.ctx, m.makePlan) }

func (m *Model) makePlan() (p *planner.Plan, err error) {
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.sized(m.Config.Dims); err != nil {
		return nil, err
	}
	begin := time.Now()
	if p, err = m.steps.Plan(m.ask()); err != nil {
		var wrong *planner.BudgetError
		if errors.As(err, &wrong) {
			m.advise(wrong, m.Config.Dims)
		}
		return nil, classify(err)
	}
	suggest(p, m.Config.Requests)
	p.Trains = m.trains()
	p.Warnings = slices.Concat(p.Warnings, m.strayDims(), m.idleSettings(), m.attentionInPieces(p), m.storedStatistics(), m.doubts(), m.beyond(p))
	p.Took = time.Since(begin)
	return p, nil
}

// Run trains under a plan: schedule, device, steps, and what was measured.
func (m *Model) Run(p *planner.Plan, t Training) (*Result, error) {
	return m.run(p, t, func(d Device) Device { return d })
}

// run is Run on a device that something may stand in front of.
func (m *Model) run(p *planner.Plan, t Training, through func(Device) Device) (*Result, error) {
	return stop.When(m.ctx, func() (*Result, error) { return m.runOn(p, t, through) })
}

func (m *Model) runOn(p *planner.Plan, t Training, through func(Device) Device) (r *Result, err error) {
	defer weights.Guard(&err)()
	if err := runnable(p.Graph); err != nil {
		return nil, err
	}
	if t.Output != "" {
		if err := m.canWriteTrained(t.Output); err != nil {
			return nil, err
		}
	}
	s, chains, err := m.schedule(p)
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // what planning left behind is not to lie beside the step
	watch := watchMemory()
	defer watch.end()
	device, err := t.open(m.Config, s)
	if err != nil {
		return nil, m.wouldFit(p, s, err)
	}
	defer func() {
		if device != nil {
			device.Close()
		}
	}()
	// The weights are on the device now: what becomes of their files later is no matter.
	if m.unchanged(&err); err != nil {
		return nil, err
	}
	r, err = train(m, p, s, through(device), t)
	if err != nil {
		return nil, m.wouldFit(p, s, err)
	}
	r.Anonymous = watch.against(p, r.Trace, r.data)
	r.Memory, r.Chains = deviceMemory(device), chains
	r.Phases, err = t.Phases.close(device, r.beside())
	device = nil
	return r, err
}

func hasBackward(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Phase != graph.Forward })
}

// autoLossScale is where a loss scale that finds itself begins.
const autoLossScale = 65536

// stepOptions picks what autograd needs from the settings.
func (m *Model) stepOptions() autograd.Options {
	c := m.Config
	o := autograd.Options{Context: m.ctx, Loss: m.loss, Optimizer: c.Optimizer,
		ClipNorm: c.ClipNorm, MicroBatches: c.Accumulate, Hyper: map[string]float64{}}
	for setting, value := range map[string]float64{"momentum": c.Momentum, "beta1": c.Beta1, "beta2": c.Beta2,
		"epsilon": c.Epsilon, "weight_decay": c.WeightDecay, "lr_decay": c.LRDecay} {
		if _, given := c.Source(setting); given {
			o.Hyper[setting] = value
		}
	}
	if c.Nesterov {
		o.Hyper["nesterov"] = 1
	}
	switch l := c.LossScale; {
	case c.Optimizer == "":
	case l.Auto:
		o.LossScale = autograd.LossScale{Initial: autoLossScale, Window: c.ScaleWindow}
	default:
		o.LossScale.Initial = l.Factor
	}
	return o
}
