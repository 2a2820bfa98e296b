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
