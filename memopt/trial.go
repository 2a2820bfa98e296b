package memopt

import (
	"errors"
	"slices"

	"memopt/configs"
	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/shrink"
)

// trial plans forms of a model's step that keep some in less, and keeps the best, which
// becomes the model's. Shares of what the step needs are those of the exact step.
type trial struct {
	m                  *Model
	look               *planner.Prospect // at the form that the settings give
	budget, activation planner.Size
	worth              planner.Worth // what a plan has to come to, if there is none
}

func newTrial(m *Model) (t *trial, err error) {
	r := m.as(request(m.Config))
	if m.forms == nil {
		t = &trial{m: m}
		t.look, err = planner.Look(m.Graph, r)
		return t, err
	}
	if m.forms.tried {
		if r, err = r.InBytes(m.forms.exact); err != nil {
			return nil, err
		}
	}
	t = &trial{m: m, budget: r.Budget, activation: r.ActivationBudget}
	t.look, err = t.at(m.forms.on)
	return t, err
}

// at looks at a form.
func (t *trial) at(on []bool) (*planner.Prospect, error) {
	g, r, err := t.m.form(on)
	if err != nil {
		return nil, err
	}
	r.Budget, r.ActivationBudget = t.budget, t.activation
	return planner.Look(g, r)
}

// best is the best plan. It has no table yet. One that does not come to worth need not be
// found.
func (t *trial) best(worth planner.Worth) (*planner.Plan, error) {
	t.worth = worth
	p, err := t.look.Plan(worth)
	if t.m.forms != nil && t.m.forms.tried {
		p, err = t.better(p, err)
	}
	return p, err
}

// than is what a plan has to come to so as to be taken instead of one that was found.
func (t *trial) than(p *planner.Plan, err error) planner.Worth {
	if err != nil {
		return t.worth
	}
	return t.m.worth(p, nil)
}

func (t *trial) plan(on []bool, worth planner.Worth) (*planner.Plan, error) {
	x, err := t.at(on)
	if err != nil {
		return nil, err
	}
	return x.Plan(worth)
}

// better compares the plan of the form that the settings give with what else the
// planner may do: keep in less what is exact, and round, under a budget, as few
// values as make the plan no dearer than more would.
func (t *trial) better(p *planner.Plan, err error) (*planner.Plan, error) {
	f := t.m.forms
	if on := f.with(f.on); t.m.mayExtract() && !slices.Equal(on, f.on) && !(settled(err) && t.trifling(on)) {
		if other, wrong := t.plan(on, t.than(p, err)); t.m.prefers(p, err, other, wrong) {
			p, err = other, wrong
			t.take(on, other)
		}
	}
	order := shrink.Cheapest(f.found)
	if !limited(t.m.Config) || len(order) == 0 {
		return p, err
	}
	base := slices.Clone(f.on)
	first := func(n int) []bool {
		on := slices.Clone(base)
		for _, i := range order[:n] {
			on[i] = true
		}
		return on
	}
	best, tried := 0, []int{0}
	for k := 1; k <= rungs && !free(p, err); k++ {
		n := (k*len(order) + rungs - 1) / rungs
		tried = append(tried, n)
		worth := t.than(p, err)
		if err == nil {
			worth.Cost -= trifle(p)
		}
		other, wrong := t.plan(first(n), worth)
		if err == nil && (wrong != nil || costs(other) > costs(p)-trifle(p)) || err != nil && !t.m.prefers(p, err, other, wrong) {
			continue
		}
		p, err, best = other, wrong, n
	}
	// Fewer may do as well.
	least, most := 0, 0.0
	for _, n := range tried {
		if n < best {
			least = n
		}
	}
	if err == nil {
		most = costs(p) + trifle(p)
	}
	for err == nil && best-least > 1 {
		n := (least + best) / 2
		if other, wrong := t.plan(first(n), planner.Worth{Cost: most}); wrong == nil && costs(other) <= most {
			p, best = other, n
		} else {
			least = n
		}
	}
	t.take(first(best), p)
	return p, err
}

// take makes a form the model's. Where it has no plan it is the one that comes nearest to
// what is asked, and what would fit is looked for in it.
func (t *trial) take(on []bool, p *planner.Plan) {
	t.m.forms.on = on
	if p != nil {
		t.m.Graph = p.Graph
	} else if g, err := t.m.forms.make(on); err == nil {
		t.m.Graph = g
	}
}

// rungs is how many shares of the values are rounded for a trial.
const rungs = 8

// free is whether a plan is there that computes nothing again.
func free(p *planner.Plan, err error) bool { return err == nil && p.Result.Again == 0 }

func costs(p *planner.Plan) float64 {
	cost, _ := p.Cost()
	return cost
}

// trifle is what it takes of a step to round more values for.
func trifle(p *planner.Plan) float64 {
	_, plain := p.Cost()
	return plain / 1000
}

// settled is whether there is a plan, or none that is of use beside one of another form: a few
// bytes decide between the others, those that fit and those that do not.
func settled(err error) bool {
	var none *planner.BudgetError
	return err == nil || errors.As(err, &none) && none.Best == 0
}

// trifling is whether what a form keeps in less beside what is on is too few bytes for a
// plan to be better: limits of the arena are hardly told apart by as many.
func (t *trial) trifling(on []bool) bool {
	arena, wrong := t.look.Arena()
	dims, err := graph.Bind(t.m.Config.Dims)
	if wrong != nil || err != nil {
		return false
	}
	f, saved := t.m.forms, graph.Num(0)
	for i, c := range f.found {
		if on[i] && !f.on[i] {
			saved = saved.Add(c.Before.Sub(c.After))
		}
	}
	bytes, err := dims.Eval(saved)
	return err == nil && bytes < arena/toldApart
}

// toldApart is how many limits of an arena planning tells apart, about.
const toldApart = 1 << 13

// takeForm gives a model the form of another one of the same step: what is kept
// in less there is here, by the names of values, and nothing else is asked for.
func (m *Model) takeForm(from *Model) (err error) {
	names := map[string]bool{}
	for i, c := range from.forms.found {
		names[c.Value.Name] = from.forms.on[i]
	}
	f := m.forms
	for i, c := range f.found {
		f.on[i] = names[c.Value.Name]
	}
	f.tried = false
	c := &m.Config
	c.Dims, c.Budget, c.ActivationBudget, c.MaxOverhead, c.Level, c.Requests = from.Config.Dims, configs.Budget{}, configs.Budget{}, 0, 0, nil
	m.Graph, err = f.make(f.on)
	return err
}
