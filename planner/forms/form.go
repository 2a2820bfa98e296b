package forms

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/planner"
	"memopt/planner/cluster"
	"memopt/planner/shrink"
)

// Ask is a request for a plan of a step.
type Ask struct {
	planner.Request
	// Settings are the settings that Rows name.
	Settings map[string]string
	// Given are the settings that shape the step, if the user gave them; Clusters is the setting
	// that names clusters.
	Given    map[string]string
	Clusters planner.Setting
	// Kept, if not nil, names the values to store less of, whatever the settings say.
	Kept []string
	// StatesByBudget has the planner choose of how many parameters the states lie at Request.States.
	StatesByBudget bool
	// HostBudget is the most bytes of states and of moved values elsewhere; 0 is no limit.
	HostBudget int64
	// Measured: costs are measured times of nodes, which are known for one form only.
	Measured bool
	// Say spells a setting as the user would write it.
	Say func(setting, value string) string
}

// limited reports whether there is a budget.
func (a *Ask) limited() bool {
	return a.Budget != (planner.Size{}) || a.ActivationBudget != (planner.Size{})
}

// compares reports whether the request asks for a lower or a cheaper plan than another, so that
// other forms of the step are worth planning.
func (a *Ask) compares() bool { return a.limited() || a.MaxOverhead > 0 }

// with returns the request with a setting changed.
func (a Ask) with(setting, value string) Ask {
	a.Settings = maps.Clone(a.Settings)
	a.Settings[setting] = value
	return a
}

// Form is a step with choices made by settings or tried by the planner.
type Form struct {
	Graph  *graph.Graph
	Passes graph.Report // what was done to the forward graph

	ask   Ask
	steps *Steps
	step  *step
	whole *graph.Graph // the step that stores whole values only
	plain *graph.Graph // the step that costs are relative to, if the pieces of this form are not asked for; else nil
	// beside is the search of plain, or of whole if plain is nil; nil: not looked at yet.
	beside *planner.Search
	taken  []Row // the pieces in this form that settings leave to the planner

	found []shrink.Candidate
	keys  []shrink.Key
	on    []bool // the candidates that Graph stores less of
	// named: settings name the candidates in on; open: the planner decides about them.
	named, open bool
}

// Own is the form that settings ask for: all candidates for on, those that clusters name, none for
// auto. If rounding is asked for, the values that clusters name are rounded, or else all; under a
// budget, only as many as needed.
func (s *Steps) Own(ask Ask) (*Form, error) { return s.form(s.of(asked(ask.Settings)), ask) }

func (s *Steps) form(t *step, ask Ask) (*Form, error) {
	made, err := t.get()
	if err != nil {
		return nil, err
	}
	f := &Form{Graph: made.Graph, Passes: made.Passes, ask: ask, steps: s, step: t, whole: made.Graph}
	if s.kind == recorded {
		return f, nil
	}
	exact, lossy, err := t.candidates(s.ctx, roundedTo[ask.Settings["lossy"]])
	if err != nil {
		return nil, err
	}
	keep := ask.Settings["shrink"]
	if keep == off && len(lossy) > 0 {
		exact = nil
	}
	f.found = shrink.Merge(exact, lossy)
	f.keys = shrink.Keys(f.found)
	f.on = make([]bool, len(f.found))
	if ask.Kept != nil {
		kept := map[string]bool{}
		for _, name := range ask.Kept {
			kept[name] = true
		}
		for i, c := range f.found {
			f.on[i] = kept[c.Value.Name]
		}
		f.Graph, err = f.make(f.on)
		return f, err
	}
	for _, k := range f.keys {
		for i, c := range k.Members {
			f.on[c] = ask.Compat == "" && (keep != off || f.found[c].Lossy) && ask.Wants(k.ID, i)
			f.named = f.named || f.on[c]
		}
	}
	for i, c := range f.found {
		all := len(lossy) > 0 && !f.named && !ask.limited() // all values to round; those that have an exact extract as that
		f.on[i] = f.on[i] || all || !c.Lossy && keep == on
	}
	lossless := f.mayExtract() && ask.Compat == "" && (ask.compares() || ask.Level == 2)
	f.open = !f.named && len(f.found) > 0 && (lossless || ask.limited() && len(lossy) > 0)
	f.Graph, err = f.make(f.on)
	return f, err
}

