package forms

import (
	"slices"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/planner"
)

// longStep is the number of nodes from which on the frontier covers two forms only: the one that
// settings ask for, and the one with all pieces that they leave to the planner.
const longStep = 2048

// trifling: extracts that save less than 1/trifling of the arena are not worth a second curve.
const trifling = 1000

// Frontier is the curve of peak against extra cost over every form that a budgeted plan may take. Where a budget chooses how many
// states leave, it is that of all memory, over a few numbers of them.
func (s *Steps) Frontier(ask Ask) (*planner.Curve, error) {
	if ask.StatesByBudget {
		return s.sentFrontier(ask)
	}
	ask, err := s.sent(ask)
	if err != nil {
		return nil, err
	}
	return s.frontier(ask)
}

// sentFrontier joins the curves of a few numbers of parameters whose states leave. Plans of the arena are the same for all, unless what
// the states leave of a place is what values may move to.
func (s *Steps) sentFrontier(ask Ask) (*planner.Curve, error) {
	l, err := s.leavers(ask)
	if err != nil {
		return nil, err
	}
	c, err := s.frontier(l.with(0))
	if err != nil {
		return nil, err
	}
	stay := slices.Clone(c.Points)
	_, before := l.look.Leave(0)
	for _, k := range l.shares(l.most)[1:] {
		sent, fixed := l.look.Leave(k)
		if l.ask.Elsewhere == nil || l.ask.HostBudget == 0 {
			c.Send(stay, sent, before-fixed)
			continue
		}
		other, err := s.frontier(l.with(k))
		if err != nil {
			return nil, err
		}
		c.Send(other.Points, sent, 0)
	}
	return c, nil
}

func (s *Steps) frontier(ask Ask) (*planner.Curve, error) {
	own, err := s.Own(ask)
	if err != nil {
		return nil, err
	}
	others := slices.Collect(own.others(ask))
	if len(others) > 1 && len(own.Graph.Nodes) > longStep {
		others = others[len(others)-1:] // all pieces
	} else if part := own.inPart(); part != nil {
		others = append(others, part)
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

// frontier is the form's curve, with whole values and with extracts.
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

// savings is the bytes that the extracts in force save together.
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
