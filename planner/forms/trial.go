package forms

import (
	"errors"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/planner"
	"memopt/planner/shrink"
)

// trial plans a form with various candidates stored smaller, and keeps the best choice. Budgets
// given as shares are shares of the step with whole values.
type trial struct {
	*Form
	look   *planner.Search // of the form with the candidates that settings turn on
	target planner.Target  // what the first plan has to reach
}

func newTrial(f *Form) (t *trial, err error) {
	t = &trial{Form: f}
	if f.plain == nil && (f.open || f.Graph == f.whole) {
		if f.beside, err = planner.Look(f.whole, f.ask.Request); err != nil {
			return nil, err
		}
	}
	if f.open {
		r := f.ask.Request
		r.Plain = f.plain
		if r, err = f.inBytesOf(r); err != nil {
			return nil, err
		}
		f.ask.Budget, f.ask.ActivationBudget = r.Budget, r.ActivationBudget
	}
	t.look, err = t.lookAt(f.on)
	return t, err
}

func (t *trial) lookAt(on []bool) (*planner.Search, error) {
	g, r, err := t.at(on)
	if err != nil {
		return nil, err
	}
	if t.plain == nil && t.beside != nil && g == t.whole {
		return t.beside.With(r), nil
	}
	return planner.Look(g, r)
}

// best returns the form's best plan, without a table. A plan that does not reach the target need not be
// found.
func (t *trial) best(target planner.Target) (*planner.Plan, error) {
	t.target = target
	p, err := t.look.Plan(target)
	if t.open {
		p, err = t.better(p, err)
	}
	return p, err
}

// than is what a plan has to reach to replace p.
func (t *trial) than(p *planner.Plan, err error) planner.Target {
	if err != nil {
		return t.target
	}
	return t.ask.target(p, nil)
}

func (t *trial) plan(on []bool, target planner.Target) (*planner.Plan, error) {
	x, err := t.lookAt(on)
	if err != nil {
		return nil, err
	}
	return x.Plan(target)
}

// better compares the plan p with the plan that uses all exact extracts, and, under a budget, with
// plans that round as few values as needed to be as cheap as any that rounds more.
func (t *trial) better(p *planner.Plan, err error) (*planner.Plan, error) {
	if on := t.extracted(t.on); t.mayExtract() && !slices.Equal(on, t.on) && !(settled(err) && t.trifling(on)) {
		if other, wrong := t.plan(on, t.than(p, err)); t.ask.prefers(p, err, other, wrong) {
			p, err = other, wrong
			t.take(on, other)
		}
	}
	order := shrink.Cheapest(t.found)
	if !t.ask.limited() || len(order) == 0 {
		return p, err
	}
	base := slices.Clone(t.on)
	first := func(n int) []bool {
		on := slices.Clone(base)
		for _, i := range order[:n] {
			on[i] = true
		}
		return on
	}
	best, tried := 0, []int{0}
	for k := 1; k <= Shares && !free(p, err); k++ {
		n := (k*len(order) + Shares - 1) / Shares
		tried = append(tried, n)
		target := t.than(p, err)
		if err == nil {
			target.Cost -= trifle(p)
		}
		other, wrong := t.plan(first(n), target)
		if err == nil && (wrong != nil || costOf(other) > costOf(p)-trifle(p)) || err != nil && !t.ask.prefers(p, err, other, wrong) {
			continue
		}
		p, err, best = other, wrong, n
	}
	// Bisect for the fewest values that do as well.
	least, most := 0, 0.0
	for _, n := range tried {
		if n < best {
			least = n
		}
	}
	if err == nil {
		most = costOf(p) + trifle(p)
	}
	for err == nil && best-least > 1 {
		n := (least + best) / 2
		if other, wrong := t.plan(first(n), planner.Target{Cost: most}); wrong == nil && costOf(other) <= most {
			p, best = other, n
		} else {
			least = n
		}
	}
	t.take(first(best), p)
	return p, err
}

// Shares is the number of steps in which more and more values are rounded, if rounding is asked
// for.
const Shares = 8

// free reports whether p exists and recomputes nothing.
func free(p *planner.Plan, err error) bool { return err == nil && p.Result.Again == 0 }

// trifle is the least cost that rounding more values has to save.
func trifle(p *planner.Plan) float64 {
	_, plain := p.Cost()
	return plain / 1000
}

// settled reports whether p exists, or the search for it was cut short because it could not beat
// another form's plan. Otherwise a few bytes may decide whether a plan fits.
func settled(err error) bool {
	var none *planner.BudgetError
	return err == nil || errors.As(err, &none) && none.Best == 0
}

// trifling reports whether the candidates in on save too few bytes beyond those of the form for
// planning to notice.
func (t *trial) trifling(on []bool) bool {
	arena, wrong := t.look.Arena()
	return wrong == nil && t.freed(on) < arena/resolution
}

// freed is the bytes that the candidates in on save beyond those of the form.
func (t *trial) freed(on []bool) int64 {
	saved := graph.Num(0)
	for i, c := range t.found {
		if on[i] && !t.on[i] {
			saved = saved.Add(c.Before.Sub(c.After))
		}
	}
	dims, err := graph.Bind(t.ask.Dims)
	if err != nil {
		return math.MaxInt64 / 2
	}
	bytes, err := dims.Eval(saved)
	if err != nil {
		return math.MaxInt64 / 2
	}
	return bytes
}

// resolution is about how many limits of an arena planning distinguishes.
const resolution = 1 << 13
