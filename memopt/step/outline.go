package step

import (
	"fmt"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/memopt/exit"
)

// ReadOutline reads the nodes as a trainer's file spells them: clusters are named after those, not after the nodes
// of the graph.
func (m *Model) ReadOutline() (err error) {
	if !slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op.Border }) {
		return nil
	}
	if m.Bytes != nil {
		m.Outline, err = onnx.OutlineOf(m.Bytes, m.Path)
	} else {
		m.Outline, err = onnx.ReadOutline(m.Path)
	}
	if err != nil {
		return exit.Input(err)
	}
	return nil
}

// Unparted explains an error about a file that returns gradients of its inputs: it contains a backward pass, but
// lacks the node that separates it from the forward pass.
func (m *Model) Unparted(err error) error {
	if m.Graph == nil {
		return err
	}
	for _, v := range m.Graph.Outputs {
		param, is := strings.CutSuffix(v.Name, "_grad")
		if of := m.Graph.ByName(param); is && of != nil && of.Kind != graph.Computed {
			return exit.Input(fmt.Errorf("%w; the file returns %q, but nothing ends its forward pass: a trainer's file has a YieldOp there", err, v.Name))
		}
	}
	return err
}

// boundary reports whether clusters end at layers. In ONNX Runtime they do at its levels only.
func boundary(c configs.Config) bool {
	if _, given := c.Source("boundary"); !given && c.Compat != "" {
		return c.Level > 0
	}
	return c.Boundary
}
