package forms

import (
	"errors"
	"math"
	"slices"

	"memopt/memopt/graph"
	"memopt/planner"
	"memopt/planner/shrink"
)

// trial plans a form with some of its values kept in less, and keeps the best choice. Shares of what the
// step needs are those of the step with all values whole.
type trial struct {
	*Form
	look  *planner.Prospect // at the form that settings give
	worth planner.Worth     // what a plan has to come to, if there is none
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

func (t *trial) lookAt(on []bool) (*planner.Prospect, error) {
	g, r, err := t.at(on)
	if err != nil {
		return nil, err
	}
	if t.plain == nil && t.beside != nil && g == t.whole {
		return t.beside.With(r), nil
	}
	return planner.Look(g, r)
}

// best is the best plan. It has no table yet. One that does not come to worth need not be
// found.
func (t *trial) best(worth planner.Worth) (*planner.Plan, error) {
	t.worth = worth
	p, err := t.look.Plan(worth)
	if t.open {
		p, err = t.better(p, err)
	}
	return p, err
}

// than is what a plan has to come to so as to be taken instead of one that was found.
func (t *trial) than(p *planner.Plan, err error) planner.Worth {
	if err != nil {
		return t.worth
	}
	return t.ask.worth(p, nil)
}

func (t *trial) plan(on []bool, worth planner.Worth) (*planner.Plan, error) {
	x, err := t.lookAt(on)
	if err != nil {
		return nil, err
	}
	return x.Plan(worth)
}

// better compares the plan of the form that settings give with what else the planner may
// do: keep in less what is exact, and round, under a budget, as few values as make the plan
// no dearer than more would.
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
		worth := t.than(p, err)
		if err == nil {
			worth.Cost -= trifle(p)
		}
		other, wrong := t.plan(first(n), worth)
		if err == nil && (wrong != nil || costOf(other) > costOf(p)-trifle(p)) || err != nil && !t.ask.prefers(p, err, other, wrong) {
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
		most = costOf(p) + trifle(p)
	}
	for err == nil && best-least > 1 {
		n := (least + best) / 2
		if other, wrong := t.plan(first(n), planner.Worth{Cost: most}); wrong == nil && costOf(other) <= most {
			p, best = other, n
		} else {
			least = n
		}
	}
	t.take(first(best), p)
	return p, err
}

// Shares is how many shares of the values are rounded for a trial, where rounding is asked for.
const Shares = 8

// free reports whether a plan is there that computes nothing again.
func free(p *planner.Plan, err error) bool { return err == nil && p.Result.Again == 0 }

// trifle is what it takes of a step to round more values for.
func trifle(p *planner.Plan) float64 {
	_, plain := p.Cost()
	return plain / 1000
}

// settled reports whether there is a plan, or none that is of use beside one of another form: a few
// bytes decide between the others, those that fit and those that do not.
func settled(err error) bool {
	var none *planner.BudgetError
	return err == nil || errors.As(err, &none) && none.Best == 0
}

// trifling reports whether what a choice keeps in less beside what is on is too few bytes for a plan
// to be better: limits of the arena are hardly told apart by as many.
func (t *trial) trifling(on []bool) bool {
	arena, wrong := t.look.Arena()
	return wrong == nil && t.freed(on) < arena/toldApart
}

// freed is the bytes that a choice keeps less beside what is on.
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

// toldApart is how many limits of an arena planning tells apart, about.
const toldApart = 1 << 13
