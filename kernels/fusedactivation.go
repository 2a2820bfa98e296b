package kernels

import (
	"maps"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// What FusedConv and FusedGemm do behind their products.

// fusedActivations are the expressions of those that fused operators take, by name.
var fusedActivations = map[string]string{}

// activationForm is for what is done to a result in place.
var activationForm = func() *pointwiseForm {
	form := formOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)
	form.exprs = append(form.exprs, plusTerm)
	return form
}()

const plusTerm = "a + b"

// fusedActivation is the operator that a node's activation is, nil for none.
func fusedActivation(n *graph.Node) *graph.Op {
	name := n.Str("activation")
	if name == "" {
		return nil
	}
	if fusedActivations[name] == "" {
		n.Fail("activation is %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(fusedActivations)), ", "))
	}
	return Library.Find("", name, 0)
}

// activate runs the activation over output 0, in place.
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

// lowerActivation is the activation of a fused operator.
func lowerActivation(l *graph.Lowering) {
	if op := fusedActivation(l.Node); op != nil && l.Refused == "" {
		activationForm.append(l, fusedActivations[op.Name], l.Out[0], []*graph.Operand{l.Out[0]}, []graph.Buffer{writes(0), rereads(0)})
	}
}
