package onnx

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/graph"
	"memopt/internal/stop"
	"memopt/internal/weights"
	"memopt/internal/whole"
)

// Draft is a parsed model file that can be changed and written back: nodes, initializers, opsets. Everything that
// has no field here is copied byte for byte. Nothing is inferred, and operators need not be known.
//
// Weights stay in the files, which are mapped until Close.
type Draft struct {
	Opsets map[string]int // by domain, "" is ONNX's own; domains may be added
	Graph  *DraftGraph

	file   string
	beside string // an external file with tensors of attributes
	opsets map[string]int
	rest   []byte // the model's other fields
	r      *reader
	mapped *weights.File
}

// DraftGraph is the main graph or a subgraph.
type DraftGraph struct {
	Nodes   []*DraftNode
	Tensors []*DraftTensor // initializers
	Inputs  []DraftValue
	Outputs []DraftValue
	Infos   []DraftValue // value_info of other values

	rest []byte
}

// DraftValue is a ValueInfoProto. Type is graph.Invalid if it is not a tensor of a supported type.
type DraftValue struct {
	Name string
	Type graph.DType
	body []byte
}

// NewValue is a value of this type and of a shape that the file does not tell.
func NewValue(name string, t graph.DType) DraftValue {
	typ := appendBytes(nil, typeTensor, appendInt(nil, tensorTypeElem, int64(t)))
	return DraftValue{Name: name, Type: t, body: appendBytes(appendText(nil, valueName, name), valueType, typ)}
}

// DraftNode is a node.
type DraftNode struct {
	Name, Domain, Op string
	Inputs, Outputs  []string

	attrs []*draftAttr
	rest  []byte
	r     *reader
}

type draftAttr struct {
	name  string
	body  []byte
	graph *DraftGraph // subgraph
	list  []*DraftGraph
}

// DraftTensor is an initializer. Its contents are Data, or the Len bytes that Write writes.
type DraftTensor struct {
	Name  string
	Type  graph.DType
	Shape []int64
	Data  graph.Data
	Write func(io.Writer) error

	body []byte // message in the file; nil if new
	head []byte // body without the contents
	lazy func() (graph.Data, error)
}

// Len is the size of the contents in bytes.
func (t *DraftTensor) Len() int64 {
	n, _ := byteSize(t.Shape, t.Type.Size())
	return n
}

// Numbers is the tensor's contents; typed fields are decoded.
func (t *DraftTensor) Numbers() (graph.Data, error) {
	if t.Data == nil && t.lazy != nil {
		d, err := t.lazy()
		if err != nil {
			return nil, err
		}
		t.Data = d
	}
	return t.Data, nil
}

// OpenDraft parses the model at path.
func OpenDraft(ctx context.Context, path string) (d *Draft, err error) {
	f, err := openModel(path)
	if err != nil {
		return nil, err
	}
	r := newReader(f.Bytes(), path, path, nil, f)
	r.ctx = ctx
	d = &Draft{file: path, r: r, mapped: f}
	defer func() {
		if wrong := caught(recover(), path); wrong != nil {
			err = wrong
		}
		if changed := f.Unchanged(); changed != nil {
			err = changed
		}
		if err != nil {
			d.Close()
			d = nil
		}
	}()
	r.readModel()
	d.opsets, d.Opsets = r.model.opsets, map[string]int{}
	for domain, version := range d.opsets {
		d.Opsets[domain] = version
	}
	m := r.message("the model", r.src)
	for before := m.rest; m.next(); before = m.rest {
		switch m.num {
		case modelGraph, modelOpset:
		default:
			d.rest = append(d.rest, m.raw(before)...)
		}
	}
	d.Graph = d.graph("the graph", r.model.graph)
	return d, nil
}

// Close unmaps the files.
func (d *Draft) Close() {
	for _, b := range d.r.blocks {
		b.Drop()
	}
	for _, f := range d.r.externals {
		f.Close()
	}
	d.r.blocks, d.r.externals = nil, nil
	d.mapped.Close()
}

