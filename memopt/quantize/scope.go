package quantize

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/stop"
)

// quantizer is the state of quantizing a file.
type quantizer struct {
	ctx    context.Context
	o      *Options
	d      *onnx.Draft
	report *Report
	was    map[string]string // by new name of a node: its Gemm's name
	types  map[string]graph.DType

	numbers    map[*onnx.DraftTensor]*numbers // of transposed tensors
	transposes map[string]string              // by tensor: the transpose's name
	at         map[*onnx.DraftGraph]map[string]int
	uses       map[string]int
	table      map[string]operator

	// Of static quantization:
	scales  map[string][]float32 // by name of a scale
	rounds  map[string]*rounds   // weights by name
	biases  map[string]quantized // rounded ones, by name, scale and integers
	named32 map[string]bool
}

// quantized is a value in 8 bits: the names of its integers, scale and zero point.
type quantized struct {
	value, scale, zero string
	perAxis            bool
	axis               int64
}

// scope is a graph whose nodes are being replaced; graphs in attributes see the values of their
// parent.
type scope struct {
	*quantizer
	g       *onnx.DraftGraph
	parent  *scope
	where   string
	tensors map[string]*onnx.DraftTensor
	known   map[string]bool // values of this graph other than initializers
	done    map[string]quantized
	made    map[string]bool // inputs, and outputs of new nodes
	nodes   []*onnx.DraftNode
	named   map[string]*onnx.DraftNode // nodes by name
}

func (q *quantizer) scope(g *onnx.DraftGraph, parent *scope, where string) *scope {
	s := &scope{quantizer: q, g: g, parent: parent, where: where,
		tensors: map[string]*onnx.DraftTensor{}, known: map[string]bool{}, done: map[string]quantized{},
		made: map[string]bool{}, named: map[string]*onnx.DraftNode{}}
	return s
}

// index collects the graph's values, after its Gemms are replaced.
func (s *scope) index() {
	for _, t := range s.g.Tensors {
		s.tensors[t.Name] = t
	}
	for _, v := range s.g.Inputs {
		if s.tensors[v.Name] == nil {
			s.known[v.Name], s.made[v.Name] = true, true
		}
	}
	for _, v := range s.g.Outputs {
		if s.tensors[v.Name] == nil {
			s.known[v.Name] = true
		}
	}
	for _, n := range s.g.Nodes {
		for _, out := range n.Outputs {
			s.known[out] = true
		}
	}
}

// quantize replaces the nodes.
func (s *scope) quantize() error {
	s.index()
	for _, n := range s.g.Nodes {
		stop.Poll(s.ctx)
		if s.o.Subgraphs {
			if err := s.inner(n); err != nil {
				return err
			}
		}
		op, name := n.Op, nameOf(n)
		reason, err := s.node(n)
		if err != nil {
			return err
		}
		if at, can := s.table[op]; can && at.domain == n.Domain || op == "Gemm" {
			s.report.node(s.where, n, op, name, reason)
		}
		if reason != (skip{}) {
			s.plain(n)
		}
	}
	for _, v := range s.g.Outputs {
		s.dequantize(v.Name)
	}
	s.g.Nodes = s.nodes
	return nil
}

// inner quantizes the graphs in a node's attributes.
func (s *scope) inner(n *onnx.DraftNode) error {
	names, graphs := n.Graphs()
	for i, g := range graphs {
		if err := s.scope(g, s, s.where+nameOf(n)+"/"+names[i]+"/").quantize(); err != nil {
			return err
		}
	}
	return nil
}

func nameOf(n *onnx.DraftNode) string {
	if n.Name == "" && len(n.Outputs) > 0 {
		return n.Outputs[0]
	}
	return n.Name
}

// node quantizes a node, or says why not.
func (s *scope) node(n *onnx.DraftNode) (reason skip, err error) {
	op, can := s.table[n.Op]
	if n.Op == "Gemm" && !can {
		return skip{why: "is not a plain product: alpha = beta = 1 and transA = 0 are needed"}, nil
	}
	if !can || n.Domain != op.domain {
		return skip{why: "has no quantized form"}, nil
	}
	if reason := s.o.chosen(n, s.was[n.Name]); reason != "" {
		return skip{why: reason}, nil
	}
	err = op.quantize(s, n)
	var no skip
	if errors.As(err, &no) {
		return no, nil
	}
	return skip{}, err
}

// skip is why a node is not quantized, and the value that this is about, if any.
type skip struct{ value, why string }

func (s skip) Error() string { return strings.TrimSpace(s.value + " " + s.why) }

