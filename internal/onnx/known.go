package onnx

import (
	"slices"

	"memopt/internal/graph"
)

// ParseKnown is Parse with contents of some inputs, which become constants of the graph. Axes,
// pads and target shapes must be known for planning, so a model that takes them as inputs is
// read for one choice of them.
func ParseKnown(src []byte, name string, lib *graph.Library, known map[string]*graph.Tensor) (*graph.Graph, error) {
	r := newReader(src, name, "", lib, nil)
	r.known = known
	return r.run()
}

// constant adds an input whose contents are known.
func (r *reader) constant(top *scope, in *valueInfo, x *graph.Tensor) {
	if x.Type != in.dtype || len(x.Shape) != len(in.shape) {
		fail("%s is %s%s, but its numbers are %s%v", in.what, in.dtype, in.shape, x.Type, x.Shape)
	}
	for i, d := range in.shape {
		if n, ok := d.Const(); ok && n != int64(x.Shape[i]) {
			fail("%s is %s%s, but its numbers are %s%v", in.what, in.dtype, in.shape, x.Type, x.Shape)
		}
	}
	v, err := r.b.Const(in.name, x)
	if err != nil {
		fail("%s: %s", in.what, err)
	}
	top.values[in.name] = v
}

// ParseTensor reads a TensorProto and its name, for test data. The tensor does not share src's
// bytes.
func ParseTensor(src []byte) (name string, x *graph.Tensor, err error) {
	defer func() {
		if wrong := caught(recover(), ""); wrong != nil {
			err = wrong
		}
	}()
	r := newReader(src, "", "", nil, nil)
	t := readTensor(r.message("a tensor", r.src), func(t *tensor) string { return "tensor " + quote(t.name) })
	if t.bad != "" {
		t.fail("it %s", t.bad)
	}
	b, err := r.data(t).Bytes()
	if err != nil {
		t.fail("%s", err)
	}
	x = graph.NewTensor(t.dtype, t.shape()...)
	copy(x.Bytes, b)
	return t.name, x, nil
}

// Outline summarizes a model, whether it can be read or not.
type Outline struct {
	Opsets  map[string]int // by domain; "" is ONNX's own
	Ops     []string       // operators of the main graph's nodes in order, with domains
	Inputs  []string       // those without an initializer
	Outputs []string
	Foreign []string // inputs and outputs that are not supported tensors
}

// ParseOutline reads the Outline of a model.
func ParseOutline(src []byte) (o Outline, err error) {
	defer func() {
		if wrong := caught(recover(), ""); wrong != nil {
			err = wrong
		}
	}()
	r := newReader(src, "", "", nil, nil)
	o.Opsets = map[string]int{}
	for m := r.message("the model", r.src); m.next(); {
		switch m.num {
		case modelOpset:
			r.opset(m, o.Opsets)
		case modelGraph:
			r.model.graph = m.bytes()
		}
	}
	g := r.readBody("the graph", r.model.graph)
	n := &node{}
	for _, b := range g.nodes {
		r.node(b, n)
		o.Ops = append(o.Ops, n.fullOp())
	}
	given := make([]string, len(g.inits))
	for i, b := range g.inits {
		for m := r.message("an initializer", b); m.next(); {
			if m.num == tensorName {
				given[i] = m.text()
			}
		}
	}
	value := func(what string, b []byte) string {
		v := r.valueInfo(what, b)
		if v.bad != "" {
			o.Foreign = append(o.Foreign, v.what+" "+v.bad)
		}
		return v.name
	}
	for _, b := range g.inputs {
		if name := value("input", b); !slices.Contains(given, name) {
			o.Inputs = append(o.Inputs, name)
		}
	}
	for _, b := range g.outputs {
		o.Outputs = append(o.Outputs, value("output", b))
	}
	return o, nil
}
