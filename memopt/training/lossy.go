package training

import (
	"slices"

	"memopt/configs"
	"memopt/internal/compare"
	"memopt/internal/tensorfile"
	"memopt/memopt/exit"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/forms"
)

// lossyStep measures the rounding error of the first step under a plan, with the model's initial parameters.
func lossyStep(m *step.Model, p *planner.Plan, data *tensorfile.Set) (*compare.Rounding, error) {
	only, err := GradientModel(inFormOf(m, p))
	if err != nil {
		return nil, err
	}
	got, check, err := GradientsOf(only, data)
	if err != nil {
		return nil, err
	}
	defer got.Close()
	return lossyError(only, got, check.Plan, data)
}

// inFormOf is the model with settings that select the form of a plan, and without budgets.
func inFormOf(m *step.Model, p *planner.Plan) *step.Model {
	c := m.Config
	for _, r := range forms.Rows {
		if slices.Contains(p.Form.Taken, r.Name) {
			if err := c.Set(r.Setting, r.Value, configs.Source{Origin: configs.OriginPreset}); err != nil {
				panic(err) // the table of forms has a value that the settings do not accept
			}
		}
	}
	c.Dims, c.Budget, c.ActivationBudget, c.MaxOverhead, c.Level, c.Requests = p.Request.Dims, configs.Budget{}, configs.Budget{}, 0, 0, nil
	return &step.Model{Path: m.Path, Config: c, Kept: append([]string{}, p.Form.Kept...)}
}

// lossyError runs the exact step, storing every value, and compares it with got, which a model of GradientModel
// computed under a plan.
func lossyError(m *step.Model, got *tensorfile.Set, p *planner.Plan, data *tensorfile.Set) (*compare.Rounding, error) {
	c := m.Config
	exact, err := GradientModel(&step.Model{Path: m.Path, Config: c.Exact()})
	if err != nil {
		return nil, err
	}
	want, _, err := GradientsOf(exact, data)
	if err != nil {
		return nil, err
	}
	defer want.Close()
	d, err := compare.Sets(got, want, nil, "the exact step")
	if err != nil {
		return nil, exit.Input(err)
	}
	return &compare.Rounding{Type: c.Lossy, Values: p.Form.Rounded, LossRelErr: d.LossRelErr, Worst: d.Worst}, nil
}
