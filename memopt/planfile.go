package memopt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"memopt/configs"
	"memopt/memopt/stop"
	"memopt/memopt/weights"
	"memopt/planner"
)

// requests is the setting that names clusters: it makes the graph too, where it
// names what can be kept in less.
const requests = "config"

// PlanFile is the plan's file, with the settings that made its graph.
func (m *Model) PlanFile(p *planner.Plan) *planner.File {
	f := p.File(m.Path)
	for _, name := range configs.Shaping() {
		if value, ok := m.Config.Given(name); ok {
			f.Settings[name] = value
		}
	}
	f.Trains = m.trains()
	maps.Copy(f.Settings, m.forms.decided())
	beside := map[string]string{}
	if m.forms != nil && m.forms.tried && slices.Contains(m.forms.on, true) {
		beside["shrink"] = "off"
	}
	for _, w := range m.twice() {
		f.Settings[w.setting], beside[w.setting] = w.on, "off"
	}
	if len(beside) > 0 {
		f.Beside = beside
	}
	if m.forms != nil && m.forms.asked {
		f.Settings[requests], _ = m.Config.Given(requests)
	}
	return f
}

// ReadPlan reads a plan file without its model. An unknown field is told with the one
// that was meant.
func ReadPlan(path string) (*planner.File, error) {
	f, err := planner.ReadFile(path)
	var unknown *planner.FieldError
	if errors.As(err, &unknown) {
		unknown.Near, _ = configs.Nearest(unknown.Field, unknown.Known)
	}
	if err != nil {
		return nil, input(err)
	}
	return f, nil
}

// fileSettings are the settings that a plan file carries, and what of its request
// shapes the step; whatever else is given is stronger.
func fileSettings(f *planner.File, path string) (configs.Config, error) {
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
	err := setAll(&c, slices.Concat(configs.Shaping(), []string{requests, "compat", "budget", "activation_budget"}), all, path)
	return c, err
}

// setAll sets those of the named settings that have a value in a file.
func setAll(c *configs.Config, names []string, values map[string]string, path string) error {
	for _, name := range names {
		if value, ok := values[name]; ok {
			if err := c.Set(name, value, configs.Source{Origin: configs.OriginFile, Name: path}); err != nil {
				return input(fmt.Errorf("setting %s: %w", name, err))
			}
		}
	}
	return nil
}

// LoadPlan reads a plan file, opens its model with the file's settings and has
// the plan replayed on it. Settings that are given are stronger, but for those that leave a
// form to the planner: what it has decided is in the file. Dims and limits that are given
// the plan must keep. The model is closed again: the plan can be read, not run.
func LoadPlan(ctx context.Context, plan, model string, c configs.Config) (*planner.Plan, error) {
	return stop.When(ctx, func() (*planner.Plan, error) { return loadPlan(ctx, plan, model, c) })
}

func loadPlan(ctx context.Context, plan, model string, c configs.Config) (p *planner.Plan, err error) {
	f, err := ReadPlan(plan)
	if err != nil {
		return nil, err
	}
	given := request(c)
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
	defer m.unchanged(&err)
	defer weights.Guard(&err)()
	if err := m.standBeside(f, plan); err != nil {
		return nil, err
	}
	var on []bool
	if m.forms != nil {
		on = m.forms.on
	}
	_, r, err := m.form(on)
	if err != nil {
		return nil, classify(err)
	}
	p, err = f.BindAs(m.Graph, r)
	if err == nil {
		err = p.Keeps(given)
	}
	if err != nil {
		return nil, codedError{err, ExitCannot}
	}
	if p.Trains = m.trains(); f.Trains != nil && !f.Trains.Equal(p.Trains) {
		return nil, codedError{fmt.Errorf("%s: the file says that its step %s, but it %s", plan, f.Trains, p.Trains), ExitCannot}
	}
	return p, nil
}

// decidedBy sets what settings leave to the planner to what it has decided for a file.
func decidedBy(c *configs.Config, f *planner.File, path string) error {
	names := []string{"shrink"}
	for _, w := range twices {
		names = append(names, w.setting)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		value, given := c.Given(name)
		return !given || value != "auto"
	})
	return setAll(c, names, f.Settings, path)
}

// standBeside opens the step that a plan's costs are told beside, where that is
// another form than the model.
func (m *Model) standBeside(f *planner.File, path string) error {
	if len(f.Beside) == 0 || m.forms == nil {
		return nil
	}
	c, names := m.Config, []string{"shrink"}
	for _, w := range twices {
		names = append(names, w.setting)
	}
	if err := setAll(&c, names, f.Beside, path); err != nil {
		return err
	}
	other := m
	if m.other != nil && slices.ContainsFunc(twices, func(w twice) bool { return *w.of(&c) != *w.of(&m.Config) }) {
		var err error
		if other, err = m.other(c); err != nil {
			return err
		}
	}
	if other.forms != nil {
		m.plain = &plainStep{other.forms.exact, c}
	}
	return nil
}