// plain adds a node unchanged, after nodes that dequantize its inputs if these exist in 8 bits
// only.
func (s *scope) plain(n *onnx.DraftNode) {
	for _, in := range n.Inputs {
		s.dequantize(in)
	}
	inside := map[string]bool{}
	eachInner(&onnx.DraftGraph{Nodes: []*onnx.DraftNode{n}}, func(g *onnx.DraftGraph) { readBy(g, inside) })
	for _, in := range slices.Sorted(maps.Keys(inside)) {
		s.dequantize(in)
	}
	s.add(n)
}

func (s *scope) add(nodes ...*onnx.DraftNode) {
	for _, n := range nodes {
		s.nodes = append(s.nodes, n)
		if n.Name != "" {
			s.named[n.Name] = n
		}
		for _, out := range n.Outputs {
			s.made[out] = true
		}
	}
}

// dequantize adds a node that converts a value to floats, if there is none.
func (s *scope) dequantize(name string) {
	q, is := s.done[name]
	if !is || s.made[name] {
		return
	}
	var attrs []graph.Attr
	if q.perAxis {
		attrs = []graph.Attr{{Name: "axis", Value: q.axis}}
	}
	s.add(onnx.NewNode("DequantizeLinear", name+"_DequantizeLinear", []string{q.value, q.scale, q.zero}, []string{name}, attrs...))
}

// initializer finds a tensor in the graph or its parents.
func (s *scope) initializer(name string) (*scope, *onnx.DraftTensor) {
	for at := s; at != nil; at = at.parent {
		if t := at.tensors[name]; t != nil {
			return at, t
		}
		if at.known[name] {
			return nil, nil
		}
	}
	return nil, nil
}

// floats says why a value cannot be quantized; "" if it can.
func (s *scope) floats(name string) string {
	if _, t := s.initializer(name); t != nil {
		switch t.Type {
		case graph.Float32:
			return ""
		case graph.Float16, graph.BFloat16, graph.Float64:
			return "is " + t.Type.String() + ", and only f32 can be quantized"
		}
		return "is not a float"
	}
	switch t := s.typeOf(name); t {
	case graph.Float32, graph.Invalid:
		return ""
	default:
		return "is " + t.String() + ", and only f32 can be quantized"
	}
}

// typeOf is the element type of a value other than an initializer; Invalid if unknown.
func (s *scope) typeOf(name string) graph.DType {
	for at := s; at != nil; at = at.parent {
		for _, list := range [][]onnx.DraftValue{at.g.Inputs, at.g.Outputs, at.g.Infos} {
			if i := slices.IndexFunc(list, func(v onnx.DraftValue) bool { return v.Name == name }); i >= 0 && list[i].Type != graph.Invalid {
				return list[i].Type
			}
		}
	}
	if s.quantizer.types == nil && s.o.Types != nil {
		s.quantizer.types = s.o.Types()
	}
	return s.quantizer.types[name]
}

// weight quantizes an initializer, or a computed value.
func (s *scope) weight(name string, typ graph.DType, axis int64, perAxis, reduced bool) (quantized, error) {
	if q, is := s.done[name]; is {
		return q, nil
	}
	if t := s.tensors[name]; t != nil {
		return s.tensor(t, typ, axis, perAxis, reduced)
	}
	if s.known[name] {
		return s.activation(name)
	}
	if s.parent == nil {
		return quantized{}, skip{name, "is not computed by any node"}
	}
	return s.parent.weight(name, typ, axis, perAxis, reduced)
}

// activation adds the node that quantizes a value when the model runs.
func (s *scope) activation(name string) (quantized, error) {
	q := quantized{value: name + "_quantized", scale: name + "_scale", zero: name + "_zero_point"}
	if s.o.Static == nil {
		s.add(onnx.NewNode("DynamicQuantizeLinear", name+"_QuantizeLinear", []string{name}, []string{q.value, q.scale, q.zero}))
	} else {
		if !s.ranged(name) {
			return q, skip{name, noRange}
		}
		s.add(onnx.NewNode("QuantizeLinear", name+"_QuantizeLinear", []string{name, q.scale, q.zero}, []string{q.value}))
	}
	s.done[name] = q
	return q, nil
}

// input quantizes a value that is read as an activation: dynamically to uint8, whatever the type of
// weights.
func (s *scope) input(name string) (quantized, error) {
	return s.weight(name, s.o.activations(), 0, false, false)
}

