package forms

import (
	"slices"

	"memopt/memopt/graph"
	"memopt/memopt/stop"
	"memopt/memopt/weights"
	"memopt/planner"
)

// longStep is how many nodes a step has whose frontier is drawn in two forms alone, as it
// is and with all that settings leave open in pieces.
const longStep = 2048

// trifling is how small a part of the arena is no second curve worth.
const trifling = 1000

// Frontier is peak against extra cost in every form of the step that a budget may have.
func (s *Steps) Frontier(ask Ask) (*planner.Curve, error) {
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	others := slices.Collect(own.others(ask))
	if len(others) > 1 && len(own.Graph.Nodes) > longStep {
		others = others[len(others)-1:] // all of it
	}
	forms := append([]*Form{own}, others...)
	curves, errs := make([]*planner.Curve, len(forms)), make([]error, len(forms))
	var works []func()
	for i, f := range forms {
		works = append(works, func() { curves[i], errs[i] = f.frontier() })
	}
	stop.All(works...)
	for i, f := range forms {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if i > 0 {
			curves[0].Join(curves[i], f.name())
		}
	}
	return curves[0], nil
}

// frontier is that of the form, with values whole and in less.
func (f *Form) frontier() (c *planner.Curve, err error) {
	defer weights.Guard(&err)() // it has a goroutine of its own
	r := f.ask.Request
	r.Plain = f.plain
	c, err = planner.Frontier(f.Graph, r)
	if err != nil || f.steps.kind == recorded || f.named || !f.mayExtract() || f.ask.Compat != "" {
		return c, err
	}
	on := f.extracted(f.on)
	if slices.Equal(on, f.on) {
		return c, nil
	}
	g, r, err := f.at(on)
	if err != nil {
		return nil, err
	}
	if saved, err := savings(r); err != nil || saved <= c.Points[0].Arena/trifling {
		return c, err
	}
	if r.Plain == nil {
		r.Plain = f.Graph
	}
	less, err := planner.Frontier(g, r)
	if err != nil {
		return nil, err
	}
	c.Join(less, "extracts")
	return c, nil
}

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
