package onnx

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// fix notes the stored floats that an operator needs known before the step runs: they are constants, unless the
// exporter says that they are parameters.
func (r *reader) fix(op *graph.Op, in []*graph.Value) {
	for _, v := range neededKnown(op, in) {
		if v.Kind.Stored() && v.Type.IsFloat() {
			r.fixed[v] = true
		}
	}
}

// fedBy adds to an operator's error the inputs of the model on which something depends that it needs known.
func fedBy(op *graph.Op, in []*graph.Value, err error) error {
	var names []string
	for _, v := range neededKnown(op, in) {
		if v.Kind == graph.Input && v.Ints == nil {
			names = append(names, quote(v.Name))
		}
	}
	if len(names) == 0 {
		return err
	}
	slices.Sort(names)
	what := "input"
	if len(names) > 1 {
		what = "inputs"
	}
	return &graph.NodeError{Msg: fmt.Sprintf("%s; it depends on the model's %s %s", messageOf(err), what, strings.Join(names, ", "))}
}

// neededKnown lists the values, stored or inputs, that an operator's known inputs are computed from. What only their shapes
// are read of is not among them.
func neededKnown(op *graph.Op, in []*graph.Value) (from []*graph.Value) {
	seen := map[*graph.Value]bool{}
	var follow func(v *graph.Value)
	follow = func(v *graph.Value) {
		if v == nil || seen[v] || v.Ints != nil {
			return
		}
		seen[v] = true
		if v.Def == nil {
			from = append(from, v)
			return
		}
		for _, x := range v.Def.Inputs {
			follow(x)
		}
	}
	for _, i := range op.Known {
		if i < len(in) {
			follow(in[i])
		}
	}
	return from
}

func messageOf(err error) string {
	var node *graph.NodeError
	if errors.As(err, &node) {
		return node.Msg
	}
	return err.Error()
}
