package memopt

import (
	"fmt"
	"path/filepath"

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
		if f.Model.Fingerprint != m.Graph.Fingerprint() {
			err = fmt.Errorf("%w; a plan is checked with the settings it was made with: --optimizer, --loss, --trainable, --clip-norm, --accumulate", err)
		}
		return nil, codedError{err, ExitCannot}
	}
	return p, nil
}

// SaveGraphs writes a plan's training graph as it was and as it is under the
// plan into a folder, as NAME.before.onnx and NAME.after.onnx.
func SaveGraphs(p *planner.Plan, folder, name string) error {
	if err := onnx.Write(filepath.Join(folder, name+".before.onnx"), p.Graph); err != nil {
		return input(fmt.Errorf("memopt: %w", err))
	}
	return Emit(p, filepath.Join(folder, name+".after.onnx"))
}

// Emit writes the plan's rewritten training graph as ONNX.
func Emit(p *planner.Plan, path string) error {
	g, err := p.Rewrite()
	if err != nil {
		return err
	}
	if err := onnx.Write(path, g); err != nil {
		return input(fmt.Errorf("memopt: %w", err))
	}
	return nil
}
