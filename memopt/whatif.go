package memopt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"memopt/configs"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/stop"
	"memopt/memopt/weights"
	"memopt/planner"
)

// Frontier is peak against extra cost for the model under its dims, in every form
// of its step that a budget may have.
func (m *Model) Frontier() (*planner.Curve, error) { return stop.When(m.ctx, m.frontiers) }

func (m *Model) frontiers() (c *planner.Curve, err error) {
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.sized(m.Config.Dims); err != nil {
		return nil, err
	}
	others := slices.Collect(m.otherForms(m.Config))
	if len(others) > 1 && len(m.Graph.Nodes) > longStep {
		others = others[len(others)-1:] // all of it
	}
	all := append([]*Model{m}, others...)
	curves, errs := make([]*planner.Curve, len(all)), make([]error, len(all))
	var works []func()
	for i, form := range all {
		works = append(works, func() { curves[i], errs[i] = form.frontier() })
	}
	stop.All(works...)
	for i, form := range all {
		if errs[i] != nil {
			return nil, classify(errs[i])
		}
		if i > 0 {
			curves[0].Join(curves[i], form.told(func(w twice) string { return w.label }, ", "))
		}
	}
	return curves[0], nil
}

// frontier is that of the model's own step, with values whole and in less.
func (m *Model) frontier() (c *planner.Curve, err error) {
	defer weights.Guard(&err)() // it has a goroutine of its own
	c, err = planner.Frontier(m.Graph, m.as(request(m.Config)))
	if err != nil || m.forms == nil || m.forms.asked || !m.mayExtract() || m.Config.Compat != "" {
		return c, err
	}
	on := m.forms.with(m.forms.on)
	if slices.Equal(on, m.forms.on) {
		return c, nil
	}
	g, r, err := m.form(on)
	if err != nil {
		return nil, err
	}
	if saved, err := savings(r); err != nil || saved <= c.Points[0].Arena/trifling {
		return c, err
	}
	if r.Plain == nil {
		r.Plain = m.Graph
	}
	less, err := planner.Frontier(g, r)
	if err != nil {
		return nil, err
	}
	c.Join(less, "extracts")
	return c, nil
}

// longStep is how many nodes a step has whose frontier is drawn in two forms alone,
// as it is and with all that may be computed twice.
const longStep = 2048

// trifling is how small a part of the arena is no second curve worth.
const trifling = 1000

// savings is the bytes that the extracts of a request free together.
func savings(r planner.Request) (bytes int64, err error) {
	b, err := graph.Bind(r.Dims)
	if err != nil {
		return 0, err
	}
	for _, e := range r.Extracts {
		for k, saving := range e.Savings {
			if !e.On[k] {
				continue
			}
			n, err := b.Eval(saving)
			if err != nil {
				return 0, err
			}
			bytes += n
		}
	}
	return bytes, nil
}

// Largest is the largest size of a dim that fits the settings' budget, as the
// plan for it.
func (m *Model) Largest(dim string) (*planner.Plan, error) {
	return stop.When(m.ctx, func() (*planner.Plan, error) { return m.makeLargest(dim) })
}

func (m *Model) makeLargest(dim string) (p *planner.Plan, err error) {
	begin := time.Now()
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if !slices.Contains(m.Graph.Names(), dim) {
		return nil, input(errors.New(m.noDim(dim)))
	}
	dims := map[string]int64{dim: 1}
	for name, n := range m.Config.Dims {
		dims[name] = n
	}
	if err := m.sized(dims); err != nil {
		return nil, err
	}
	p, err = m.largest(dim, 0)
	best := m
	for other := range m.otherForms(m.Config) {
		above := int64(0)
		if err == nil {
			above = p.Request.Dims[dim]
		}
		if q, wrong := other.largest(dim, above); wrong == nil && q != nil {
			best, p, err = other, q, nil
		}
	}
	if best != m {
		*m = *best
		p.Warnings = append(p.Warnings, m.noted()+": that allows more than "+m.plainly())
	}
	if err == nil {
		err = p.Tabulate()
	}
	if err != nil {
		var short *planner.BudgetError
		if errors.As(err, &short) {
			dims[dim] = short.Least
		}
		if p, err = m.advised(err, dims); err != nil {
			if short != nil {
				err = fmt.Errorf("not even %s=%d fits: %w", dim, short.Least, err)
			}
			return nil, classify(err)
		}
	}
	p.Trains = m.trains()
	p.Warnings = slices.Concat(p.Warnings, m.strayDims(), m.doubts(), m.beyond(p))
	p.Took = time.Since(begin)
	return p, nil
}

// sized reports which of the model's dims have no size.
func (m *Model) sized(dims map[string]int64) error {
	missing := slices.DeleteFunc(m.Graph.Names(), func(n string) bool { return dims[n] != 0 })
	if len(missing) == 0 {
		return nil
	}
	msg := fmt.Sprintf("the model's dims %s need sizes; say %s", strings.Join(missing, ", "), m.Config.Say("dims", strings.Join(missing, "=N,")+"=N"))
	for _, stray := range m.strayDims() {
		msg += "; " + stray
	}
	return input(errors.New(msg))
}

