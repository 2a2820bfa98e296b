package kernels

import (
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/lower"
)

// The activation of FusedConv and FusedGemm.

// fusedActivations has the expression of each activation that fused operators accept, by name.
var fusedActivations = map[string]string{}

// activationForm applies an activation or a sum to the result in place.
var activationForm = func() *lower.Form {
	form := lower.FormOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	form.Exprs = append(form.Exprs, plusTerm)
	return form
}()

const plusTerm = "a + b"

// fusedActivation is the operator of a node's attribute activation, or nil.
func fusedActivation(n *graph.Node) *graph.Op {
	name := n.Str("activation")
	if name == "" {
		return nil
	}
	if fusedActivations[name] == "" {
		n.Fail("activation %q is not supported; only %s are", name, strings.Join(slices.Sorted(maps.Keys(fusedActivations)), ", "))
	}
	return Library.Find("", name, 0)
}

// activate applies the activation to output 0 in place.
func activate(c *graph.Call, form func(*graph.Op) func(*graph.Call)) {
	op := fusedActivation(c.Node)
	if op == nil {
		return
	}
	d, m := *c, *c.Node
	m.Op, m.Attrs = op, nil
	d.Node, d.In = &m, c.Out[:1]
	form(op)(&d)
}

// lowerActivation applies the activation in place.
func lowerActivation(l *graph.Lowering) {
	if op := fusedActivation(l.Node); op != nil && l.Refused == "" {
		activationForm.Append(l, fusedActivations[op.Name], l.Out[0], []*graph.Operand{l.Out[0]}, []graph.Buffer{lower.Writes(0), lower.Rereads(0)})
	}
}
