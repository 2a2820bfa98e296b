package memopt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/shrink"
)

// forms is a training step that was made here, and what of it can be kept in
// less: each choice is another graph of the same step.
type forms struct {
	exact *graph.Graph
	found []shrink.Candidate
	keys  []shrink.Key
	lossy graph.DType // what floats are kept in besides; 0 if they stay
	on    []bool      // the candidates that the model's graph keeps less of
	// asked is whether settings name what is on; tried whether the planner
	// compares.
	asked, tried bool
}

// lossyTypes are the types that floats can be kept in, by their setting.
var lossyTypes = map[string]graph.DType{"bf16": graph.BFloat16, "fp16": graph.Float16}

// shape picks the form of a step: everything for on, what requests name, and for
// auto nothing yet.
func (m *Model) shape(step *graph.Graph) error {
	found, err := shrink.Candidates(step)
	if err != nil {
		return err
	}
	f := &forms{exact: step, found: found, keys: shrink.Keys(found), on: make([]bool, len(found)), lossy: lossyTypes[m.Config.Lossy]}
	m.forms = f
	r := request(m.Config)
	switch {
	case m.Config.Shrink == "on":
		f.on = all(len(found))
	case m.Config.Shrink == "auto" && m.Config.Compat == "":
		for _, k := range f.keys {
			for i, c := range k.Members {
				f.on[c] = r.Wants(k.ID, i)
				f.asked = f.asked || f.on[c]
			}
		}
		f.tried = !f.asked && len(found) > 0 && (compares(m.Config) || m.Config.Level == 2)
	}
	m.Graph, err = f.make(f.on)
	return err
}

func all(n int) []bool { return slices.Repeat([]bool{true}, n) }

// compares is whether settings ask for a plan that is lower or cheaper than
// another: then other forms of the step are worth a look.
func compares(c configs.Config) bool {
	return c.Budget != (configs.Budget{}) || c.ActivationBudget != (configs.Budget{}) || c.MaxOverhead > 0
}

// make is the step in which some candidates are kept in less.
func (f *forms) make(on []bool) (*graph.Graph, error) {
	g, err := f.shrunk(on)
	if err != nil || f.lossy == 0 {
		return g, err
	}
	return shrink.Apply(g, shrink.Lossy(g, f.lossy))
}

// shrunk is make without loss.
func (f *forms) shrunk(on []bool) (*graph.Graph, error) {
	var chosen []shrink.Candidate
	for i, is := range on {
		if is {
			chosen = append(chosen, f.found[i])
		}
	}
	if len(chosen) == 0 {
		return f.exact, nil
	}
	return shrink.Apply(f.exact, chosen)
}

// lossyText says what of the step is not exact.
func (f *forms) lossyText(name string) (string, error) {
	g, err := f.shrunk(f.on)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("lossy: %d values are kept as %s for the backward pass, so gradients are not exact", len(shrink.Lossy(g, f.lossy)), name), nil
}

// extracts are the rows of what can be kept in less, beside what is on.
func (f *forms) extracts(on []bool) (rows []planner.Extract) {
	for _, k := range f.keys {
		e := planner.Extract{ID: k.ID}
		for _, c := range k.Members {
			e.Nodes = append(e.Nodes, f.found[c].Value.Def.Name)
			e.Savings = append(e.Savings, f.found[c].Before.Sub(f.found[c].After))
			e.On = append(e.On, on[c])
		}
		e.Form = func(alone, is bool) (*graph.Graph, error) {
			other := make([]bool, len(on))
			if !alone {
				copy(other, on)
			}
			for _, c := range k.Members {
				other[c] = is
			}
			return f.make(other)
		}
		rows = append(rows, e)
	}
	return rows
}

