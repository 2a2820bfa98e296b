package step

import (
	"maps"
	"slices"

	"memopt/autograd"
	"memopt/configs"
	"memopt/internal/graph"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/forms"
)

// Derive derives the training step from the forward graph, in the form that the settings select; other forms are
// derived on demand.
func (m *Model) Derive(o autograd.Options) error {
	forward, cleaned, passes := m.Graph, m.cleaned, m.Passes
	cleaned.Cleaned = m.Samples == nil // false if outputs were added since
	m.again = func(o autograd.Options) *forms.Steps { return m.derived(forward, cleaned, passes, o) }
	return m.Take(m.again(o))
}

func (m *Model) derived(forward *graph.Graph, cleaned graph.CleanOptions, passes graph.Report, o autograd.Options) *forms.Steps {
	return forms.Derive(m.Ctx, func(pieces []graph.Pieces, tiles string) (forms.Forward, error) {
		if len(pieces) == 0 {
			return forms.Forward{Graph: forward, Passes: passes}, nil
		}
		return inPieces(forward, cleaned, passes, pieces, configs.Tiles(tiles)), nil
	}, func(forward *graph.Graph) (*graph.Graph, error) {
		g, err := autograd.TrainStep(forward, o)
		if err != nil {
			return nil, m.Unparted(exit.Input(m.hintLoss(err)))
		}
		return g, nil
	})
}

// inPieces is a clean forward graph in which operators that compute in pieces replace the subgraphs that they
// match. Everything else stays as it is without them, including scales folded into products. Tiles are the numbers of
// tiles of feed-forward layers, in their order: the last one goes for all further layers, 1 leaves one whole.
func inPieces(g *graph.Graph, o graph.CleanOptions, done graph.Report, pieces []graph.Pieces, tiles []int) forms.Forward {
	if o.Fuse == nil {
		return forms.Forward{Graph: g, Passes: done}
	}
	g = g.Clone()
	o.Fuse = func(op *graph.Op) bool { return slices.Contains(pieces, op.Pieces) }
	asked := func(layer int) int {
		if len(tiles) == 0 {
			return 0
		}
		return tiles[min(layer, len(tiles)-1)]
	}
	met := map[string]int{} // layers by the names of their results
	var taken []int
	o.Fused = func(op *graph.Op, n *graph.Node) bool {
		if op.Pieces != graph.FeedForwardInRows {
			return true
		}
		name := n.Outputs[0].Name
		if _, again := met[name]; !again {
			met[name] = len(met)
		}
		if asked(met[name]) == 1 {
			return false
		}
		taken = append(taken, met[name])
		return true
	}
	done = done.Then(g.Clean(o))
	for _, n := range g.Nodes {
		if n.Op.Pieces != graph.FeedForwardInRows || len(taken) == 0 {
			continue
		}
		if count := asked(taken[0]); count > 0 {
			n.SetAttr("tiles", int64(count))
		}
		taken = taken[1:]
	}
	found := slices.DeleteFunc(slices.Clone(pieces), func(p graph.Pieces) bool {
		return !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Pieces == p })
	})
	return forms.Forward{Graph: g, Passes: done, Pieces: found}
}

// Take sets the model's training step, in the form that the settings select.
func (m *Model) Take(steps *forms.Steps) error {
	m.Steps = steps
	own, err := steps.Own(m.Ask())
	if err == nil {
		m.Graph, m.Passes = own.Graph, own.Passes
	}
	return err
}

// With returns the model under other settings. They must not change what is trained, or how, except for the number
// of micro-batches.
func (m *Model) With(c configs.Config) (*Model, error) {
	other := *m
	other.Config = c
	if steps := m.Steps; max(c.Accumulate, 1) == max(m.Config.Accumulate, 1) || m.again == nil {
		return &other, other.Take(steps)
	}
	return &other, other.Take(m.again(other.StepOptions()))
}

// ClusterSetting names the setting that requests clusters. It also shapes the graph if it names values to store in
// fewer bytes.
const ClusterSetting = "config"

// Ask is the planning request that the settings make, including the choice of forms.
func (m *Model) Ask() forms.Ask {
	a := forms.Ask{Request: m.request(), Settings: map[string]string{}, Given: map[string]string{}, Kept: m.Kept, StatesByBudget: m.Config.States == devices.StatesAuto, HostBudget: m.Config.HostBudget, Measured: m.Profiled != "", Say: m.Config.Say}
	for _, name := range forms.Settings() {
		a.Settings[name] = m.Config.Value(name)
	}
	for _, name := range configs.Shaping() {
		if value, ok := m.Config.Given(name); ok {
			a.Given[name] = value
		}
	}
	a.Clusters = planner.Setting{Name: ClusterSetting}
	a.Clusters.Value, _ = m.Config.Given(ClusterSetting)
	return a
}

// request is the planner's part of the settings.
func (m *Model) request() planner.Request {
	r := RequestOf(m.Config)
	r.Costs, r.Profile, r.Context = m.Costs, m.Priced, m.Ctx
	r.Outline, r.Compat, r.Boundary = m.Outline, m.Config.Compat, boundary(m.Config)
	return r
}

// RequestOf is the request that settings alone make, without the model.
func RequestOf(c configs.Config) planner.Request {
	r := planner.Request{Lowered: devices.Lowered(c.Device), Dims: maps.Clone(c.Dims), Strategy: c.Strategy, Level: c.Level, Boundary: c.Boundary, MaxOverhead: c.MaxOverhead,
		Budget:           planner.Size{Bytes: c.Budget.Bytes, Percent: c.Budget.Percent},
		ActivationBudget: planner.Size{Bytes: c.ActivationBudget.Bytes, Percent: c.ActivationBudget.Percent}}
	r.States = devices.StatesAt(c)
	if c.Offload != "" {
		r.Elsewhere = &planner.Elsewhere{Place: c.Offload, Bytes: c.HostBudget}
	}
	for _, q := range c.Requests {
		want := cluster.Request{ID: q.Cluster, Type: q.Strategy, Count: q.Count, Where: q.Pos.String() + ": "}
		for _, l := range q.Layers {
			want.Places = append(want.Places, cluster.Places{First: int(l.First), Last: int(l.Last)})
		}
		r.Clusters = append(r.Clusters, want)
	}
	return r
}

// autoLossScale is the initial value of a dynamic loss scale.
const autoLossScale = 65536

// StepOptions is autograd's part of the settings.
func (m *Model) StepOptions() autograd.Options {
	c := m.Config
	o := autograd.Options{Context: m.Ctx, Loss: m.Loss, Optimizer: c.Optimizer,
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
