package memopt

import (
	"slices"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/onnx"
)

// read takes the graph out of the file and, unless it is a training graph
// already, cleans it up: a backward pass that somebody planned stays as it is.
func (m *Model) read() (err error) {
	if m.Graph, err = onnx.Read(m.Path, kernels.Library); err != nil {
		return input(err)
	}
	if m.Config.Optimize == "off" || hasBackward(m.Graph) {
		return nil
	}
	o := graph.CleanOptions{}
	if m.Config.Optimize == "fuse" {
		o.Fuse = func(*graph.Op) bool { return true }
	}
	params, err := autograd.Trainable(m.Graph, m.Config.Trainable)
	if err != nil {
		return input(err)
	}
	trained := map[*graph.Value]bool{}
	for _, v := range params {
		trained[v] = true
	}
	o.Trained = func(v *graph.Value) bool { return trained[v] }
	// A loss that is named need not be an output yet.
	if loss := m.Graph.ByName(m.Config.Loss); loss != nil && !slices.Contains(m.Graph.Outputs, loss) {
		m.Graph.Outputs = append(m.Graph.Outputs, loss)
	}
	m.Passes = m.Graph.Clean(o)
	return nil
}