// best plans the model's graph and, where settings leave it to the planner, the
// form that keeps all it can in less; the better one becomes the model's.
func (m *Model) best() (*planner.Plan, error) {
	if m.forms == nil {
		p, err := planner.Make(m.Graph, m.as(request(m.Config)))
		if err != nil {
			return nil, err
		}
		return p, p.Tabulate()
	}
	f := m.forms
	plan := func(on []bool) (*planner.Plan, error) {
		g, r, err := m.form(on)
		if err != nil {
			return nil, err
		}
		return planner.Make(g, r)
	}
	p, err := plan(f.on)
	if f.tried {
		on := all(len(f.found))
		if other, wrong := plan(on); m.prefers(p, err, other, wrong) {
			p, err = other, wrong
			f.on, m.Graph = on, graphOf(other, m.Graph)
		}
	}
	if err == nil {
		err = p.Tabulate()
	}
	if err != nil {
		return nil, err
	}
	p.Warnings = append(p.Warnings, f.refused(m.Config)...)
	if f.lossy == 0 {
		return p, nil
	}
	text, err := f.lossyText(m.Config.Lossy)
	p.Warnings = append(p.Warnings, text)
	return p, err
}

// refused names the requests that the settings themselves overrule.
func (f *forms) refused(c configs.Config) (out []string) {
	r := request(c)
	for _, k := range f.keys {
		if c.Shrink == "off" && r.Wants(k.ID, 0) {
			out = append(out, fmt.Sprintf("the values of %q are kept whole, whatever a request says: shrink is off", k.ID))
		}
	}
	return out
}

// form is the step in which some candidates are kept in less, and the request
// whose table tells them.
func (m *Model) form(on []bool) (g *graph.Graph, r planner.Request, err error) {
	g, r = m.Graph, m.as(request(m.Config))
	if m.forms == nil {
		return g, r, nil
	}
	if m.Config.Compat == "" {
		r.Extracts = m.forms.extracts(on)
	}
	if !slices.Equal(on, m.forms.on) {
		g, err = m.forms.make(on)
	}
	return g, r, err
}

// largest is the plan of the largest size of a dim that fits, in the form of the
// step that allows the larger one.
func (m *Model) largest(dim string) (*planner.Plan, error) {
	if m.forms == nil {
		return planner.Largest(m.Graph, m.as(request(m.Config)), dim)
	}
	plan := func(on []bool) (*planner.Plan, error) {
		g, r, err := m.form(on)
		if err != nil {
			return nil, err
		}
		return planner.Largest(g, r, dim)
	}
	f := m.forms
	p, err := plan(f.on)
	if !f.tried {
		return p, err
	}
	var be *planner.BudgetError
	on := all(len(f.found))
	other, wrong := plan(on)
	if wrong != nil || err != nil && !errors.As(err, &be) || err == nil && other.Request.Dims[dim] <= p.Request.Dims[dim] {
		return p, err
	}
	f.on, m.Graph = on, other.Graph
	return other, nil
}

func graphOf(p *planner.Plan, g *graph.Graph) *graph.Graph {
	if p != nil {
		return p.Graph
	}
	return g
}

// prefers is whether another plan is better: it can be had, it costs less where
// a budget binds both, or is lower where none does. Of equals the first stays.
func (m *Model) prefers(p *planner.Plan, err error, other *planner.Plan, wrong error) bool {
	if err != nil || wrong != nil {
		var a, b *planner.BudgetError
		if errors.As(err, &a) && errors.As(wrong, &b) {
			return b.Best > 0 && b.Best < a.Best // the nearer miss is told
		}
		return err != nil && wrong == nil && errors.As(err, &a)
	}
	cost, plain := p.Cost()
	less, _ := other.Cost()
	if limit := m.Config.MaxOverhead; limit > 0 && less > (1+limit)*plain {
		return false
	}
	if m.Config.Budget == (configs.Budget{}) && m.Config.ActivationBudget == (configs.Budget{}) {
		return cmp.Or(cmp.Compare(other.Arena, p.Arena), cmp.Compare(other.Result.Stashed, p.Result.Stashed), cmp.Compare(less, cost)) < 0
	}
	return less < cost || less == cost && other.Arena < p.Arena
}

// shrinkSetting is what a plan file says of the form of its graph: nothing
// where nothing had to be decided.
func (m *Model) shrinkSetting() (value string, decided bool) {
	switch f := m.forms; {
	case f == nil || !f.tried:
		return "", false
	case slices.Contains(f.on, true):
		return "on", true
	}
	return "off", true
}
