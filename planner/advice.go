package planner

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/internal/bytesize"
	"memopt/internal/graph"
)

// Change is one thing that would make a request fit.
type Change struct {
	Set   []Setting // together: a budget of 65MiB, or a dim of 7
	Share float64   // how large a change that is
	Note  string    // what comes with it
	Text  string    // the change in the spelling of the caller's settings; set by the front door
}

// Setting is a value of a setting, by its name in the table of settings.
type Setting struct{ Name, Value string }

// mostAdvised is how many nodes a graph may have for smaller sizes to be looked for, which takes several solves.
const mostAdvised = 20_000

// Advise lists what would make a request fit that could not be met, the smallest change first: a larger budget, or less
// of one dim. A budget that is a share of what the step needs shrinks with the dims, so no size is advised then. The
// plan of another size may turn out to fit in the request as it is; then that is the answer.
func Advise(g *graph.Graph, r Request, e *BudgetError) (all []Change, after *Plan) {
	if len(g.Nodes) > mostAdvised || len(r.Again) > 0 {
		return nil, nil
	}
	all = budgetThatFits(g, r, e)
	if r.Budget.Percent > 0 || r.ActivationBudget.Percent > 0 {
		return all, nil
	}
	for _, dim := range g.Names() {
		now := r.Dims[dim]
		if now < 2 {
			continue
		}
		l := newLargest(g, r, dim)
		size, err := l.from(0, mostSize)
		if err == nil && size >= now && l.fits(l.way, now) {
			if p, err := makeKnowing(g, r, l.way.steps); err == nil {
				return nil, p
			}
		}
		if err == nil && size >= now {
			size, err = l.from(0, now-1)
		}
		if err == nil && size > 0 {
			all = append(all, Change{Set: []Setting{{"dims", fmt.Sprintf("%s=%d", dim, size)}}, Share: float64(now-size) / float64(now)})
		}
	}
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(a.Share, b.Share) })
	return all, nil
}

// budgetThatFits is what the lowest plan takes, of each budget that is below it.
func budgetThatFits(g *graph.Graph, r Request, e *BudgetError) []Change {
	if e.Want+e.Fixed <= 0 { // it is not for bytes that the request fails
		return nil
	}
	had, err := r.InBytes(g)
	if err != nil {
		return nil
	}
	c := Change{}
	for _, b := range []struct {
		name       string
		asked      Size
		had, takes int64
	}{
		{"budget", r.Budget, had.Budget.Bytes, e.Best + e.Fixed},
		{"activation_budget", r.ActivationBudget, had.ActivationBudget.Bytes, e.Best},
	} {
		if !b.asked.isZero() && b.takes > b.had {
			c.Set = append(c.Set, Setting{b.name, bytesize.Above(b.takes)})
			c.Share = max(c.Share, float64(b.takes-b.had)/float64(max(b.had, 1)))
		}
	}
	if c.Set == nil {
		return nil
	}
	return []Change{c}
}
