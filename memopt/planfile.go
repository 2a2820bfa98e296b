package memopt

import (
	"fmt"
	"maps"
	"slices"

	"memopt/configs"
	"memopt/planner"
)

// shaping lists the settings that a training step is made from. A plan file
// carries them, so that its graph can be made again.
var shaping = []string{"loss", "trainable", "optimizer", "clip_norm", "accumulate", "loss_scale", "loss_scale_window", "nesterov", "lr_decay", "momentum", "beta1", "beta2", "epsilon", "weight_decay", "optimize", "shrink", "lossy", "chunk_loss", "flash_attention"}

// requests is the setting that names clusters: it makes the graph too, where it
// names what can be kept in less.
const requests = "config"

// PlanFile is the plan's file, with the settings that made its graph.
func (m *Model) PlanFile(p *planner.Plan) *planner.File {
	f := p.File(m.Path)
	for _, name := range shaping {
		if value, ok := m.Config.Given(name); ok {
			f.Settings[name] = value
		}
	}
	maps.Copy(f.Settings, m.forms.decided())
	for _, w := range m.twice() {
		f.Settings[w.setting] = w.on
	}
	if m.forms != nil && m.forms.asked {
		f.Settings[requests], _ = m.Config.Given(requests)
	}
	return f
}

// fileSettings are the settings that a plan file carries; whatever else is
// given is stronger.
func fileSettings(f *planner.File, path string) (configs.Config, error) {
	var c configs.Config
	for _, name := range append(slices.Clip(shaping), requests) {
		if value, ok := f.Settings[name]; ok {
			if err := c.Set(name, value, configs.Source{Origin: configs.OriginFile, Name: path}); err != nil {
				return c, fmt.Errorf("memopt: setting %s: %w", name, err)
			}
		}
	}
	return c, nil
}

// LoadPlan reads a plan file, opens its model with the file's settings and has
// the plan replayed on it.
func LoadPlan(plan, model string, c configs.Config) (*planner.Plan, error) {
	f, err := planner.ReadFile(plan)
	if err != nil {
		return nil, input(err)
	}
	from, err := fileSettings(f, plan)
	if err != nil {
		return nil, input(err)
	}
	m, err := Open(model, configs.Merge(c, from))
	if err != nil {
		return nil, err
	}
	p, err := f.BindOutline(m.Graph, m.Outline)
	if err != nil {
		return nil, codedError{err, ExitCannot}
	}
	return p, nil
}
