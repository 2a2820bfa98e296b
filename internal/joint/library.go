package joint

import (
	"encoding/json"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// library defines the operators of one file. Nodes of the same name may differ in whether they can be recomputed,
// and in whether they copy or make a view; these are separate operators.
type library struct {
	again, once, views *graph.Library
	heavy              map[string]bool // by name
}

// newLibrary collects the names of operators that count flops.
func newLibrary(nodes []node) *library {
	l := &library{&graph.Library{}, &graph.Library{}, &graph.Library{}, map[string]bool{}}
	for _, n := range nodes {
		l.heavy[n.Op] = l.heavy[n.Op] || !n.Flops.Is(0)
	}
	return l
}

// op is the operator of a node that is not a view.
func (l *library) op(n *node) *graph.Op {
	op := graph.Op{Flops: flopsOf,
		Calls: func(n *graph.Node) int64 { return int64(n.Int("calls")) }, Kernel: kernelOf(n.Op, l.heavy[n.Op], n.onlyOnce())}
	switch {
	case n.onlyOnce():
		op.Recompute = graph.Never
		return define(l.once, n.Op, op)
	case l.heavy[n.Op]:
		op.Recompute = graph.Heavy
	default:
		op.Recompute = graph.Cheap
	}
	return define(l.again, n.Op, op)
}

// view is the view operator of a name.
func (l *library) view(name string) *graph.Op {
	return define(l.views, name, graph.Op{View: true, Recompute: graph.Cheap})
}

// define finds or defines the operator of a name that begins with its domain, such as aten.mm.default.
func define(lib *graph.Library, name string, op graph.Op) *graph.Op {
	var ok bool
	if op.Domain, op.Name, ok = strings.Cut(name, "."); !ok {
		op.Domain, op.Name = "", name
	}
	if known := lib.Find(op.Domain, op.Name, 0); known != nil {
		return known
	}
	op.Doc, op.In, op.Out = "recorded; its numbers are not here", "inputs...", "outputs..."
	op.Attrs, op.Infer, op.NoGrad = "flops int=0, formula string, calls int=1, literals string, module string, once int=0, types strings", infer, true
	return lib.Define(op)
}

// flopsOf is the flops of a node: a number, or a formula.
func flopsOf(n *graph.Node) graph.Dim {
	if formula, given := n.Attr("formula").(string); given {
		d, err := graph.ParseDim(formula)
		if err != nil {
			n.Fail("flops are %q: %s", formula, err)
		}
		return d
	}
	return graph.Num(int64(n.Int("flops")))
}

// typeText formats type and shape for an attribute, such as f32[4, 64].
func typeText(t graph.DType, shape graph.Shape) string { return t.String() + shape.String() }

// infer reads types and shapes of the outputs from the attributes.
func infer(n *graph.Node) {
	types, _ := n.Attr("types").([]string)
	for i := range n.Outputs {
		if i >= len(types) {
			n.Fail("output %d has no type", i)
		}
		name, dims, _ := strings.Cut(strings.TrimSuffix(types[i], "]"), "[")
		t, ok := graph.ParseDType(name)
		shape, err := parseShape(dims)
		ok = ok && err == nil
		if !ok {
			n.Fail("output %d has type %q", i, types[i])
		}
		n.Set(i, t, shape)
	}
}

// dropout lists operators that PyTorch marks as random but that draw nothing if their dropout probability is 0. The
// probability is the first number among the literals, which omit arguments that have their default, 0.
var dropout = map[string]bool{
	"aten._scaled_dot_product_flash_attention_for_cpu.default": true,
	"aten._scaled_dot_product_flash_attention.default":         true,
	"aten._scaled_dot_product_cudnn_attention.default":         true,
	"aten._scaled_dot_product_efficient_attention.default":     true,
	"aten._scaled_dot_product_attention_math.default":          true,
	"aten.native_dropout.default":                              true,
}

// Flags of nodes that must not be recomputed.
const (
	once   = "once"   // always
	random = "random" // unless the node draws nothing
)

// onlyOnce reports whether a node must not be recomputed.
func (n *node) onlyOnce() bool { return slices.Contains(n.Flags, once) || n.draws() }

// draws reports whether a node draws random numbers. They cannot be reproduced, so the node runs once.
func (n *node) draws() bool {
	if !slices.Contains(n.Flags, random) {
		return false
	}
	if !dropout[n.Op] {
		return true
	}
	var literals []any
	if json.Unmarshal(n.Attrs, &literals) != nil {
		return len(n.Attrs) > 0
	}
	for _, x := range literals {
		if p, ok := x.(float64); ok {
			return p != 0
		}
	}
	return false
}
