package step

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/memopt/exit"
	"memopt/memopt/fit"
	"memopt/planner"
	"memopt/planner/forms"
)

// advised adds to a BudgetError the changes of settings that would meet the budget under dims, and their text. It
// also classifies the error.
func (m *Model) advised(err error, dims map[string]int64) error {
	var wrong *planner.BudgetError
	if !errors.As(err, &wrong) {
		return exit.Classify(err)
	}
	f := m.Fitting(dims)
	f.Found = wrong.Changes
	f.Price("budget", "activation_budget")
	if wrong.Want > 0 {
		// Accumulated gradients take as much memory as the trained parameters.
		if b := f.Config.Budget.Bytes; b == 0 || m.Config.Accumulate > 1 || wrong.Fixed+m.Trains().Bytes < b {
			f.accumulates()
		}
		f.Settings()
	}
	wrong.Changes = f.Found
	wrong.Msg += f.Spell()
	var notes []string
	for _, size := range []configs.Budget{m.Config.Budget, m.Config.ActivationBudget} {
		if size.Bytes > 0 && size.Bytes <= 100 {
			notes = append(notes, fmt.Sprintf("a number alone is bytes: was %dGiB or %d%% meant?", size.Bytes, size.Bytes))
		}
	}
	if note := f.Note(); note != "" {
		notes = append(notes, note)
	}
	if wrong.Note = strings.Join(notes, "; "); wrong.Note != "" {
		wrong.Msg += "; " + wrong.Note
	}
	return exit.Classify(err)
}

// Fitting looks for changes of settings with which a step fits. Each is planned before it is offered.
type Fitting struct {
	*fit.Search
	m      *Model
	Config configs.Config // as requested, with budgets in bytes
	// holds, if not nil, reports whether a plan is small enough; nil if meeting the config's budget is enough.
	holds func(*Model, *planner.Plan) bool
	Left  int // nodes that may still be planned
}

// Fitting starts a search from the model's settings. Budgets in percent refer to the model as it is.
func (m *Model) Fitting(dims map[string]int64) *Fitting {
	c, ask := m.Config, m.Ask()
	if ask, err := m.Steps.InBytes(ask); err == nil { // if it fails, no form can be planned
		c.Budget, c.ActivationBudget = configs.Budget{Bytes: ask.Budget.Bytes}, configs.Budget{Bytes: ask.ActivationBudget.Bytes}
	}
	c.Dims = dims
	f := &Fitting{m: m, Config: c, Left: fit.MostNodes}
	f.Search = &fit.Search{Asked: m.Config, Try: func(set ...planner.Setting) (t fit.Takes, err error) {
		p, err := f.Plan(set...)
		if err == nil {
			t = m.takes(p)
		}
		return t, err
	}}
	return f
}

// takes is what a plan takes of what the settings limit.
func (m *Model) takes(p *planner.Plan) fit.Takes {
	if r := m.request(); r.Budget == (planner.Size{}) {
		return fit.Takes{Bytes: p.Arena, Of: "of arena", Extra: p.Result.Overhead, Unit: p.Unit()}
	}
	return fit.Takes{Bytes: p.Memory.Total, Extra: p.Result.Overhead, Unit: p.Unit()}
}

// With returns the settings with some of them replaced.
func (f *Fitting) With(set []planner.Setting) (c configs.Config, ok bool) {
	c = f.Config
	for _, s := range set {
		if s.Name == "dims" {
			sizes, err := configs.ParseDims(s.Value)
			if err != nil {
				return c, false
			}
			dims := map[string]int64{}
			for _, all := range []map[string]int64{c.Dims, sizes} {
				for name, n := range all {
					dims[name] = n
				}
			}
			c.Dims = dims
			continue
		}
		if err := c.Set(s.Name, s.Value, configs.Source{}); err != nil {
			return c, false
		}
	}
	return c, true
}

