package onnx

import (
	"fmt"
	"slices"

	"memopt/internal/graph"
)

// ReadOutline reads the nodes of the model at path exactly as the file has them: operators
// need not be known, and nothing is folded or inferred. Weights are not read.
func ReadOutline(path string) (*graph.Outline, error) {
	f, err := openModel(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o, err := OutlineOf(f.Bytes(), path)
	if changed := f.Unchanged(); changed != nil {
		return nil, changed
	}
	return o, err
}

// OutlineOf is ReadOutline from bytes, which the outline does not share; name is for errors.
func OutlineOf(src []byte, name string) (o *graph.Outline, err error) {
	defer func() {
		if wrong := caught(recover(), name); wrong != nil {
			o, err = nil, wrong
		}
	}()
	r := newReader(src, name, "", nil, nil)
	r.readModel()
	return r.outline(), nil
}

// outline reads the main graph by names.
func (r *reader) outline() *graph.Outline {
	o := &graph.Outline{Values: map[string]graph.OutlineValue{}}
	g := r.readBody("the graph", r.model.graph)
	unnamed := 0
	note := func(what string, b []byte) string {
		info := r.valueInfo(what, b)
		if info.bad != "" {
			return info.name
		}
		for i, dim := range info.spelled {
			if dim == "" {
				info.shape[i] = graph.Sym(fmt.Sprintf("empty_dim_param%d", unnamed))
				unnamed++
			}
		}
		if old := o.Values[info.name]; !old.Known {
			o.Values[info.name] = graph.OutlineValue{Type: info.dtype, Shape: info.shape, Spelled: info.spelled, Known: info.hasShape}
		}
		return info.name
	}
	given := map[string]bool{}
	for _, b := range g.inputs {
		name := note("input", b)
		o.Inputs = append(o.Inputs, name)
		given[name] = true
	}
	for _, b := range g.inits {
		t := readTensor(r.message("an initializer", b), initializerName)
		if t.name == "" {
			fail("an initializer has no name")
		}
		if !given[t.name] {
			o.Inputs = append(o.Inputs, t.name)
			given[t.name] = true
		}
		if t.bad == "" {
			o.Values[t.name] = graph.OutlineValue{Type: t.dtype, Shape: graph.Dims(t.dims...), Known: true}
		}
	}
	for _, b := range g.infos {
		note("value", b)
	}
	for _, b := range g.outputs {
		o.Outputs = append(o.Outputs, note("output", b))
	}
	for _, b := range g.nodes {
		o.Nodes = append(o.Nodes, r.outlineNode(b, given))
	}
	for _, n := range o.Nodes {
		for _, in := range n.Inputs {
			if in != "" && !given[in] {
				fail("node %s (%s): nothing makes input %s", quote(n.Name), n.Op, quote(in))
			}
		}
	}
	return o
}

// outlineNode reads a node and adds its outputs to given. Attributes share no bytes with the
// file.
func (r *reader) outlineNode(b []byte, given map[string]bool) graph.OutlineNode {
	n := &node{}
	r.node(b, n)
	out := graph.OutlineNode{Name: n.name, Domain: n.domain, Op: n.op, Of: -1,
		Since: since(n.domain, n.op, r.model.opsets[n.domain]), Outputs: slices.Clone(n.out)}
	for _, in := range n.in {
		out.Inputs = append(out.Inputs, string([]byte(in)))
	}
	for _, name := range n.out {
		if name == "" {
			continue
		}
		if given[name] {
			fail("node %s (%s): two values are named %s", quote(n.name), n.fullOp(), quote(name))
		}
		given[name] = true
	}
	for _, a := range n.attrs {
		switch x := a.value.(type) {
		case nil:
			// A graph or a reference, which no reader of outlines needs.
		case *graph.Tensor:
			own := graph.NewTensor(x.Type, x.Shape...)
			copy(own.Bytes, x.Bytes)
			out.Attrs = append(out.Attrs, graph.Attr{Name: a.name, Value: own})
		default:
			out.Attrs = append(out.Attrs, graph.Attr{Name: a.name, Value: x})
		}
	}
	return out
}
