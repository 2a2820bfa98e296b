package forms

import (
	"errors"

	"memopt/planner"
)

// advised adds to a BudgetError what other requests of this form could meet, or returns a plan that
// Advise found to meet the budget after all. Other errors are returned as they are.
func (f *Form) advised(err error, ask Ask) (*planner.Plan, error) {
	var none *planner.BudgetError
	if !errors.As(err, &none) {
		return nil, err
	}
	f.ask.Budget, f.ask.ActivationBudget, f.ask.Dims = ask.Budget, ask.ActivationBudget, ask.Dims
	g, r, wrong := f.at(f.on)
	if wrong != nil {
		return nil, wrong
	}
	changes, after := planner.Advise(g, r, none)
	if after != nil {
		if err := f.tell(after); err != nil {
			return nil, err
		}
		if len(f.taken) > 0 {
			after.Warnings = append(after.Warnings, f.piecesText(after, notFound))
		}
		return after, nil
	}
	none.Changes = changes
	return nil, err
}
