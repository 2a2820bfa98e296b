package memopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
