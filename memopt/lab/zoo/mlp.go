package zoo

import (
	"math"
	"strconv"

	"memopt/internal/graph"
)

// mlp is linear layers with ReLU between them.
var mlp = Family{
	Name:     "mlp",
	Doc:      "linear layers with ReLU between them: tells the class of a row",
	Defaults: Spec{Layers: 2, Width: 512, Inputs: 784, Classes: 10},
	Batch:    64, LR: 1e-3,
	build: buildMLP,
	data:  prototypes,
}

func buildMLP(m *model) {
	x := m.define(graph.Input, "x", graph.Float32, m.batch, dim(m.Inputs))
	labels := m.define(graph.Input, "labels", graph.Int64, m.batch)
	from := m.Inputs
	for i := range m.Layers {
		name := strconv.Itoa(i + 1)
		x = m.relu("relu"+name, m.linear("fc"+name, x, m.Width, math.Sqrt(2/float64(from)), true))
		from = m.Width
	}
	m.classLoss(m.linear("fc"+strconv.Itoa(m.Layers+1), x, m.Classes, smallStd, true), labels)
}
