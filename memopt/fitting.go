package memopt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/forms"
)

// advised adds to a BudgetError the changes of settings that would meet the budget under dims, and their text. It
// also classifies the error.
func (m *Model) advised(err error, dims map[string]int64) error {
	var wrong *planner.BudgetError
	if !errors.As(err, &wrong) {
		return classify(err)
	}
	f := m.fitting(dims)
	f.price(wrong.Changes)
	if f.found = wrong.Changes; wrong.Want > 0 {
		// Accumulated gradients take as much memory as the trained parameters.
		if b := f.config.Budget.Bytes; b == 0 || m.Config.Accumulate > 1 || wrong.Fixed+m.trains().Bytes < b {
			f.accumulates()
		}
		f.settings()
	}
	wrong.Changes = f.found
	wrong.Msg += spell(m.Config, wrong.Changes)
	var notes []string
	for _, size := range []configs.Budget{m.Config.Budget, m.Config.ActivationBudget} {
		if size.Bytes > 0 && size.Bytes <= 100 {
			notes = append(notes, fmt.Sprintf("a number alone is bytes: was %dGiB or %d%% meant?", size.Bytes, size.Bytes))
		}
	}
	if wrong.Note = strings.Join(append(notes, f.unlooked()...), "; "); wrong.Note != "" {
		wrong.Msg += "; " + wrong.Note
	}
	return classify(err)
}

// spell gives changes their text, with settings spelled as the user wrote them, and returns all of them as the end
// of a sentence; "" if there are none.
func spell(asked configs.Config, changes []planner.Change) string {
	var all []string
	for i := range changes {
		c := &changes[i]
		if c.Text == "" {
			var parts []string
			for _, s := range c.Set {
				parts = append(parts, asked.Say(s.Name, s.Value))
			}
			if c.Text = asked.Together(parts); c.Note != "" {
				c.Text += " (" + c.Note + ")"
			}
		}
		all = append(all, c.Text)
	}
	if all == nil {
		return ""
	}
	return "; would fit: " + strings.Join(all, ", or ")
}

// fitting looks for changes of settings with which a step fits. Each is planned before it is suggested.
type fitting struct {
	m      *Model
	config configs.Config // as requested, with budgets in bytes
	// holds, if not nil, reports whether a plan is small enough; nil if meeting the config's budget is enough.
	holds func(*Model, *planner.Plan) bool
	left  int // nodes that may still be planned
	found []planner.Change
	short []string // settings that were not tried, for lack of time
}

// mostFitting bounds the nodes that are planned in one search for what would fit: about a second of work.
const mostFitting = 10_000

// fitting starts a search from the model's settings. Budgets in percent refer to the model as it is.
func (m *Model) fitting(dims map[string]int64) *fitting {
	c, ask := m.Config, m.ask()
	if ask, err := m.steps.InBytes(ask); err == nil { // if it fails, no form can be planned
		c.Budget, c.ActivationBudget = configs.Budget{Bytes: ask.Budget.Bytes}, configs.Budget{Bytes: ask.ActivationBudget.Bytes}
	}
	c.Dims = dims
	return &fitting{m: m, config: c, left: mostFitting}
}