// mayExtract reports whether the planner may choose exact extracts.
func (f *Form) mayExtract() bool { return f.ask.Settings["shrink"] == auto && f.steps.kind == derived }

// Candidates is the number of values that can be stored smaller.
func (f *Form) Candidates() int { return len(f.found) }

// make returns the step's graph with the candidates in on stored smaller.
func (f *Form) make(on []bool) (*graph.Graph, error) {
	var chosen []shrink.Candidate
	for i, is := range on {
		if is {
			chosen = append(chosen, f.found[i])
		}
	}
	return f.step.keeping(f.steps.ctx, chosen)
}

// extracted returns on with all exact candidates added.
func (f *Form) extracted(on []bool) []bool {
	more := slices.Clone(on)
	for i, c := range f.found {
		more[i] = more[i] || !c.Lossy
	}
	return more
}

// lossy counts the rounded candidates in on.
func (f *Form) lossy(on []bool) (n int) {
	for i, is := range on {
		if is && f.found[i].Lossy {
			n++
		}
	}
	return n
}

func all(n int) []bool { return slices.Repeat([]bool{true}, n) }

// Most is the form's graph with every candidate stored smaller, if the planner may choose that.
func (f *Form) Most() (g *graph.Graph, may bool) {
	if !f.open {
		return nil, false
	}
	g, err := f.make(all(len(f.found)))
	return g, err == nil
}

// Others are the forms with pieces that settings leave to the planner, in every combination; none
// if settings decide, or the step has no such form.
func (s *Steps) Others(ask Ask) (iter.Seq[*Form], error) {
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	return own.others(ask), nil
}

// others derives the forms one by one; ask may have its budgets in bytes.
func (f *Form) others(ask Ask) iter.Seq[*Form] {
	return func(yield func(*Form) bool) {
		for _, c := range f.choices(ask) {
			if other, err := c.form(); err == nil && !yield(other) {
				return
			}
		}
	}
}

// choice is a form with pieces that settings leave to the planner. Its step need not be derived.
type choice struct {
	own   *Form
	ask   Ask
	taken []Row
	step  *step
}

// choices lists the combinations of pieces that settings leave to the planner.
func (f *Form) choices(ask Ask) []choice {
	if ask.Compat != "" || f.steps.kind != derived || ask.Measured {
		return nil
	}
	made := []choice{{own: f, ask: ask}}
	for _, r := range inPieces {
		if !r.mayTake(ask.Settings) {
			continue
		}
		for _, c := range made {
			c.ask, c.taken = c.ask.with(r.Setting, r.Value), append(slices.Clone(c.taken), r)
			c.step = f.steps.of(asked(c.ask.Settings))
			forward, err := c.step.outline()
			if err != nil || !has(forward.Graph, r.Pieces) || ask.Lowered && !kernelsKeepBits(forward.Graph, r.Pieces, ask.Dims) {
				break
			}
			made = append(made, c)
		}
	}
	return made[1:]
}

// form derives the choice's step.
func (c *choice) form() (*Form, error) {
	f, err := c.own.steps.form(c.step, c.ask)
	if err == nil {
		f.plain, f.beside, f.taken = c.own.whole, c.own.beside, c.taken
	}
	return f, err
}

