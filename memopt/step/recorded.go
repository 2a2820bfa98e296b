package step

import (
	"fmt"
	"path/filepath"

	"memopt/internal/graph"
	"memopt/internal/joint"
	"memopt/memopt/exit"
)

// readJoint reads the graph from a joint graph's file, which contains the backward pass.
func (m *Model) readJoint() (err error) {
	if m.Graph, err = joint.ReadContext(m.Ctx, m.Path); err != nil {
		return exit.Input(err)
	}
	if !m.Graph.HasBackward() {
		return exit.Input(fmt.Errorf("%s has no backward pass, and its operators are known by name only, so none can be derived", filepath.Base(m.Path)))
	}
	return nil
}

// Recorded reports whether the step was recorded elsewhere: memopt can plan it, but not run it.
func (m *Model) Recorded() bool { return Runnable(m.Graph) != nil }

// Runnable reports why a graph cannot be run or written as ONNX: it was recorded elsewhere, and its operators are
// names without implementations.
func Runnable(g *graph.Graph) error {
	for _, n := range g.Nodes {
		if !n.Op.View && n.Op.Eval == nil && n.Op.Fast == nil {
			return exit.Input(fmt.Errorf("%s is known by name only: a recorded graph can be planned, checked, explained and exported, but not run or written as ONNX", n.Op.FullName()))
		}
	}
	return nil
}