// Files lists the paths of the model and of the external data that was read.
func (d *Draft) Files() []string { return d.r.source.Files() }

// Unchanged returns an error if one of the files has changed since it was opened.
func (d *Draft) Unchanged() error { return d.r.source.Unchanged() }

func (d *Draft) graph(what string, b []byte) *DraftGraph {
	g := &DraftGraph{}
	m := d.r.message(what, b)
	for before := m.rest; m.next(); before = m.rest {
		switch m.num {
		case graphNode:
			stop.Poll(d.r.ctx)
			g.Nodes = append(g.Nodes, d.node(m.bytes()))
		case graphInit:
			g.Tensors = append(g.Tensors, d.tensor(m.bytes()))
		case graphInput:
			g.Inputs = append(g.Inputs, d.value(m.bytes()))
		case graphOutput:
			g.Outputs = append(g.Outputs, d.value(m.bytes()))
		case graphInfo:
			g.Infos = append(g.Infos, d.value(m.bytes()))
		default:
			g.rest = append(g.rest, m.raw(before)...)
		}
	}
	return g
}

// value reads a ValueInfoProto as far as its element type.
func (d *Draft) value(b []byte) DraftValue {
	v := DraftValue{body: b}
	for m := d.r.message("a value", b); m.next(); {
		switch m.num {
		case valueName:
			v.Name = m.text()
		case valueType:
			for typ := m.sub("a type"); typ.next(); {
				if typ.num != typeTensor {
					continue
				}
				for t := typ.sub("a tensor type"); t.next(); {
					if t.num == tensorTypeElem {
						if n := t.int(); 0 < n && n < 256 && graph.DType(n).Valid() {
							v.Type = graph.DType(n)
						}
					}
				}
			}
		}
	}
	return v
}

func (d *Draft) node(b []byte) *DraftNode {
	n := &DraftNode{r: d.r}
	m := d.r.message("a node", b)
	for before := m.rest; m.next(); before = m.rest {
		switch m.num {
		case nodeInput:
			n.Inputs = append(n.Inputs, m.text())
		case nodeOutput:
			n.Outputs = append(n.Outputs, m.text())
		case nodeName:
			n.Name = m.text()
		case nodeOp:
			n.Op = m.text()
		case nodeDomain:
			n.Domain = plainDomain(m.text())
		case nodeAttr:
			n.attrs = append(n.attrs, d.attr(m.bytes()))
		default:
			n.rest = append(n.rest, m.raw(before)...)
		}
	}
	return n
}

func (d *Draft) attr(b []byte) *draftAttr {
	a := &draftAttr{body: b}
	plain := true
	for m := d.r.message("an attribute", b); m.next(); {
		switch m.num {
		case attrName:
			a.name = m.text()
		case attrG:
			plain = false
			a.graph = d.graph("a graph in an attribute", m.bytes())
		case attrGraphs:
			plain = false
			a.list = append(a.list, d.graph("a graph in an attribute", m.bytes()))
		case attrT:
			plain = false
			if t := readTensor(m.sub("a tensor"), initializerName); t.external {
				d.beside = t.location
			}
		}
	}
	if plain { // check now that Attr can read it
		d.r.attribute(d.r.message("an attribute", b), func() string { return "a node" })
	}
	return a
}

func (d *Draft) tensor(b []byte) *DraftTensor {
	t := readTensor(d.r.message("an initializer", b), initializerName)
	out := &DraftTensor{Name: t.name, Type: t.dtype, Shape: t.dims, body: b}
	if t.bad != "" {
		out.Type = graph.Invalid
		return out
	}
	m := d.r.message("an initializer", b)
	for before := m.rest; m.next(); before = m.rest {
		switch m.num {
		case tensorRaw, tensorExternal, tensorLocation, typedFields[t.dtype].num:
		default:
			out.head = append(out.head, m.raw(before)...)
		}
	}
	if t.external || t.hasRaw {
		out.body = nil // written from its numbers
	}
	out.lazy = func() (data graph.Data, err error) {
		defer func() {
			if wrong := caught(recover(), d.file); wrong != nil {
				err = wrong
			}
		}()
		return d.r.data(t), nil
	}
	return out
}

