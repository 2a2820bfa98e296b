package memopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/shrink"
)

// forms is a training step, and what of it can be kept in less: each choice is
// another graph of the same step.
type forms struct {
	ctx   context.Context
	exact *graph.Graph
	found []shrink.Candidate
	keys  []shrink.Key
	on    []bool // the candidates that the model's graph keeps less of
	// asked is whether settings name what is on; tried whether the planner
	// compares; foreign that a trainer made the step, and runs it: extracts are
	// nothing to it, so they are for those who ask.
	asked, tried, foreign bool

	made   *graph.Graph // the last one that was made, and what is on in it
	madeOn []bool
}

// lossyTypes are the types that floats can be kept in, by their setting.
var lossyTypes = map[string]graph.DType{"bf16": graph.BFloat16, "fp16": graph.Float16, "fp8": graph.Float8E4M3FN}

// shape picks the form of a step: everything for on, what requests name, and for
// auto nothing yet. Where rounding is asked for, all is rounded that requests
// name, or else all, but under a budget only what it takes.
func (m *Model) shape(step *graph.Graph) error {
	f := &forms{ctx: m.ctx, exact: step, foreign: step == m.Graph}
	m.forms = f
	var exact, lossy []shrink.Candidate
	var err error
	if exact, err = shrink.Candidates(m.ctx, step); err != nil {
		return err
	}
	if to := lossyTypes[m.Config.Lossy]; to != 0 {
		lossy = shrink.Lossy(step, to)
	}
	if m.Config.Shrink == "off" && len(lossy) > 0 {
		exact = nil
	}
	f.found = shrink.Merge(exact, lossy)
	f.keys = shrink.Keys(f.found)
	f.on = make([]bool, len(f.found))
	r := request(m.Config)
	for _, k := range f.keys {
		for i, c := range k.Members {
			f.on[c] = m.Config.Compat == "" && (m.Config.Shrink != "off" || f.found[c].Lossy) && r.Wants(k.ID, i)
			f.asked = f.asked || f.on[c]
		}
	}
	budget := limited(m.Config)
	for i, c := range f.found {
		whole := len(lossy) > 0 && !f.asked && !budget // all that would be rounded, in its exact form where it has one
		f.on[i] = f.on[i] || whole || !c.Lossy && m.Config.Shrink == "on"
	}
	lossless := m.mayExtract() && m.Config.Compat == "" && (compares(m.Config) || m.Config.Level == 2)
	f.tried = !f.asked && len(f.found) > 0 && (lossless || budget && len(lossy) > 0)
	m.Graph, err = f.make(f.on)
	return err
}

// mayExtract is whether the planner may keep in less what is exact.
func (m *Model) mayExtract() bool { return m.Config.Shrink == "auto" && !m.forms.foreign }

// limited is whether a budget binds the plan; compares whether settings ask for a
// plan that is lower or cheaper than another: then other forms of the step are
// worth a look.
func limited(c configs.Config) bool {
	return c.Budget != (configs.Budget{}) || c.ActivationBudget != (configs.Budget{})
}

func compares(c configs.Config) bool { return limited(c) || c.MaxOverhead > 0 }

// make is the step in which some candidates are kept in less.
func (f *forms) make(on []bool) (*graph.Graph, error) {
	var chosen []shrink.Candidate
	for i, is := range on {
		if is {
			chosen = append(chosen, f.found[i])
		}
	}
	if len(chosen) == 0 {
		return f.exact, nil
	}
	if f.made != nil && slices.Equal(on, f.madeOn) { // a table asks for what was tried
		return f.made, nil
	}
	g, err := shrink.Apply(f.ctx, f.exact, chosen)
	if err == nil {
		f.made, f.madeOn = g, slices.Clone(on)
	}
	return g, err
}

// with is on, and all that is exact.
func (f *forms) with(on []bool) []bool {
	all := slices.Clone(on)
	for i, c := range f.found {
		all[i] = all[i] || !c.Lossy
	}
	return all
}

// rounds is how many values are rounded.
func (f *forms) rounds() int { return f.lossy(f.on) }

// lossy is how many of some candidates would be rounded.
func (f *forms) lossy(on []bool) (n int) {
	for i, is := range on {
		if is && f.found[i].Lossy {
			n++
		}
	}
	return n
}

// lossyText says what of the step is not exact.
func (f *forms) lossyText(name string) string {
	of := f.lossy(all(len(f.found)))
	switch n := f.rounds(); n {
	case 0:
		return fmt.Sprintf("lossy: nothing needs to be kept as %s, so gradients are exact", name)
	case of:
		return fmt.Sprintf("lossy: %d values are kept as %s for the backward pass, so gradients are not exact", n, name)
	default:
		return fmt.Sprintf("lossy: %d of %d values are kept as %s for the backward pass, so gradients are not exact", n, of, name)
	}
}