// with returns the settings with some of them replaced.
func (f *fitting) with(set []planner.Setting) (c configs.Config, ok bool) {
	c = f.config
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

// plan plans under changed settings; nil means that it does not fit, or was not tried.
func (f *fitting) plan(set ...planner.Setting) (*Model, *planner.Plan) {
	c, ok := f.with(set)
	if !ok {
		return nil, nil
	}
	work := len(f.m.Graph.Nodes)
	if c.Lossy != "off" {
		work *= forms.Shares // the planner tries that many fractions of the values
	}
	if f.left < work {
		f.short = append(f.short, set[len(set)-1].Name)
		return nil, nil
	}
	f.left -= work
	other, err := f.m.with(c)
	if err != nil {
		return nil, nil
	}
	ask := other.ask()
	ask.Target.Fits = true
	p, err := other.steps.Best(ask)
	if err != nil || f.holds != nil && !f.holds(other, p) {
		return nil, nil
	}
	return other, p
}

// unlooked names the settings that there was no time to try.
func (f *fitting) unlooked() []string {
	if f.short == nil {
		return nil
	}
	var names []string
	for _, s := range f.short {
		if name := f.m.Config.Name(s); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return []string{fmt.Sprintf("not computed, as planning %d nodes takes long: %s", len(f.m.Graph.Nodes), strings.Join(names, ", "))}
}

// price adds to changes of a budget the cost of their plans.
func (f *fitting) price(changes []planner.Change) {
	for i := range changes {
		c := &changes[i]
		if name := c.Set[0].Name; name != "budget" && name != "activation_budget" {
			continue
		}
		if _, p := f.plan(c.Set...); p != nil {
			c.Note = costNote(p)
		}
	}
}

// costNote is a plan's extra compute as text.
func costNote(p *planner.Plan) string {
	if p.Result.Overhead < 5e-4 {
		return "no extra compute"
	}
	return fmt.Sprintf("+%.1f %% compute", 100*p.Result.Overhead)
}

// ruled is a setting that may keep a step from fitting: the value to try instead.
type ruled struct {
	setting, value string
	note           string // side effect
	is             func(f *fitting) bool
}

// exact are settings whose change leaves results the same, bit for bit.
var exact = []ruled{
	{"strategy", "auto", "", func(f *fitting) bool { return f.config.Strategy != "auto" && f.config.Strategy != "" }},
	{"shrink", "auto", "", func(f *fitting) bool { return f.config.Shrink == "off" && f.shrinks() }},
	{"chunk_loss", "auto", "", func(f *fitting) bool { return f.config.ChunkLoss == "off" }},
	{"flash_attention", "auto", "", func(f *fitting) bool { return f.config.Flash == "off" && f.attends("rows") }},
}

// rounding are settings whose change alters numbers, which is never done unless requested.
var rounding = []ruled{
	{"flash_attention", "on", "; it rounds otherwise in the last digits", func(f *fitting) bool { return f.config.Flash != "on" && f.attends("on") }},
	{"lossy", "bf16", "; gradients are not exact", func(f *fitting) bool { return f.config.Lossy == "off" }},
	{"lossy", "fp8", "; gradients are less exact", func(f *fitting) bool { return f.config.Lossy != "fp8" }},
}

// settings tries the changes of settings that could make the step fit.
func (f *fitting) settings() {
	f.overhead()
	if f.config.Compat != "" || f.m.steps.Brought() || f.m.Profiled != "" {
		return
	}
	reached := false
	var off []planner.Setting
	for _, s := range exact {
		if !s.is(f) {
			continue
		}
		set := planner.Setting{Name: s.setting, Value: s.value}
		off = append(off, set)
		if _, p := f.plan(set); p != nil {
			f.add(p, s.note, set)
			reached = true
		}
	}
	if !reached && len(off) > 1 {
		if _, p := f.plan(off...); p != nil {
			f.add(p, "", off...)
			reached = true
		}
	}
	lossy := false
	for _, s := range rounding {
		if reached || lossy && s.setting == "lossy" || !s.is(f) {
			continue
		}
		set := planner.Setting{Name: s.setting, Value: s.value}
		if _, p := f.plan(set); p != nil {
			f.add(p, s.note, set)
			lossy = lossy || s.setting == "lossy"
		}
	}
}

// add adds a change of settings under which there is a plan.
func (f *fitting) add(p *planner.Plan, note string, set ...planner.Setting) {
	c := planner.Instead(set[0], f.m.request(), p, note)
	c.Set = set
	f.found = append(f.found, c)
}

// overhead looks for the limit of extra compute with which a budget can be met, if the current limit is what
// prevents it.
func (f *fitting) overhead() {
	if f.config.MaxOverhead == 0 || f.config.Budget == (configs.Budget{}) && f.config.ActivationBudget == (configs.Budget{}) {
		return
	}
	if _, p := f.plan(planner.Setting{Name: "max_overhead", Value: "off"}); p != nil {
		f.found = append(f.found, planner.Change{Set: []planner.Setting{{Name: "max_overhead", Value: fmt.Sprintf("%.1f%%", math.Ceil(1000*p.Result.Overhead)/10)}}})
	}
}

// shrinks reports whether the step has values that can be stored in fewer bytes.
func (f *fitting) shrinks() bool {
	own, err := f.m.steps.Own(f.m.ask())
	return err == nil && own.Candidates() > 0
}

// attends reports whether, with flash_attention set to way, the step has attention that is computed in rows or
// tiles.
func (f *fitting) attends(way string) bool {
	c := f.config
	c.Flash = way
	other, err := f.m.with(c)
	return err == nil && slices.ContainsFunc(other.Graph.Nodes, func(n *graph.Node) bool {
		return n.Op.Pieces == graph.AttentionInRows || n.Op.Pieces == graph.AttentionInTiles
	})
}