// tensor quantizes an initializer of the graph.
func (s *scope) tensor(t *onnx.DraftTensor, typ graph.DType, axis int64, perAxis, reduced bool) (quantized, error) {
	x := s.numbersOf(t)
	perAxis = perAxis && len(x.shape) > 1
	p := &scheme{typ: typ, symmetric: s.o.symmetric(typ), reduced: reduced && s.o.ReduceRange, least: s.o.MinRealRange, channels: 1}
	shape := []int64{}
	if perAxis {
		at := axis // a negative axis stays one in the file, as upstream writes it
		if at < 0 {
			at += int64(len(x.shape))
		}
		inner, size := int64(1), x.shape[at]
		for _, d := range x.shape[at+1:] {
			inner *= d
		}
		p.channels, p.channel = size, func(i int64) int64 { return i / inner % size }
		shape = []int64{size}
	}
	q := quantized{value: t.Name + "_quantized", scale: t.Name + "_scale", zero: t.Name + "_zero_point", perAxis: perAxis, axis: axis}
	if err := s.put(t, x, p, q, x.shape, shape); err != nil {
		return quantized{}, err
	}
	s.done[t.Name] = q
	return q, nil
}

// put adds the integers of a tensor, their scales and zero points, in the given shapes.
func (s *scope) put(t *onnx.DraftTensor, x *numbers, p *scheme, q quantized, shape, scales []int64) error {
	by, err := p.roundings(x)
	if err != nil {
		return skip{t.Name, err.Error()}
	}
	row := s.report.tensor(s.where, t, p)
	add := func(name string, typ graph.DType, shape []int64, b []byte) {
		s.g.Tensors = append(s.g.Tensors, &onnx.DraftTensor{Name: name, Type: typ, Shape: shape, Data: graph.Bytes(b)})
	}
	var zb []byte
	r := &rounds{x: x, scheme: p, by: by}
	for _, one := range by {
		zb = appendInt(zb, p.typ, one.zero)
	}
	s.g.Tensors = append(s.g.Tensors, &onnx.DraftTensor{Name: q.scale, Type: graph.Float32, Shape: scales, Write: r.writeScales})
	add(q.zero, p.typ, scales, zb)
	s.g.Tensors = append(s.g.Tensors, &onnx.DraftTensor{Name: q.value, Type: p.typ, Shape: shape,
		Write: func(w io.Writer) error { return p.write(w, x, by, &row.WorstError) }})
	s.rounds[q.scale] = r
	return nil
}

// clean removes unread initializers of the graph and its inner graphs.
func (s *scope) clean() {
	read := map[string]bool{}
	readBy(s.g, read)
	dropUnread(s.g, read)
}

func readBy(g *onnx.DraftGraph, read map[string]bool) {
	for _, n := range g.Nodes {
		for _, in := range n.Inputs {
			read[in] = true
		}
		_, graphs := n.Graphs()
		for _, inner := range graphs {
			readBy(inner, read)
		}
	}
	for _, v := range g.Outputs {
		read[v.Name] = true
	}
}

func dropUnread(g *onnx.DraftGraph, read map[string]bool) {
	made := map[string]bool{}
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			made[out] = true
		}
		_, graphs := n.Graphs()
		for _, inner := range graphs {
			dropUnread(inner, read)
		}
	}
	gone := map[string]bool{}
	g.Tensors = slices.DeleteFunc(g.Tensors, func(t *onnx.DraftTensor) bool {
		gone[t.Name] = made[t.Name] || !read[t.Name]
		return gone[t.Name]
	})
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v onnx.DraftValue) bool { return gone[v.Name] })
}

// sorted sorts the nodes of a graph, and of graphs in its nodes, as upstream does: nodes that read
// nothing, then those that are ready by values from outside, by name, then those that others make ready.
func sorted(g *onnx.DraftGraph) error {
	made := map[string]bool{}
	for _, n := range g.Nodes {
		for _, out := range n.Outputs {
			made[out] = out != ""
		}
	}
	waits := make([]int, len(g.Nodes))
	readers := map[string][]int{}
	order := make([]int, 0, len(g.Nodes))
	for i, n := range g.Nodes {
		inside := map[string]bool{}
		_, graphs := n.Graphs()
		for _, inner := range graphs {
			if err := sorted(inner); err != nil {
				return err
			}
			readBy(inner, inside)
		}
		for _, in := range slices.Concat(n.Inputs, slices.Sorted(maps.Keys(inside))) {
			if in != "" {
				waits[i]++
				readers[in] = append(readers[in], i)
			}
		}
		if waits[i] == 0 {
			order = append(order, i)
		}
	}
	ready := func(name string) {
		for _, i := range readers[name] {
			if waits[i]--; waits[i] == 0 {
				order = append(order, i)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		if !made[name] {
			ready(name)
		}
	}
	out := make([]*onnx.DraftNode, 0, len(g.Nodes))
	for k := 0; k < len(order); k++ {
		n := g.Nodes[order[k]]
		out = append(out, n)
		for _, name := range n.Outputs {
			if name != "" {
				ready(name)
			}
		}
	}
	if i := slices.IndexFunc(waits, func(n int) bool { return n > 0 }); i >= 0 {
		return errors.New("node " + nameOf(g.Nodes[i]) + " is part of a cycle")
	}
	g.Nodes = out
	return nil
}
