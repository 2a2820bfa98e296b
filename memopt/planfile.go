package memopt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"memopt/configs"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/memopt/exit"
	"memopt/memopt/step"
	"memopt/planner"
	"memopt/planner/forms"
	"memopt/planner/planfile"
)

// ReadPlan reads a plan file without its model. The error for an unknown field suggests a known one.
func ReadPlan(path string) (*planfile.File, error) {
	f, err := planfile.Read(path)
	var unknown *planfile.FieldError
	if errors.As(err, &unknown) {
		unknown.Near, _ = configs.Nearest(unknown.Field, unknown.Known)
	}
	if err != nil {
		return nil, exit.Input(err)
	}
	return f, nil
}

// fileSettings are the settings in a plan file, and the parts of its request that shape the step; settings given
// elsewhere take precedence.
func fileSettings(f *planfile.File, path string) (configs.Config, error) {
	all := map[string]string{}
	if f.Request.Compat != "" {
		all["compat"] = f.Request.Compat
	}
	for name, bytes := range map[string]int64{"budget": f.Request.Budget, "activation_budget": f.Request.ActivationBudget} {
		if bytes > 0 {
			all[name] = fmt.Sprint(bytes)
		}
	}
	maps.Copy(all, f.Settings)
	var c configs.Config
	err := setAll(&c, slices.Concat(configs.Shaping(), []string{step.ClusterSetting, "compat", "budget", "activation_budget"}), all, path)
	return c, err
}

// setAll sets those of the named settings that have a value in a file.
func setAll(c *configs.Config, names []string, values map[string]string, path string) error {
	for _, name := range names {
		if value, ok := values[name]; ok {
			if err := c.Set(name, value, configs.Source{Origin: configs.OriginFile, Name: path}); err != nil {
				return exit.Input(fmt.Errorf("setting %s: %w", name, err))
			}
		}
	}
	return nil
}

// LoadPlan reads a plan file, opens its model with the file's settings and replays the plan on it. Settings in c
// take precedence, except those that leave a form to the planner: the file has its decision. The plan must meet the
// dims and limits in c. The model is closed again: the plan can be read, but not run.
func LoadPlan(ctx context.Context, plan, model string, c configs.Config) (*planner.Plan, error) {
	return stop.When(ctx, func() (*planner.Plan, error) { return loadPlan(ctx, plan, model, c) })
}

func loadPlan(ctx context.Context, plan, model string, c configs.Config) (p *planner.Plan, err error) {
	f, err := ReadPlan(plan)
	if err != nil {
		return nil, err
	}
	given := step.RequestOf(c)
	if err := decidedBy(&c, f, plan); err != nil {
		return nil, err
	}
	from, err := fileSettings(f, plan)
	if err != nil {
		return nil, err
	}
	m, err := OpenContext(ctx, model, configs.Merge(c, from))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	defer m.Unchanged(&err)
	defer weights.Guard(&err)()
	beside, err := besideOf(m.Config, f, plan)
	if err != nil {
		return nil, err
	}
	p, err = m.Steps.Read(f, m.Ask(), beside)
	if err == nil {
		err = p.Keeps(given)
	}
	if err != nil {
		return nil, exit.Cannot(err)
	}
	if p.Trains = m.Trains(); f.Trains != nil && !f.Trains.Equal(p.Trains) {
		return nil, exit.Cannot(fmt.Errorf("%s: the file says that its step %s, but it %s", plan, f.Trains, p.Trains))
	}
	return p, nil
}

// decidedBy replaces settings of "auto" by what the planner decided, according to a plan file.
func decidedBy(c *configs.Config, f *planfile.File, path string) error {
	names := forms.Settings()
	names = slices.DeleteFunc(names, func(name string) bool {
		value, given := c.Given(name)
		return !given || value != "auto"
	})
	return setAll(c, names, f.Settings, path)
}

// besideOf are the settings of the step that a plan's costs are relative to, if they differ from the model's.
func besideOf(c configs.Config, f *planfile.File, path string) (map[string]string, error) {
	if err := setAll(&c, forms.Settings(), f.Beside, path); err != nil || len(f.Beside) == 0 {
		return nil, err
	}
	beside := map[string]string{}
	for name := range f.Beside {
		beside[name] = c.Value(name)
	}
	return beside, nil
}