// Attr is the value of an attribute as in graph.Attr; nil if there is none, or if it is a graph.
func (n *DraftNode) Attr(name string) any {
	for _, a := range n.attrs {
		if a.name == name && a.graph == nil && a.list == nil {
			return n.r.attribute(n.r.message("an attribute", a.body), func() string { return "node " + quote(n.Name) }).value
		}
	}
	return nil
}

// SetAttr adds an attribute.
func (n *DraftNode) SetAttr(name string, value any) {
	n.attrs = append(n.attrs, &draftAttr{name: name, body: appendAttr(nil, graph.Attr{Name: name, Value: value})})
}

// DropAttr removes an attribute.
func (n *DraftNode) DropAttr(name string) {
	n.attrs = slices.DeleteFunc(n.attrs, func(a *draftAttr) bool { return a.name == name })
}

// SortAttrs orders the attributes by name.
func (n *DraftNode) SortAttrs() {
	slices.SortStableFunc(n.attrs, func(a, b *draftAttr) int { return strings.Compare(a.name, b.name) })
}

// Same is a node of another operator with n's attributes.
func (n *DraftNode) Same(domain, op, name string, inputs, outputs []string) *DraftNode {
	return &DraftNode{Name: name, Domain: domain, Op: op, Inputs: inputs, Outputs: outputs, attrs: slices.Clone(n.attrs), rest: n.rest, r: n.r}
}

// NewNode is a node of ONNX's own domain.
func NewNode(op, name string, inputs, outputs []string, attrs ...graph.Attr) *DraftNode {
	n := &DraftNode{Name: name, Op: op, Inputs: inputs, Outputs: outputs}
	for _, a := range attrs {
		n.SetAttr(a.Name, a.Value)
	}
	return n
}

// Graphs returns the subgraphs in the node's attributes, with the attributes' names.
func (n *DraftNode) Graphs() (names []string, graphs []*DraftGraph) {
	for _, a := range n.attrs {
		if a.graph != nil {
			names, graphs = append(names, a.name), append(graphs, a.graph)
		}
		for i, g := range a.list {
			names, graphs = append(names, fmt.Sprintf("%s:%d", a.name, i)), append(graphs, g)
		}
	}
	return names, graphs
}

// Save writes the draft to path, as Write writes a graph.
func (d *Draft) Save(path string, opts ...Option) error {
	o := optionsOf(opts)
	if d.beside != "" && !sameFolder(path, d.file) {
		return fmt.Errorf("%s: attributes of %s are in the external file %s beside it; write to that folder", path, d.file, quote(d.beside))
	}
	extern := o.layout(path)
	s, err := d.model(extern)
	if err != nil {
		return err
	}
	for _, file := range Written(path) {
		if slices.ContainsFunc(d.Files(), func(read string) bool { return sameFile(file, read) }) {
			return fmt.Errorf("%s is read, and would be overwritten; choose another name", file)
		}
	}
	if s.size > maxMessage && extern == nil {
		return d.Save(path, append(opts, External)...)
	}
	if s.size > maxMessage {
		return fmt.Errorf("%s: the model without its weights takes %d bytes, and a file at most %d", path, s.size, maxMessage)
	}
	files := func(w io.Writer) error {
		if err := s.writeTo(w); err != nil {
			return err
		}
		return d.Unchanged()
	}
	if extern == nil || len(extern.parts) == 0 {
		return replace(o.ctx, path, files)
	}
	ctx, commit, close := whole.Together(o.ctx)
	defer close()
	if err := replace(ctx, filepath.Join(filepath.Dir(path), extern.name), extern.writeTo); err != nil {
		return err
	}
	if err := replace(ctx, path, files); err != nil {
		return err
	}
	return commit()
}

