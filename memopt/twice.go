package memopt

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"memopt/autograd"
	"memopt/configs"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/planner"
)

// twice is a way to have something in a step that is never all there: it is computed
// some rows at a time, and again for the backward pass. The bits are those of the step
// as it is, so where its setting is auto the planner is free to take it.
type twice struct {
	setting string
	of      func(*configs.Config) *string
	on      string // the value that asks for it
	op      *graph.Op
	note    string // what it does to a step
	plainly string // how the step is without it
	label   string // at the points of a frontier
}

var twices = []twice{
	{"chunk_loss", func(c *configs.Config) *string { return &c.ChunkLoss }, "on", kernels.LinearCrossEntropy,
		"the loss is computed some rows at a time, and its scores again for the backward pass", "all scores at once", "loss in chunks"},
	{"flash_attention", func(c *configs.Config) *string { return &c.Flash }, "rows", kernels.AttentionInRows,
		"attention is computed some queries at a time, and its scores again for the backward pass", "all queries at once", "attention in rows"},
}

// fusesLast picks the operators that settings ask for by name: those that compute
// scores twice, so that they are never all there.
func (m *Model) fusesLast(op *graph.Op) bool {
	for _, w := range twices {
		if op == w.op {
			return *w.of(&m.Config) == w.on
		}
	}
	return op == kernels.FlashAttention && m.Config.Flash == "on"
}

// fuseLast puts those into a copy of the clean forward graph. What they stand for is
// then what it is without them, to the last product that a scale went into.
func (m *Model) fuseLast() {
	o := m.cleaned
	if o.Fuse == nil || !slices.ContainsFunc(m.Graph.Lib.All(), m.fusesLast) {
		return
	}
	o.Fuse, m.Graph = m.fusesLast, m.Graph.Clone()
	m.Passes = m.Passes.Then(m.Graph.Clean(o))
}

// derive makes the training step of the forward graph that was read, with options of
// the model. That graph stays as it is: other settings of what is computed twice make
// another form of the step of it.
func (m *Model) derive(options func(*Model) autograd.Options) (*Model, error) {
	read := *m
	m.other = func(c configs.Config) (*Model, error) {
		other := read
		other.Config = c
		return other.derive(options)
	}
	m.fuseLast()
	step, err := autograd.TrainStep(m.Graph, options(m))
	if err != nil {
		return nil, m.unparted(input(m.hintLoss(err)))
	}
	return m, m.shape(step)
}

// otherForms are the model with some of what may be computed twice so, or all of
// it, whose costs are told beside the model as it is; none where settings choose
// themselves, or it has no such form. Each is made when it is asked for.
func (m *Model) otherForms(c configs.Config) iter.Seq[*Model] {
	return func(yield func(*Model) bool) {
		if c.Compat != "" || m.forms == nil || m.other == nil || m.Profiled != "" {
			return
		}
		kind, _, err := findDevice(c.Device)
		if err != nil {
			return
		}
		chosen := []configs.Config{c}
		for _, w := range twices {
			if *w.of(&c) != "auto" {
				continue
			}
			for _, c := range chosen {
				*w.of(&c) = w.on
				other, err := m.other(c)
				if err != nil || !slices.ContainsFunc(other.Graph.Nodes, func(n *graph.Node) bool { return n.Op == w.op }) || kind.lowered && !other.kernelsKeepBits(w.op) {
					break
				}
				other.plain = &plainStep{m.forms.exact, m.Config}
				chosen = append(chosen, c)
				if !yield(other) {
					return
				}
			}
		}
	}
}

// kernelsKeepBits reports whether an operator that computes twice does so in kernels,
// with the bits of its pieces' kernels: all its numbers are float32, which is rounded
// nowhere, and it has kernels for the model's dims, as far as they are known.
func (m *Model) kernelsKeepBits(op *graph.Op) bool {
	b, unbound := graph.Bind(m.Config.Dims)
	return !slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		if n.Op != op {
			return false
		}
		if n.Inputs[0].Type != graph.Float32 {
			return true
		}
		if unbound != nil {
			return false
		}
		low, err := graph.Lower(n, b, graph.PlanLimits)
		return err == nil && low.Refused != ""
	})
}

// plainStep is the step that a model is another form of, and its settings.
type plainStep struct {
	graph  *graph.Graph
	config configs.Config
}

// twice lists what the model computes twice that the planner chose to.
func (m *Model) twice() (all []twice) {
	for _, w := range twices {
		if m.plain != nil && *w.of(&m.Config) == w.on && *w.of(&m.plain.config) != w.on {
			all = append(all, w)
		}
	}
	return all
}

