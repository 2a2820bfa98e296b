package planner

import "math"

// Worth is what a plan has to come to so as to be of use beside another one that is
// known, of another form of the step. Zeros are no limits.
type Worth struct {
	Cost  float64 // as Plan.Cost tells it, at most
	Arena int64   // bytes, at most
	// Glance refuses a form with such an arena as well if solving for a little less finds
	// nothing at once. Forms have most of a step in common, and what is lowest within a limit
	// of cost takes many limits to find.
	Glance bool
}

// glanced is the part of an arena that it is less by at a glance.
const glanced = 128

// cost is that limit, with a little for what sums round.
func (w Worth) cost() float64 {
	if w.Cost == 0 {
		return math.Inf(1)
	}
	return w.Cost * (1 + 1e-9)
}

// extra is that limit for what runs again in a step.
func (w Worth) extra(m *model) float64 { return w.cost() - m.total - m.own }

// worthless is that no plan of this form is of use.
func worthless(f Floor) error {
	return &BudgetError{Floor: f, Msg: "no plan of this form of the step is as good as one of another form"}
}

// hopeless reports whether it is proven that no plan comes to what the request asks
// for, of those that have to fit in limit bytes too, if they are limited, and may
// cost so much extra; or whether it looks so at a glance.
func (v *solver) hopeless(w Worth, limit int64, limited bool, most float64) (bool, error) {
	if w == (Worth{}) {
		return false, nil
	}
	if w.Arena > 0 && (!limited || w.Arena < limit) {
		limit, limited = w.Arena, true
	}
	if !limited || v.base.placed.Height <= limit {
		return false, nil
	}
	most = min(most*(1+1e-9), w.extra(v.m))
	if least, ok := v.least(limit); !ok || least > most {
		return true, nil
	}
	if !w.Glance || v.small() {
		return false, nil
	}
	c, err := v.at(limit-limit/glanced, most)
	return c == nil, err
}