// advised adds to a budget that cannot be met under dims what could be, or is a plan
// that meets it after all.
func (m *Model) advised(err error, dims map[string]int64) (*planner.Plan, error) {
	var budget *planner.BudgetError
	if errors.As(err, &budget) {
		var on []bool
		if m.forms != nil {
			on = m.forms.on
		}
		g, r, wrong := m.form(on)
		if wrong != nil {
			return nil, wrong
		}
		r.Dims = dims
		changes, after := planner.Advise(g, r, budget)
		if after != nil {
			p, err := m.tabulate(after, nil)
			if err == nil && len(m.twice()) > 0 {
				p.Warnings = append(p.Warnings, m.twiceNote(p, notFound))
			}
			return p, err
		}
		budget.Changes = slices.Concat(changes, m.overheadThatFits(r, budget), m.attentionThatFits(r, budget))
		budget.Msg += m.spell(budget.Changes)
		for _, size := range []planner.Size{r.Budget, r.ActivationBudget} {
			if size.Bytes > 0 && size.Bytes <= 100 {
				budget.Note = fmt.Sprintf("a number alone is bytes: was %dGiB or %d%% meant?", size.Bytes, size.Bytes)
				budget.Msg += "; " + budget.Note
			}
		}
	}
	return nil, err
}

// spell gives changes their text, as whoever asked spells settings, and is all of them
// as the end of a sentence; "" for none.
func (m *Model) spell(changes []planner.Change) string {
	var all []string
	for i := range changes {
		c := &changes[i]
		var parts []string
		for _, s := range c.Set {
			parts = append(parts, m.Config.Say(s.Name, s.Value))
		}
		if c.Text = m.Config.Together(parts); c.Note != "" {
			c.Text += " (" + c.Note + ")"
		}
		all = append(all, c.Text)
	}
	if all == nil {
		return ""
	}
	return "; would fit: " + strings.Join(all, ", or ")
}

// unmet is the settings of a request that cannot be met, as they were before a form was
// chosen, with its budget as what that leaves for the arena: a share is one of the model as it is.
func (m *Model) unmet(r planner.Request, wrong *planner.BudgetError) configs.Config {
	c := m.Config
	if m.plain != nil {
		c = m.plain.config
	}
	c.Dims = r.Dims
	if room, limited := roomOf(nil, wrong); limited {
		c.Budget, c.ActivationBudget = configs.Budget{}, configs.Budget{Bytes: room}
	}
	return c
}

// overheadThatFits is the limit of extra compute under which a budget can be met, if it is
// the limit that is in the way.
func (m *Model) overheadThatFits(r planner.Request, wrong *planner.BudgetError) []planner.Change {
	c := m.unmet(r, wrong)
	if c.MaxOverhead == 0 || !limited(c) || m.other == nil {
		return nil
	}
	c.MaxOverhead = 0
	other, err := m.other(c)
	if err != nil {
		return nil
	}
	other.Profiled, other.costs = m.Profiled, m.costs
	p, err := other.bestForm()
	if err != nil {
		return nil
	}
	return []planner.Change{{Set: []planner.Setting{{Name: "max_overhead", Value: fmt.Sprintf("%.1f%%", math.Ceil(1000*p.Result.Overhead)/10)}}}}
}

// attentionThatFits is another way of attention where that meets a budget that
// cannot be met otherwise: one with the same bits where settings have ruled that out,
// or else by tiles, which is never taken unasked.
func (m *Model) attentionThatFits(r planner.Request, wrong *planner.BudgetError) []planner.Change {
	if m.Config.Compat != "" || m.forms == nil || m.forms.foreign || m.Profiled != "" {
		return nil
	}
	c := m.unmet(r, wrong)
	for _, way := range []struct {
		setting, beside string
		new             bool
	}{{"auto", "", c.Flash == "off"}, {"on", "; it rounds otherwise in the last digits", c.Flash != "on"}} {
		if c.Flash = way.setting; !way.new {
			continue
		}
		other, err := m.other(c)
		if err != nil {
			return nil
		}
		if !other.attends() { // it is the step that was planned
			return nil
		}
		p, err := other.bestForm()
		if err != nil {
			continue
		}
		return []planner.Change{planner.Instead(planner.Setting{Name: "flash_attention", Value: way.setting}, r, p, way.beside)}
	}
	return nil
}

// attends reports whether the step has attention that is computed in pieces, or may be.
func (m *Model) attends() bool {
	rows := m.Config
	if rows.Flash == "auto" {
		rows.Flash = "rows"
		other, err := m.other(rows)
		return err == nil && other.attends()
	}
	return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == kernels.AttentionInRows || n.Op == kernels.FlashAttention })
}
