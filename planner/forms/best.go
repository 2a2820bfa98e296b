package forms

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/planner"
)

// Plan finds the best plan of all forms that settings allow. If none fits, the error says what
// would.
func (s *Steps) Plan(ask Ask) (*planner.Plan, error) {
	ask, err := s.sent(ask)
	if err != nil {
		return nil, err
	}
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	b, err := own.best()
	if err != nil {
		return nil, err
	}
	if b.wrong != nil {
		return b.form.advised(b.wrong, ask)
	}
	if err := b.form.tell(b.plan); err != nil {
		return b.form.advised(err, ask)
	}
	if b.form != own {
		b.plan.Warnings = append(b.plan.Warnings, b.form.piecesText(b.plan, b.plainly))
	}
	return b.plan, nil
}

// Best finds the same plan as Plan, without its table, and without advice if there is none.
func (s *Steps) Best(ask Ask) (*planner.Plan, error) {
	ask, err := s.sent(ask)
	if err != nil {
		return nil, err
	}
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	b, err := own.best()
	if err == nil {
		err = b.wrong
	}
	if err != nil {
		return nil, err
	}
	b.form.describe(b.plan)
	return b.plan, nil
}

// best is a form with its plan, or the error why it has none. If the form is not the one that
// settings ask for, plainly says what the plan of that form would cost.
type best struct {
	form    *Form
	plan    *planner.Plan
	wrong   error
	plainly string
}

// best plans the form with the lowest bound first, since a good plan early rules out others by
// their bounds. Of equal plans that of the form f itself stays.
func (f *Form) best() (b best, err error) {
	own, err := newTrial(f)
	if err != nil {
		return b, err
	}
	open, err := own.contenders()
	if err != nil {
		return b, err
	}
	var plain *planner.Plan
	var none error // why f itself has no plan
	for len(open) > 0 {
		slices.SortFunc(open, func(a, b *contender) int { return cmp.Or(cmp.Compare(a.least, b.least), a.place-b.place) })
		next := open[0]
		open = open[1:]
		if next.trial == nil {
			if b.form != nil && b.wrong == nil && next.least > (planner.Target{Cost: costOf(b.plan)}).Limit() {
				continue
			}
			if is, err := own.derive(next); err != nil {
				return b, err
			} else if is {
				open = append(open, next)
			}
			continue
		}
		target := f.ask.Target
		if b.form != nil {
			target = f.ask.target(b.plan, b.wrong)
		}
		p, wrong := next.best(target)
		better := b.form == nil || f.ask.prefers(b.plan, b.wrong, p, wrong)
		if next.trial == own {
			plain, none = p, wrong
			better = b.form == nil || !f.ask.prefers(p, wrong, b.plan, b.wrong)
		}
		if better {
			b.form, b.plan, b.wrong = next.Form, p, wrong
		}
	}
	if b.wrong == nil {
		if err := own.refine(&b); err != nil {
			return b, err
		}
	}
	if b.form != f {
		b.plainly = without(plain, none, own.look)
	}
	return b, nil
}

// contender is a form that may win. The lower bound of its plans' cost is a rough one until its
// step is derived.
type contender struct {
	*trial // nil: not derived yet
	choice
	place int     // breaks ties of least
	least float64 // lower bound of a plan's cost
}

// contenders are the form that settings ask for and, if the request compares plans, all others.
// Under a budget they are sorted by their bounds even if everything can be kept, so that the
// cheapest form is taken under any budget.
func (own *trial) contenders() ([]*contender, error) {
	all := []*contender{{trial: own}}
	if !own.ask.compares() {
		return all, nil
	}
	fits := true
	if own.ask.limited() {
		var err error
		if fits, err = own.look.Fits(); err != nil {
			return nil, err
		}
		if all[0].least, _, err = own.look.Least(); err != nil {
			return nil, err
		}
	}
	for i, c := range own.choices(own.inBytes()) {
		x := &contender{choice: c, place: i + 1}
		if !fits {
			x.least = own.leastOf(c)
		}
		all = append(all, x)
	}
	return all, nil
}

// derive derives a contender's step and its bound. It reports whether the form is still a
// contender: it can be planned, and may cost less than a plan that fits.
func (own *trial) derive(c *contender) (is bool, err error) {
	f, wrong := c.form()
	if wrong != nil {
		return false, nil
	}
	if c.trial, wrong = newTrial(f); wrong != nil {
		return false, nil
	}
	if !own.ask.limited() {
		return true, nil
	}
	fits, err := own.look.Fits()
	if err != nil {
		return false, err
	}
	first, _, err := own.look.Least()
	if err != nil {
		return false, err
	}
	// If the step with everything kept costs more already, the bound of its plans is not needed.
	if c.least = c.look.Own(); c.least < first {
		c.least, _, err = c.look.Least()
		return true, err
	}
	return !fits, nil
}

