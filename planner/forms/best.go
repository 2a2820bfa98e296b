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

// Plan is the best plan of all forms that settings allow. Where none fits, the error says
// what would.
func (s *Steps) Plan(ask Ask) (*planner.Plan, error) {
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

// Best is the plan that Plan gives, without its table, and without advice where there is
// none.
func (s *Steps) Best(ask Ask) (*planner.Plan, error) {
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

// best is a form, and its plan or why it has none; plainly says of the plain step's plan
// what it would cost, if the form is another.
type best struct {
	form    *Form
	plan    *planner.Plan
	wrong   error
	plainly string
}

// best is the best plan in the form that is the best one. The form that promises most is
// planned first, as its plan spares looking for others that cost more. Of equals the own
// form stays.
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
	var none error // why there is no plan of the own form
	for len(open) > 0 {
		slices.SortFunc(open, func(a, b *contender) int { return cmp.Or(cmp.Compare(a.least, b.least), a.place-b.place) })
		next := open[0]
		open = open[1:]
		if next.trial == nil {
			if b.form != nil && b.wrong == nil && next.least > (planner.Worth{Cost: costOf(b.plan)}).Limit() {
				continue
			}
			if is, err := own.derive(next); err != nil {
				return b, err
			} else if is {
				open = append(open, next)
			}
			continue
		}
		worth := f.ask.Worth
		if b.form != nil {
			worth = f.ask.worth(b.plan, b.wrong)
		}
		p, wrong := next.best(worth)
		better := b.form == nil || f.ask.prefers(b.plan, b.wrong, p, wrong)
		if next.trial == own {
			plain, none = p, wrong
			better = b.form == nil || !f.ask.prefers(p, wrong, b.plan, b.wrong)
		}
		if better {
			b.form, b.plan, b.wrong = next.Form, p, wrong
		}
	}
	if b.form != f {
		b.plainly = without(plain, none, own.look)
	}
	return b, nil
}

// contender is a form that may win something. What any of its plans costs at least is
// known roughly before its step is derived, and better after that.
type contender struct {
	*trial // nil: it is not derived yet
	choice
	place int // of equals the first is planned first
	least float64
}

// contenders are the own form, and others where these may win something. Under a budget
// those are first whose plans may cost least, so the cheapest form is taken under any budget,
// also one that everything kept is within.
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

// derive has a contender's step derived and looked at. It reports whether it still is one:
// it can be planned, and may cost less than a plan that fits.
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
	// What costs more by itself comes later, whatever its plans cost.
	if c.least = c.look.Own(); c.least < first {
		c.least, _, err = c.look.Least()
		return true, err
	}
	return !fits, nil
}

// InBytes is an ask with budgets in bytes: a share is one of the own form.
func (s *Steps) InBytes(ask Ask) (Ask, error) {
	own, err := s.Own(ask)
	if err != nil {
		return ask, err
	}
	return own.inBytes(), nil
}

// inBytes is the ask with budgets in bytes: a share is one of the own form. What another has
// beside its arena is its own, so what a budget leaves for that is too.
func (f *Form) inBytes() Ask {
	ask := f.ask
	if f.steps.kind == recorded {
		return ask
	}
	r := ask.Request
	r.Plain = f.plain
	if r, err := f.inBytesOf(r); err == nil { // or else no form can be planned
		ask.Budget, ask.ActivationBudget = planner.Size{Bytes: r.Budget.Bytes}, planner.Size{Bytes: r.ActivationBudget.Bytes}
	}
	return ask
}

// inBytesOf is a request with budgets in bytes: a share is one of the step with all values whole.
func (f *Form) inBytesOf(r planner.Request) (planner.Request, error) {
	if f.plain == nil && f.beside != nil {
		return f.beside.InBytes(r), nil
	}
	return r.InBytes(f.whole)
}

// prefers reports whether another plan is better: it can be had, it costs less where a budget binds
// both, or is lower where none does; of those as low the cheaper one if cost is limited, or
// else the one that keeps less. Of equals the first stays.
func (a *Ask) prefers(p *planner.Plan, err error, other *planner.Plan, wrong error) bool {
	if err != nil || wrong != nil {
		var one, two *planner.BudgetError
		if errors.As(err, &one) && errors.As(wrong, &two) {
			return two.Best > 0 && two.Best < one.Best // the nearer miss is told
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

// worth is what another plan has to come to so as to be preferred to one that was found, if
// one was.
func (a *Ask) worth(p *planner.Plan, err error) planner.Worth {
	switch {
	case err != nil:
		return a.Worth
	case a.limited():
		return planner.Worth{Cost: costOf(p)}
	default:
		return planner.Worth{Arena: p.Arena, Glance: true}
	}
}

func costOf(p *planner.Plan) float64 {
	cost, _ := p.Cost()
	return cost
}

// piecesText says what a plan spends on computing in pieces, and what is known of plans without.
func (f *Form) piecesText(p *planner.Plan, without string) string {
	alone := fmt.Sprintf("that alone costs %s of the extra %s", percent(p.FormOverhead()), percent(p.Result.Overhead))
	if own := p.FormOverhead(); own < 0 {
		alone = fmt.Sprintf("that alone saves %.2f %%", -100*own)
	}
	return fmt.Sprintf("%s: %s; %s with %s", f.Does(), alone, without, f.plainlyText())
}

// Does says what the form does that settings leave open.
func (f *Form) Does() string {
	return f.each("; ", func(r Row) string { return r.Doc })
}

// Name is the form at a point of a frontier.
func (f *Form) name() string { return f.each(", ", func(r Row) string { return r.Name }) }

// With and Without are the settings that ask for the form, and those that rule it out.
func (f *Form) With() string {
	return f.each(" ", func(r Row) string { return f.ask.Say(r.Setting, r.Value) })
}

// Without is the settings that rule the form out.
func (f *Form) Without() string {
	return f.each(" ", func(r Row) string { return f.ask.Say(r.Setting, off) })
}

// plainlyText is how the step is otherwise, and the settings that see to that.
func (f *Form) plainlyText() string {
	return fmt.Sprintf("%s (%s)", f.each(" and ", func(r Row) string { return r.Plainly }), f.Without())
}

// each joins what is said of each row that was taken.
func (f *Form) each(between string, say func(Row) string) string {
	var parts []string
	for _, r := range f.taken {
		parts = append(parts, say(r))
	}
	return strings.Join(parts, between)
}

// without says what the plan of the own form would cost, or why there is none.
func without(plain *planner.Plan, none error, look *planner.Prospect) string {
	var wrong *planner.BudgetError
	switch {
	case plain != nil:
		return "it would be " + percent(plain.Result.Overhead)
	case errors.As(none, &wrong) && wrong.Best == 0: // it was not looked for to the end
		if least, of, err := look.Least(); err == nil && !math.IsInf(least, 1) {
			return "it would be at least " + percent(least/of-1)
		}
	}
	return notFound
}

const notFound = "no plan was found"

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