// kernelsKeepBits reports whether kernels compute the pieces' operators with the same bits as the
// operators they replace: their inputs are float32, so nothing is rounded between, and the kernels
// support the dims, as far as these are known.
func kernelsKeepBits(g *graph.Graph, p graph.Pieces, dims map[string]int64) bool {
	b, unbound := graph.Bind(dims)
	return !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		if n.Op.Pieces != p {
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

// at returns the step's graph with the candidates in on stored smaller, and the request whose table
// shows them. If the planner decides, costs are relative to the step with whole values.
func (f *Form) at(on []bool) (g *graph.Graph, r planner.Request, err error) {
	g, r = f.Graph, f.ask.Request
	r.Plain = f.plain
	if f.steps.kind == recorded {
		return g, r, nil
	}
	if r.Compat == "" {
		r.Extracts = f.extracts(on)
	}
	if r.Plain == nil && f.open {
		r.Plain = f.whole
	}
	if r.Plain != nil && f.beside != nil {
		r = r.Beside(f.beside)
	}
	if !slices.Equal(on, f.on) {
		g, err = f.make(on)
	}
	return g, r, err
}

// extracts returns the table's rows of candidates; on says which are stored smaller.
func (f *Form) extracts(on []bool) (rows []planner.Extract) {
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

// take makes the candidates in on the form's choice. p is nil if it has no plan; then it is the
// choice that came nearest, and advice is computed for it.
func (f *Form) take(on []bool, p *planner.Plan) {
	f.on = on
	if p != nil {
		f.Graph = p.Graph
	} else if g, err := f.make(on); err == nil {
		f.Graph = g
	}
}

// tell fills in the plan's table, form and warnings.
func (f *Form) tell(p *planner.Plan) error {
	if err := p.Tabulate(); err != nil {
		return err
	}
	f.describe(p)
	if f.steps.kind == recorded {
		return nil
	}
	p.Warnings = append(p.Warnings, f.refused()...)
	if to := f.ask.Settings["lossy"]; roundedTo[to] != 0 {
		p.Warnings = append(p.Warnings, f.lossyText(to))
	}
	return nil
}

// describe fills in Plan.Form.
func (f *Form) describe(p *planner.Plan) {
	d := &p.Form
	d.Whole, d.Passes, d.Settings, d.Beside = f.whole, f.Passes, map[string]string{}, map[string]string{}
	maps.Copy(d.Settings, f.ask.Given)
	maps.Copy(d.Settings, f.decided())
	if f.open && slices.Contains(f.on, true) {
		d.Beside["shrink"] = off
	}
	for _, r := range f.taken {
		value := f.ask.Settings[r.Setting]
		d.Taken = append(d.Taken, r.said(value))
		d.Settings[r.Setting], d.Beside[r.Setting] = value, off
	}
	if f.named {
		d.Settings[f.ask.Clusters.Name] = f.ask.Clusters.Value
	}
	for i, c := range f.found {
		if f.on[i] {
			d.Kept = append(d.Kept, c.Value.Name)
		}
	}
	d.Rounded = f.lossy(f.on)
}

// decided returns settings that reproduce what the planner chose for this form, if it had a choice.
func (f *Form) decided() map[string]string {
	if !f.open {
		return nil
	}
	lossless := slices.IndexFunc(f.found, func(c shrink.Candidate) bool { return !c.Lossy })
	switch {
	case f.lossy(f.on) > 0:
		return map[string]string{"shrink": auto, f.ask.Clusters.Name: f.spelled()}
	case lossless >= 0 && f.on[lossless]:
		return map[string]string{"shrink": on}
	case f.lossy(all(len(f.found))) > 0:
		return nil // under a budget only what requests name is rounded or extracted
	default:
		return map[string]string{"shrink": off}
	}
}

// spelled spells the candidates in on as requests.
func (f *Form) spelled() string {
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

// refused warns about requests that shrink=off overrules.
func (f *Form) refused() (out []string) {
	if f.ask.Settings["shrink"] != off || roundedTo[f.ask.Settings["lossy"]] != 0 {
		return nil
	}
	for _, k := range f.keys {
		if f.ask.Wants(k.ID, 0) {
			out = append(out, fmt.Sprintf("the request for %q has no effect, as shrink is off: its values are kept whole", k.ID))
		}
	}
	return out
}

// lossyText says how many values are rounded.
func (f *Form) lossyText(name string) string {
	of := f.lossy(all(len(f.found)))
	switch n := f.lossy(f.on); n {
	case 0:
		return fmt.Sprintf("lossy: nothing needs to be kept as %s, so gradients are exact", name)
	case of:
		return fmt.Sprintf("lossy: %d values are kept as %s for the backward pass, so gradients are not exact", n, name)
	default:
		return fmt.Sprintf("lossy: %d of %d values are kept as %s for the backward pass, so gradients are not exact", n, of, name)
	}
}
