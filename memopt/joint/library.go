package joint

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"memopt/memopt/graph"
)

// library makes the operators of one file: each name with its own licence to
// run again. A view and an operator may share a name (a reshape that once
// copies and once does not), so views are apart.
type library struct {
	lib, views *graph.Library
	class      map[string]graph.Class
}

// newLibrary learns from all nodes what each name is.
func newLibrary(nodes []node) *library {
	l := &library{&graph.Library{}, &graph.Library{}, map[string]graph.Class{}}
	for _, n := range nodes {
		class, known := l.class[n.Op]
		switch {
		case draws(n) || known && class == graph.Never:
			l.class[n.Op] = graph.Never
		case n.Flops > 0:
			l.class[n.Op] = graph.Heavy
		case !known:
			l.class[n.Op] = graph.Cheap
		}
	}
	return l
}

// op is the operator of a name, with the domain in front: aten.mm.default.
func (l *library) op(name string, view bool) *graph.Op {
	domain, rest, ok := strings.Cut(name, ".")
	if !ok {
		domain, rest = "", name
	}
	lib := l.lib
	if view {
		lib = l.views
	}
	if op := lib.Find(domain, rest, 0); op != nil {
		return op
	}
	op := graph.Op{Name: rest, Domain: domain, Doc: "recorded; its numbers are not here", In: "inputs...", Out: "outputs...",
		Attrs: "flops int=0, literals string, module string, types strings", Infer: infer, NoGrad: true,
		Flops: func(n *graph.Node) graph.Dim { return graph.Num(int64(n.Int("flops"))) }, Recompute: l.class[name]}
	if view {
		op.View, op.Flops = true, nil
	}
	return lib.Define(op)
}

// typeText is a type and shape as an attribute: f32[4, 64].
func typeText(t graph.DType, shape []int64) string { return t.String() + graph.Dims(shape...).String() }

// infer reads the outputs' types and shapes, which are attributes.
func infer(n *graph.Node) {
	types, _ := n.Attr("types").([]string)
	for i := range n.Outputs {
		if i >= len(types) {
			n.Fail("output %d has no type", i)
		}
		name, dims, _ := strings.Cut(strings.TrimSuffix(types[i], "]"), "[")
		t, ok := graph.ParseDType(name)
		shape := graph.Shape{}
		for d := range strings.SplitSeq(dims, ", ") {
			if d == "" {
				continue
			}
			size, err := strconv.ParseInt(d, 10, 64)
			ok = ok && err == nil
			shape = append(shape, graph.Num(size))
		}
		if !ok {
			n.Fail("output %d has type %q", i, types[i])
		}
		n.Set(i, t, shape)
	}
}

// dropout lists the operators that PyTorch marks as random, but that draw
// nothing if they drop nothing. Their probability is the first number among
// the literals, which leave out what has its default, 0.
var dropout = map[string]bool{
	"aten._scaled_dot_product_flash_attention_for_cpu.default": true,
	"aten._scaled_dot_product_flash_attention.default":         true,
	"aten._scaled_dot_product_cudnn_attention.default":         true,
	"aten._scaled_dot_product_efficient_attention.default":     true,
	"aten._scaled_dot_product_attention_math.default":          true,
	"aten.native_dropout.default":                              true,
}

// draws reports whether a node takes random numbers. What it took cannot be
// had again, so it runs once.
func draws(n node) bool {
	if !slices.Contains(n.Flags, "random") {
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
