package memopt

import (
	"maps"
	"slices"

	"memopt/autograd"
	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/forms"
)

// derive makes the training step of the forward graph that was read, in the form that
// settings ask for; other forms of it are made when they are asked for.
func (m *Model) derive(o autograd.Options) error {
	forward, cleaned, passes := m.Graph, m.cleaned, m.Passes
	cleaned.Cleaned = m.samples == nil // or else outputs were added since
	m.again = func(o autograd.Options) *forms.Steps { return m.derived(forward, cleaned, passes, o) }
	return m.take(m.again(o))
}

func (m *Model) derived(forward *graph.Graph, cleaned graph.CleanOptions, passes graph.Report, o autograd.Options) *forms.Steps {
	return forms.Derive(m.ctx, func(pieces []graph.Pieces) (forms.Forward, error) {
		if len(pieces) == 0 {
			return forms.Forward{Graph: forward, Passes: passes}, nil
		}
		return inPieces(forward, cleaned, passes, pieces), nil
	}, func(forward *graph.Graph) (*graph.Graph, error) {
		g, err := autograd.TrainStep(forward, o)
		if err != nil {
			return nil, m.unparted(input(m.hintLoss(err)))
		}
		return g, nil
	})
}

// inPieces is a clean forward graph with operators that compute in pieces, as far as it has
// what they stand for. That is then what it is without them, to the last product that a
// scale went into.
func inPieces(g *graph.Graph, o graph.CleanOptions, done graph.Report, pieces []graph.Pieces) forms.Forward {
	if o.Fuse == nil {
		return forms.Forward{Graph: g, Passes: done}
	}
	g = g.Clone()
	o.Fuse = func(op *graph.Op) bool { return slices.Contains(pieces, op.Pieces) }
	done = done.Then(g.Clean(o))
	found := slices.DeleteFunc(slices.Clone(pieces), func(p graph.Pieces) bool {
		return !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Pieces == p })
	})
	return forms.Forward{Graph: g, Passes: done, Pieces: found}
}

// take makes a step the model's, in the form that settings ask for.
func (m *Model) take(steps *forms.Steps) error {
	m.steps = steps
	own, err := steps.Own(m.ask())
	if err == nil {
		m.Graph, m.Passes = own.Graph, own.Passes
	}
	return err
}

// with is the model under other settings that do not change what is trained, or how, but for the runs that share an update.
func (m *Model) with(c configs.Config) (*Model, error) {
	other := *m
	other.Config = c
	if steps := m.steps; max(c.Accumulate, 1) == max(m.Config.Accumulate, 1) || m.again == nil {
		return &other, other.take(steps)
	}
	return &other, other.take(m.again(other.stepOptions()))
}

// clusterSetting names clusters: it makes the graph too, where it names what can be kept in
// less.
const clusterSetting = "config"

// ask is what the settings ask of the step.
func (m *Model) ask() forms.Ask {
	a := forms.Ask{Request: m.request(), Settings: map[string]string{}, Given: map[string]string{}, Kept: m.kept, Measured: m.Profiled != "", Say: m.Config.Say}
	for _, name := range forms.Settings() {
		a.Settings[name] = m.Config.Value(name)
	}
	for _, name := range configs.Shaping() {
		if value, ok := m.Config.Given(name); ok {
			a.Given[name] = value
		}
	}
	a.Clusters = planner.Setting{Name: clusterSetting}
	a.Clusters.Value, _ = m.Config.Given(clusterSetting)
	return a
}

// request picks what the planner needs from the settings.
func (m *Model) request() planner.Request {
	r := requestOf(m.Config)
	r.Costs, r.Context = m.costs, m.ctx
	r.Outline, r.Compat, r.Boundary = m.Outline, m.Config.Compat, boundary(m.Config)
	return r
}

// requestOf is what settings alone say.
func requestOf(c configs.Config) planner.Request {
	r := planner.Request{Lowered: Lowered(c.Device), Dims: maps.Clone(c.Dims), Strategy: c.Strategy, Level: c.Level, Boundary: c.Boundary, MaxOverhead: c.MaxOverhead,
		Budget:           planner.Size{Bytes: c.Budget.Bytes, Percent: c.Budget.Percent},
		ActivationBudget: planner.Size{Bytes: c.ActivationBudget.Bytes, Percent: c.ActivationBudget.Percent}}
	for _, q := range c.Requests {
		want := cluster.Request{ID: q.Cluster, Type: q.Strategy, Count: q.Count, Where: q.Pos.String() + ": "}
		for _, l := range q.Layers {
			want.Places = append(want.Places, cluster.Places{First: int(l.First), Last: int(l.Last)})
		}
		r.Clusters = append(r.Clusters, want)
	}
	return r
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