func (d *Draft) model(extern *layout) (*stream, error) {
	s := &stream{}
	b := slices.Clip(d.rest)
	domains := make([]string, 0, len(d.Opsets))
	for domain := range d.Opsets {
		domains = append(domains, domain)
	}
	slices.Sort(domains)
	for _, domain := range domains {
		b = appendBytes(b, modelOpset, appendInt(appendText(nil, opsetDomain, domain), opsetVersion, int64(d.Opsets[domain])))
	}
	s.add(part{bytes: b})
	g, err := d.graphStream(d.Graph, extern)
	if err != nil {
		return nil, err
	}
	s.append(field(modelGraph, g))
	return s, nil
}

func (d *Draft) graphStream(g *DraftGraph, extern *layout) (*stream, error) {
	s := &stream{}
	b := slices.Clip(g.rest)
	for _, v := range g.Inputs {
		b = appendBytes(b, graphInput, v.body)
	}
	for _, v := range g.Outputs {
		b = appendBytes(b, graphOutput, v.body)
	}
	for _, v := range g.Infos {
		b = appendBytes(b, graphInfo, v.body)
	}
	s.add(part{bytes: b})
	for _, n := range g.Nodes {
		stop.Poll(d.r.ctx)
		body, err := d.nodeStream(n)
		if err != nil {
			return nil, err
		}
		s.append(field(graphNode, body))
	}
	for _, t := range g.Tensors {
		body, err := t.stream(extern)
		if err != nil {
			return nil, err
		}
		s.append(field(graphInit, body))
	}
	return s, nil
}

func (d *Draft) nodeStream(n *DraftNode) (*stream, error) {
	s := &stream{}
	var b []byte
	for _, name := range n.Inputs {
		b = appendText(b, nodeInput, name)
	}
	for _, name := range n.Outputs {
		b = appendText(b, nodeOutput, name)
	}
	if n.Name != "" {
		b = appendText(b, nodeName, n.Name)
	}
	b = appendText(b, nodeOp, n.Op)
	if n.Domain != "" {
		b = appendText(b, nodeDomain, n.Domain)
	}
	s.add(part{bytes: append(b, n.rest...)})
	for _, a := range n.attrs {
		if a.graph == nil && a.list == nil {
			s.add(part{bytes: appendBytes(nil, nodeAttr, a.body)})
			continue
		}
		body := &stream{}
		m := d.r.message("an attribute", a.body)
		for before := m.rest; m.next(); before = m.rest {
			if m.num != attrG && m.num != attrGraphs {
				body.add(part{bytes: m.raw(before)})
			}
		}
		add := func(num fieldNum, g *DraftGraph) error {
			inner, err := d.graphStream(g, nil)
			if err == nil {
				body.append(field(num, inner))
			}
			return err
		}
		if a.graph != nil {
			if err := add(attrG, a.graph); err != nil {
				return nil, err
			}
		}
		for _, g := range a.list {
			if err := add(attrGraphs, g); err != nil {
				return nil, err
			}
		}
		s.append(field(nodeAttr, body))
	}
	return s, nil
}

// stream is the tensor's message. Typed fields are copied unless the contents go to another file.
func (t *DraftTensor) stream(extern *layout) (*stream, error) {
	s := &stream{}
	outside := extern != nil && t.Type != graph.Invalid && t.Len() >= extern.from
	if t.body != nil && t.Write == nil && !outside {
		s.add(part{bytes: t.body})
		return s, nil
	}
	p := part{write: t.Write, writes: t.Len()}
	if t.Write == nil {
		data, err := t.Numbers()
		if err != nil {
			return nil, err
		}
		p = part{data: data}
	}
	head := slices.Clone(t.head)
	if head == nil {
		for _, d := range t.Shape {
			head = appendInt(head, tensorDims, d)
		}
		head = appendInt(head, tensorType, int64(t.Type))
		head = appendText(head, tensorName, t.Name)
	}
	if outside {
		s.add(part{bytes: extern.place(head, p)})
		return s, nil
	}
	head = protowire.AppendTag(head, tensorRaw, protowire.BytesType)
	s.add(part{bytes: protowire.AppendVarint(head, uint64(p.len()))})
	s.add(p)
	return s, nil
}