// Plan plans under changed settings.
func (f *Fitting) Plan(set ...planner.Setting) (*planner.Plan, error) {
	c, ok := f.With(set)
	if !ok {
		return nil, fit.ErrShort
	}
	work := len(f.m.Graph.Nodes)
	if c.Lossy != "off" {
		work *= forms.Shares // the planner tries that many fractions of the values
	}
	if err := f.spend(work); err != nil {
		return nil, err
	}
	other, err := f.m.With(c)
	if err != nil {
		return nil, fit.ErrShort
	}
	ask := other.Ask()
	ask.Target.Fits = true
	p, err := other.Steps.Best(ask)
	if err != nil || f.holds != nil && !f.holds(other, p) {
		return nil, fit.ErrShort
	}
	return p, nil
}

// tried is the plan under changed settings, or nil; settings that there is no time for are noted.
func (f *Fitting) tried(set []planner.Setting) *planner.Plan {
	p, err := f.Plan(set...)
	f.Late(err, set...)
	return p
}

// spend takes nodes from those that may still be planned.
func (f *Fitting) spend(nodes int) error {
	if f.Left < nodes {
		return &fit.ErrLong{Why: fmt.Sprintf("planning %d nodes takes long", len(f.m.Graph.Nodes))}
	}
	f.Left -= nodes
	return nil
}

// Settings tries the changes of settings that could make the step fit: first those that leave results the same, bit for
// bit, and then, if none does, those that alter numbers, which is never done unless requested.
func (f *Fitting) Settings() {
	f.overhead()
	if f.Config.Compat != "" || f.m.Steps.Brought() || f.m.Profiled != "" {
		return
	}
	var exact []fit.Row
	for _, x := range []struct {
		name string
		off  bool
	}{
		{"strategy", f.Config.Strategy != "auto" && f.Config.Strategy != ""},
		{"shrink", f.Config.Shrink == "off" && f.shrinks()},
		{"chunk_loss", f.Config.ChunkLoss == "off"},
		{"flash_attention", f.Config.Flash == "off" && f.attends("rows")},
	} {
		if x.off {
			exact = append(exact, fit.Change(x.name, "auto"))
		}
	}
	if f.Together(exact...) {
		return
	}
	if f.Config.Flash != "on" && f.attends("on") {
		f.Offer(fit.Change("flash_attention", "on").And("it rounds otherwise in the last digits"))
	}
	var lossy []fit.Row
	if f.Config.Lossy == "off" {
		lossy = append(lossy, fit.Change("lossy", "bf16").And("gradients are not exact"))
	}
	if f.Config.Lossy != "fp8" {
		lossy = append(lossy, fit.Change("lossy", "fp8").And("gradients are less exact"))
	}
	f.First(lossy...)
}

// overhead looks for the limit of extra cost with which a budget can be met, if the current limit is what
// prevents it.
func (f *Fitting) overhead() {
	if f.Config.MaxOverhead == 0 || f.Config.Budget == (configs.Budget{}) && f.Config.ActivationBudget == (configs.Budget{}) {
		return
	}
	if p, err := f.Plan(planner.Setting{Name: "max_overhead", Value: "off"}); err == nil {
		f.Found = append(f.Found, planner.Change{Set: []planner.Setting{{Name: "max_overhead", Value: fmt.Sprintf("%.1f%%", math.Ceil(1000*p.Result.Overhead)/10)}}})
	}
}

// shrinks reports whether the step has values that can be stored in fewer bytes.
func (f *Fitting) shrinks() bool {
	own, err := f.m.Steps.Own(f.m.Ask())
	return err == nil && own.Candidates() > 0
}

// attends reports whether, with flash_attention set to way, the step has attention that is computed in rows or
// tiles.
func (f *Fitting) attends(way string) bool {
	c := f.Config
	c.Flash = way
	other, err := f.m.With(c)
	return err == nil && slices.ContainsFunc(other.Graph.Nodes, func(n *graph.Node) bool {
		return n.Op.Pieces == graph.AttentionInRows || n.Op.Pieces == graph.AttentionInTiles
	})
}
