package memopt

import (
	"fmt"

	"memopt/configs"
	"memopt/memopt/onnx"
	"memopt/planner"
)

// LoadPlan reads a plan file, opens its model with the same settings and has
// the plan replayed on it.
func LoadPlan(plan, model string, c configs.Config) (*planner.Plan, error) {
	f, err := planner.ReadFile(plan)
	if err != nil {
		return nil, input(err)
	}
	m, err := Open(model, c)
	if err != nil {
		return nil, err
	}
	p, err := f.Bind(m.Graph)
	if err != nil {
		return nil, codedError{err, ExitCannot}
	}
	return p, nil
}

// Emit writes the plan's rewritten training graph as ONNX.
func Emit(p *planner.Plan, path string) error {
	g, err := p.Rewrite()
	if err != nil {
		return err
	}
	if err := onnx.Write(path, g); err != nil {
		return fmt.Errorf("memopt: %w", err)
	}
	return nil
}
