package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// bind finds the sizes of the graph's dims in a run, and checks the shapes of its inputs.
func bind(g *graph.Graph, in map[string]*graph.Tensor) (map[string]int64, error) {
	dims, err := graph.Sizes(g.Inputs, func(v *graph.Value) []int { return in[v.Name].Shape })
	if err != nil {
		return nil, err
	}
	b, err := graph.Bind(dims)
	if err != nil {
		return nil, err
	}
	for _, v := range g.Inputs {
		shape, err := b.Shape(v.Shape)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", v.Name, err)
		}
		if x := in[v.Name]; !slices.Equal(shape, x.Shape) {
			return nil, fmt.Errorf("input %q is %s%v, but the model takes %s%s", v.Name, x.Type, x.Shape, v.Type, v.Shape)
		}
	}
	return dims, nil
}

// keyOf is a key of the shapes of all inputs.
func keyOf(in map[string]*graph.Tensor) string {
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(in)) {
		fmt.Fprintf(&sb, "%q%v", name, in[name].Shape)
	}
	return sb.String()
}