// told joins what is said of each thing that the model computes twice.
func (m *Model) told(say func(twice) string, between string) string {
	var parts []string
	for _, w := range m.twice() {
		parts = append(parts, say(w))
	}
	return strings.Join(parts, between)
}

// plainly is how the step is otherwise, and the settings that see to that.
func (m *Model) plainly() string {
	return fmt.Sprintf("%s (%s)", m.told(func(w twice) string { return w.plainly }, " and "), m.told(func(w twice) string { return m.Config.Say(w.setting, "off") }, " "))
}

func (m *Model) noted() string { return m.told(func(w twice) string { return w.note }, "; ") }

// inBytes is the settings with budgets in bytes: a share is one of the model as it is. What
// a form has beside its arena is its own, so what a budget leaves for that is too.
func (m *Model) inBytes() configs.Config {
	c := m.Config
	if m.forms == nil {
		return c
	}
	if r, err := m.as(request(c)).InBytes(m.forms.exact); err == nil { // or else no form can be planned
		c.Budget, c.ActivationBudget = configs.Budget{Bytes: r.Budget.Bytes}, configs.Budget{Bytes: r.ActivationBudget.Bytes}
	}
	return c
}

// roomOf is the arena bytes that a plan was to fit in.
func roomOf(p *planner.Plan, wrong *planner.BudgetError) (bytes int64, limited bool) {
	if wrong != nil {
		return wrong.Want, wrong.Want > 0
	}
	return p.Room()
}

// bestForm is the best plan, in the form of the step that is the best one. The form that
// promises most is planned first, as its plan spares looking for others that cost more. Of
// equals the model as it is stays.
func (m *Model) bestForm() (*planner.Plan, error) {
	own, err := newTrial(m)
	if err != nil {
		return nil, err
	}
	trials, err := m.promising(own)
	if err != nil {
		return nil, err
	}
	var p, plain *planner.Plan
	var none error // why there is no plan of the model as it is
	var best *trial
	for _, t := range trials {
		worth := planner.Worth{}
		if best != nil {
			worth = m.worth(p, err)
		}
		q, wrong := t.best(worth)
		better := best == nil || m.prefers(p, err, q, wrong)
		if t == own {
			plain, none = q, wrong
			better = best == nil || !m.prefers(q, wrong, p, err)
		}
		if better {
			p, err, best = q, wrong, t
		}
	}
	p, err = best.m.tabulate(p, err)
	if best == own {
		return p, err
	}
	if err == nil {
		p.Warnings = append(p.Warnings, best.m.twiceNote(p, without(plain, none, own.look)))
	}
	budget, activations := m.Config.Budget, m.Config.ActivationBudget
	*m = *best.m
	m.Config.Budget, m.Config.ActivationBudget = budget, activations // as they were asked for
	return p, err
}

// promising are trials of the model as it is, and of its other forms where these may win
// something: under a budget those first whose plans may cost least. So the cheapest form is
// taken under any budget, also one that everything kept is within.
func (m *Model) promising(own *trial) ([]*trial, error) {
	trials := []*trial{own}
	if !compares(m.Config) {
		return trials, nil
	}
	binds := limited(m.Config)
	fits, first := false, 0.0
	if binds {
		var err error
		if fits, err = own.look.Fits(); err != nil {
			return nil, err
		}
		if first, _, err = own.look.Least(); err != nil {
			return nil, err
		}
	}
	for other := range m.otherForms(m.inBytes()) {
		t, err := newTrial(other)
		if err != nil || fits && t.look.Own() >= first { // it cannot be planned, or costs no less than a plan that fits
			continue
		}
		trials = append(trials, t)
	}
	if !binds {
		return trials, nil
	}
	leasts := map[*trial]float64{own: first}
	for _, t := range trials[1:] {
		// What costs more by itself comes later, whatever its plans cost.
		if leasts[t] = t.look.Own(); leasts[t] < first {
			var err error
			if leasts[t], _, err = t.look.Least(); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(trials, func(a, b *trial) int { return cmp.Compare(leasts[a], leasts[b]) })
	return trials, nil
}

// twiceNote says what a plan spends on computing twice, and what is known of plans without.
func (m *Model) twiceNote(p *planner.Plan, without string) string {
	alone := fmt.Sprintf("that alone costs %s of the extra %s", percent(p.FormOverhead()), percent(p.Result.Overhead))
	if own := p.FormOverhead(); own < 0 {
		alone = fmt.Sprintf("that alone saves %.2f %%", -100*own)
	}
	return fmt.Sprintf("%s: %s; %s with %s", m.noted(), alone, without, m.plainly())
}

// without says what the plan of the step as it is would cost, or why there is none.
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
