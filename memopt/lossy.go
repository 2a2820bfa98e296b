package memopt

import (
	"fmt"
	"slices"

	"memopt/configs"
	"memopt/memopt/tensorfile"
	"memopt/planner"
	"memopt/planner/forms"
)

// Lossy is how far one step that keeps rounded values is from the exact one.
type Lossy struct {
	Type       string
	Values     int // how many are rounded
	LossRelErr float64
	Worst      ParamErr // the gradient that differs the most
}

// String is the line that a report has.
func (l *Lossy) String() string {
	return fmt.Sprintf("lossy: %d activations are kept as %s; in one step the gradient of %q differs the most from the exact one, by %.2e (relative), the loss by %.2e",
		l.Values, l.Type, l.Worst.Param, l.Worst.RelErr, l.LossRelErr)
}

// lossyStep measures the first step of a training under a plan, with the model's own
// parameters.
func (m *Model) lossyStep(p *planner.Plan, data *tensorfile.Set) (*Lossy, error) {
	only, err := gradientModel(m.inFormOf(p))
	if err != nil {
		return nil, err
	}
	got, check, err := only.gradients(data)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	return only.lossyError(got, check.Plan, data)
}

// inFormOf is the model with its step in the form of a plan, and everything else kept.
func (m *Model) inFormOf(p *planner.Plan) *Model {
	c := m.Config
	for _, r := range forms.Rows {
		if slices.Contains(p.Form.Taken, r.Name) {
			if err := c.Set(r.Setting, r.Value, configs.Source{Origin: configs.OriginPreset}); err != nil {
				panic(err) // the table of forms has a value that the table of settings has not
			}
		}
	}
	c.Dims, c.Budget, c.ActivationBudget, c.MaxOverhead, c.Level, c.Requests = p.Request.Dims, configs.Budget{}, configs.Budget{}, 0, 0, nil
	return &Model{Path: m.Path, Config: c, kept: append([]string{}, p.Form.Kept...)}
}

// lossyError runs the exact step, with everything kept, and says how far what was got
// from this model of gradientModel under a plan is from it.
func (m *Model) lossyError(got *tensorfile.Set, p *planner.Plan, data *tensorfile.Set) (*Lossy, error) {
	c := m.Config
	exact, err := gradientModel(&Model{Path: m.Path, Config: c.Exact()})
	if err != nil {
		return nil, err
	}
	want, _, err := exact.gradients(data)
	if err != nil {
		return nil, err
	}
	defer want.Close()
	var check Check
	if err := check.compare(got, want, "the exact step"); err != nil {
		return nil, err
	}
	return &Lossy{c.Lossy, p.Form.Rounded, check.LossRelErr, check.Worst}, nil
}
