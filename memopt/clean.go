package memopt

import (
	"fmt"
	"path/filepath"
	"slices"

	"memopt/autograd"
	"memopt/configs"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/joint"
	"memopt/memopt/onnx"
)

// read takes the graph out of the file and, unless it is a training graph
// already, cleans it up: a backward pass that somebody planned stays as it is.
func (m *Model) read() (err error) {
	if joint.Is(m.Path) {
		return m.readJoint()
	}
	if m.Graph, m.source, err = onnx.Open(m.Path, kernels.Library); err != nil {
		return input(err)
	}
	if hasBackward(m.Graph) {
		return nil
	}
	if err := m.addLoss(); err != nil {
		return err
	}
	return m.clean(graph.CleanOptions{Fuse: kernels.Fusions, Unfold: true})
}

// clean runs the passes on a forward graph, as far as the settings say.
func (m *Model) clean(o graph.CleanOptions) error {
	switch m.Config.Optimize {
	case "off":
		return nil
	case "clean":
		o = graph.CleanOptions{}
	}
	params, err := autograd.Trainable(m.Graph, m.Config.Trainable)
	if err != nil {
		return input(err)
	}
	trained := map[string]bool{}
	for _, v := range params {
		trained[v.Name] = true
	}
	// A loss that is named need not be an output yet.
	if loss := m.Graph.ByName(m.loss); loss != nil && !slices.Contains(m.Graph.Outputs, loss) {
		m.Graph.Outputs = append(m.Graph.Outputs, loss)
	}
	o.Trained = func(v *graph.Value) bool { return trained[v.Name] }
	m.cleaned, m.Passes = o, m.Graph.Clean(o)
	return nil
}

// Optimize writes the forward graph of a model as ONNX after the passes, of
// operators that other runtimes have too. The numbers that are fused into
// attributes are those that Open would not train either.
func Optimize(path, to string, c configs.Config) (graph.Report, error) {
	m := &Model{Path: path, Config: c}
	if joint.Is(path) {
		return m.Passes, input(fmt.Errorf("memopt: %s is no ONNX model; only those are optimized", filepath.Base(path)))
	}
	var err error
	if m.Graph, m.source, err = onnx.Open(path, kernels.Library); err != nil {
		return m.Passes, input(err)
	}
	defer m.Close()
	if hasBackward(m.Graph) {
		return m.Passes, input(fmt.Errorf("memopt: %s has a backward pass; only forward graphs are optimized", filepath.Base(path)))
	}
	if err := m.addLoss(); err != nil {
		return m.Passes, err
	}
	if err := m.clean(graph.CleanOptions{Fuse: kernels.Portable}); err != nil {
		return m.Passes, err
	}
	if err := onnx.Write(to, m.Graph); err != nil {
		return m.Passes, input(fmt.Errorf("memopt: %w", err))
	}
	return m.Passes, nil
}