// InBytes turns budgets given as shares into bytes: shares of the form that settings ask for.
func (s *Steps) InBytes(ask Ask) (Ask, error) {
	whole := ask
	if ask.StatesByBudget { // shares are of the step with all states in memory
		whole.States = ""
	}
	own, err := s.Own(whole)
	if err != nil {
		return ask, err
	}
	whole = own.inBytes()
	ask.Budget, ask.ActivationBudget = whole.Budget, whole.ActivationBudget
	return ask, nil
}

// inBytes turns budgets given as shares into bytes: shares of form f. What other forms need besides
// their arena differs, and so does what a budget leaves for the arena.
func (f *Form) inBytes() Ask {
	ask := f.ask
	if f.steps.kind == recorded {
		return ask
	}
	r := ask.Request
	r.Plain = f.plain
	if r, err := f.inBytesOf(r); err == nil { // if not, no form can be planned
		ask.Budget, ask.ActivationBudget = planner.Size{Bytes: r.Budget.Bytes}, planner.Size{Bytes: r.ActivationBudget.Bytes}
	}
	return ask
}

// inBytesOf turns the budgets of a request into bytes: shares of the step with whole values.
func (f *Form) inBytesOf(r planner.Request) (planner.Request, error) {
	if f.plain == nil && f.beside != nil {
		return f.beside.InBytes(r), nil
	}
	return r.InBytes(f.whole)
}

// prefers reports whether the plan other is better than p. A plan beats an error; of two
// BudgetErrors that with the lower best plan wins. Under a budget the lower cost wins, then the
// lower arena; without one the lower arena, then, if extra compute is limited, the lower cost
// before the fewer stashed bytes, else the reverse. Of equals p stays.
func (a *Ask) prefers(p *planner.Plan, err error, other *planner.Plan, wrong error) bool {
	if err != nil || wrong != nil {
		var one, two *planner.BudgetError
		if errors.As(err, &one) && errors.As(wrong, &two) {
			return two.Best > 0 && two.Best < one.Best // report the nearer miss
		}
		return err != nil && wrong == nil && errors.As(err, &one)
	}
	arena, cost := cmp.Compare(other.Arena, p.Arena), cmp.Compare(costOf(other), costOf(p))
	stashed := cmp.Compare(other.Result.Stashed, p.Result.Stashed)
	switch {
	case a.limited():
		return cmp.Or(cost, arena) < 0
	case a.MaxOverhead > 0:
		return cmp.Or(arena, cost, stashed) < 0
	default:
		return cmp.Or(arena, stashed, cost) < 0
	}
}

// target is what another plan has to reach to be preferred to p, or to the error if there is no p.
func (a *Ask) target(p *planner.Plan, err error) planner.Target {
	switch {
	case err != nil:
		return a.Target
	case a.limited():
		return planner.Target{Cost: costOf(p)}
	default:
		return planner.Target{Arena: p.Arena, QuickReject: true}
	}
}

func costOf(p *planner.Plan) float64 {
	cost, _ := p.Cost()
	return cost
}

// piecesText is the warning about a plan in pieces: what the pieces cost, and what is known of
// plans without them.
func (f *Form) piecesText(p *planner.Plan, without string) string {
	cost := fmt.Sprintf("takes %s more %s, of %s more in all", percent(p.FormOverhead()), p.Unit(), percent(p.Result.Overhead))
	if own := p.FormOverhead(); own < 0 {
		cost = fmt.Sprintf("saves %.2f %% of %s", -100*own, p.Unit())
	}
	return fmt.Sprintf("%s, which %s; with %s %s", f.Does(), cost, f.Without(), without)
}

// Does describes the pieces that the form computes and settings left to the planner.
func (f *Form) Does() string {
	return f.each("; ", func(r Row) string {
		if said := r.said(f.ask.Settings[r.Setting]); said != r.Name {
			return r.Doc + ": " + said
		}
		return r.Doc
	})
}

// name names the form in points of a frontier.
func (f *Form) name() string {
	return f.each(", ", func(r Row) string { return r.said(f.ask.Settings[r.Setting]) })
}

// With spells the settings that ask for the form.
func (f *Form) With() string {
	return f.each(" ", func(r Row) string { return f.ask.Say(r.Setting, f.ask.Settings[r.Setting]) })
}

// Without spells the settings that rule the form out.
func (f *Form) Without() string {
	return f.each(" ", func(r Row) string { return f.ask.Say(r.Setting, off) })
}

// each joins a text of each row in taken.
func (f *Form) each(between string, say func(Row) string) string {
	var parts []string
	for _, r := range f.taken {
		parts = append(parts, say(r))
	}
	return strings.Join(parts, between)
}

// without says what the plan without pieces would cost, or that there is none.
func without(plain *planner.Plan, none error, look *planner.Search) string {
	var wrong *planner.BudgetError
	switch {
	case plain != nil:
		return "a plan takes " + percent(plain.Result.Overhead)
	case errors.As(none, &wrong) && wrong.Best == 0: // the search for the lowest plan was cut short
		if least, of, err := look.Least(); err == nil && !math.IsInf(least, 1) {
			return "a plan takes at least " + percent(least/of-1)
		}
	}
	return notFound
}

const notFound = "no plan was found"

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