// extracts are the rows of what can be kept in less, beside what is on.
func (f *forms) extracts(on []bool) (rows []planner.Extract) {
	for _, k := range f.keys {
		e := planner.Extract{ID: k.ID}
		for _, c := range k.Members {
			e.Nodes = append(e.Nodes, f.found[c].Value.Def.Name)
			e.Savings = append(e.Savings, f.found[c].Before.Sub(f.found[c].After))
			e.On = append(e.On, on[c])
			e.How = append(e.How, f.found[c].How)
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

// tabulate adds to the plan that was taken its table, and what is to be said of
// the model's form.
func (m *Model) tabulate(p *planner.Plan, err error) (*planner.Plan, error) {
	if err == nil {
		err = p.Tabulate()
	}
	if err != nil {
		return nil, err
	}
	f := m.forms
	if f == nil {
		return p, nil
	}
	p.Warnings = append(p.Warnings, f.refused(m.Config)...)
	if lossyTypes[m.Config.Lossy] != 0 {
		p.Warnings = append(p.Warnings, f.lossyText(m.Config.Lossy))
	}
	return p, nil
}

// refused names the requests that the settings themselves overrule.
func (f *forms) refused(c configs.Config) (out []string) {
	r := request(c)
	if c.Shrink != "off" || lossyTypes[c.Lossy] != 0 {
		return nil
	}
	for _, k := range f.keys {
		if r.Wants(k.ID, 0) {
			out = append(out, fmt.Sprintf("the values of %q are kept whole, whatever a request says: shrink is off", k.ID))
		}
	}
	return out
}

// form is the step in which some candidates are kept in less, and the request
// whose table tells them. Where the planner compares forms, all are told beside the
// step with its values whole.
func (m *Model) form(on []bool) (g *graph.Graph, r planner.Request, err error) {
	g, r = m.Graph, m.as(request(m.Config))
	if m.forms == nil {
		return g, r, nil
	}
	if m.Config.Compat == "" {
		r.Extracts = m.forms.extracts(on)
	}
	if r.Plain == nil && m.forms.tried {
		r.Plain = m.forms.exact
	}
	if !slices.Equal(on, m.forms.on) {
		g, err = m.forms.make(on)
	}
	return g, r, err
}

// largest is the plan of the largest size of a dim that fits, in the form of the
// step that allows the largest one; nil if none above another size does.
func (m *Model) largest(dim string, above int64) (*planner.Plan, error) {
	plan := func(on []bool, above int64) (*planner.Plan, error) {
		g, r, err := m.form(on)
		if err != nil {
			return nil, err
		}
		return planner.Largest(g, r, dim, above)
	}
	if m.forms == nil {
		return plan(nil, above)
	}
	f := m.forms
	p, err := plan(f.on, above)
	if !f.tried {
		return p, err
	}
	forms := [][]bool{f.with(f.on)}
	if !m.mayExtract() {
		forms = nil
	}
	if most := all(len(f.found)); f.lossy(most) > 0 {
		forms = append(forms, most)
	}
	for _, on := range forms {
		var be *planner.BudgetError
		if p != nil {
			above = p.Request.Dims[dim]
		}
		other, wrong := plan(on, above)
		if other == nil || wrong != nil || err != nil && !errors.As(err, &be) {
			continue
		}
		p, err = other, nil
		f.on, m.Graph = on, other.Graph
	}
	return p, err
}

func all(n int) []bool { return slices.Repeat([]bool{true}, n) }

// prefers is whether another plan is better: it can be had, it costs less where
// a budget binds both, or is lower where none does; of those as low the cheaper one
// if cost is limited, or else the one that keeps less. Of equals the first stays.
func (m *Model) prefers(p *planner.Plan, err error, other *planner.Plan, wrong error) bool {
	if err != nil || wrong != nil {
		var a, b *planner.BudgetError
		if errors.As(err, &a) && errors.As(wrong, &b) {
			return b.Best > 0 && b.Best < a.Best // the nearer miss is told
		}
		return err != nil && wrong == nil && errors.As(err, &a)
	}
	arena, cost := cmp.Compare(other.Arena, p.Arena), cmp.Compare(costs(other), costs(p))
	stashed := cmp.Compare(other.Result.Stashed, p.Result.Stashed)
	switch {
	case limited(m.Config):
		return cmp.Or(cost, arena) < 0
	case m.Config.MaxOverhead > 0:
		return cmp.Or(arena, cost, stashed) < 0
	default:
		return cmp.Or(arena, stashed, cost) < 0
	}
}

// worth is what another plan has to come to so that the model prefers it to one that
// was found, if one was.
func (m *Model) worth(p *planner.Plan, err error) planner.Worth {
	switch {
	case err != nil:
		return planner.Worth{}
	case limited(m.Config):
		return planner.Worth{Cost: costs(p)}
	default:
		return planner.Worth{Arena: p.Arena, Glance: true}
	}
}

// decided is the settings that make the form again which the planner chose, where
// it had to.
func (f *forms) decided() map[string]string {
	if f == nil || !f.tried {
		return nil
	}
	lossless := slices.IndexFunc(f.found, func(c shrink.Candidate) bool { return !c.Lossy })
	switch {
	case f.rounds() > 0:
		return map[string]string{"shrink": "auto", requests: f.spelled()}
	case lossless >= 0 && f.on[lossless]:
		return map[string]string{"shrink": "on"}
	case f.lossy(all(len(f.found))) > 0:
		return nil // under a budget nothing is rounded, or extracted, that requests do not name
	default:
		return map[string]string{"shrink": "off"}
	}
}

// spelled is what is on as requests.
func (f *forms) spelled() string {
	var parts []string
	for _, k := range f.keys {
		var places []string
		for i, c := range k.Members {
			if f.on[c] {
				places = append(places, fmt.Sprint(i))
			}
		}
		if len(places) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%d:{%s}", k.ID, cluster.Compromise, strings.Join(places, ",")))
		}
	}
	return strings.Join(parts, ",")
}
