package onnx

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/internal/graph"
	"memopt/internal/stop"
)

// maxMessage is the largest model that protobuf allows in one message.
const maxMessage = math.MaxInt32

// Encode writes the model with its weights inside.
func Encode(w io.Writer, g *graph.Graph) error {
	e, err := newEncoder(optionsOf(nil), g, nil)
	if err != nil {
		return err
	}
	s := e.model()
	if s.size > maxMessage {
		return fmt.Errorf("the model has %d bytes, but the limit without external data is %d", s.size, maxMessage)
	}
	if err := s.writeTo(w); err != nil {
		return err
	}
	return nil
}

// encoder writes one graph.
type encoder struct {
	g      *graph.Graph
	names  map[*graph.Value]string // of values with another name in the file
	taken  map[string]bool         // generated names
	extern *layout                 // the external file; nil if weights are inside

	opsets []opset
	nodes  stream
	inits  stream
	inputs []*graph.Value
	order  []*graph.Value // inputs and initializers in the order that reading will find them
	extra  []*graph.Value // outputs of the file that the graph does not have
}

type opset struct {
	domain  string
	version int
}

func newEncoder(o options, g *graph.Graph, extern *layout) (*encoder, error) {
	e := &encoder{g: g, names: map[*graph.Value]string{}, taken: map[string]bool{}, extern: extern, opsets: []opset{{"", writtenOpset}}}
	for _, v := range g.Values {
		if !utf8.ValidString(v.Name) {
			return nil, fmt.Errorf("value %q: names must be UTF-8", v.Name)
		}
	}
	e.chooseOutputs()
	ctx := o.ctx
	e.inputs = slices.Clone(g.Inputs)
	if o.brought {
		for _, v := range g.Values {
			if v.Kind == graph.Param || v.Kind == graph.ModelBuffer {
				e.inputs = append(e.inputs, v)
			}
		}
	}
	e.order = slices.Clone(e.inputs)
	chain := &chain{e: e, made: map[string]string{}}
	var formulas []*graph.Value
	for _, v := range g.Values {
		stop.Poll(ctx)
		if v.Kind == graph.Computed || v.Kind == graph.Input || o.brought && (v.Kind == graph.Param || v.Kind == graph.ModelBuffer) {
			continue
		}
		if v.Data == nil && slices.ContainsFunc(v.Ints, func(d graph.Dim) bool { _, ok := d.Const(); return !ok }) {
			formulas = append(formulas, v)
			if err := chain.value(v); err != nil {
				return nil, err
			}
			continue
		}
		e.order = append(e.order, v)
		if err := e.initializer(v); err != nil {
			return nil, err
		}
	}
	e.order = append(e.order, formulas...)
	for _, n := range g.Nodes {
		stop.Poll(ctx)
		b, err := e.node(n)
		if err != nil {
			return nil, err
		}
		e.addNode(b)
		e.use(n.Op.Domain, n.Op.Since)
	}
	return e, nil
}

// chooseOutputs chooses further outputs of the file beside the graph's own: next values, named
// "<state>.new", and gradients that no node reads.
func (e *encoder) chooseOutputs() {
	g := e.g
	is := map[*graph.Value]bool{}
	for _, v := range g.Outputs {
		is[v] = true
	}
	for _, u := range g.Updates {
		if u.New.Kind != graph.Computed || is[u.New] {
			continue
		}
		e.extra = append(e.extra, u.New)
		is[u.New] = true
		if name := u.State.Name + newSuffix; g.ByName(name) == nil && !e.taken[name] {
			e.names[u.New] = name
			e.taken[name] = true
		}
	}
	read := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			read[v] = true
		}
	}
	for _, d := range g.Grads {
		if d.Grad.Kind == graph.Computed && !read[d.Grad] && !is[d.Grad] {
			e.extra = append(e.extra, d.Grad)
			is[d.Grad] = true
		}
	}
}

// name is the value's name in the file.
func (e *encoder) name(v *graph.Value) string {
	if v == nil {
		return ""
	}
	if n, ok := e.names[v]; ok {
		return n
	}
	return v.Name
}

// fresh generates a name.
func (e *encoder) fresh(hint string) string {
	name := hint
	for i := 1; e.g.ByName(name) != nil || e.taken[name]; i++ {
		name = hint + "_" + strconv.Itoa(i)
	}
	e.taken[name] = true
	return name
}

// use raises a domain's opset to the one that an operator's form needs.
func (e *encoder) use(domain string, since int) {
	i := slices.IndexFunc(e.opsets, func(o opset) bool { return o.domain == domain })
	if i < 0 {
		i = len(e.opsets)
		e.opsets = append(e.opsets, opset{domain, 1})
	}
	e.opsets[i].version = max(e.opsets[i].version, since)
}

// model is the whole file, with small fields first.
func (e *encoder) model() *stream {
	g := e.g
	b := appendInt(nil, modelIR, writtenIR)
	b = appendText(b, modelProducer, "memopt")
	slices.SortFunc(e.opsets[1:], func(a, b opset) int {
		if a.domain < b.domain {
			return -1
		}
		return 1
	})
	for _, o := range e.opsets {
		b = appendBytes(b, modelOpset, appendInt(appendText(nil, opsetDomain, o.domain), opsetVersion, int64(o.version)))
	}
	b = e.facts(b)
	out := &stream{}
	out.add(part{bytes: b})

	body := &stream{}
	name := g.Name
	if name == "" {
		name = "graph"
	}
	body.add(part{bytes: appendText(nil, graphName, name)})
	var ports []byte
	for _, v := range e.inputs {
		ports = appendBytes(ports, graphInput, e.valueInfo(v))
	}
	for _, v := range slices.Concat(g.Outputs, e.extra) {
		ports = appendBytes(ports, graphOutput, e.valueInfo(v))
	}
	body.add(part{bytes: ports})
	body.append(&e.nodes)
	body.append(&e.inits)
	out.append(field(modelGraph, body))
	return out
}

// facts is the metadata of the model: see meta.go.
func (e *encoder) facts(b []byte) []byte {
	g := e.g
	add := func(key, value string) { b = appendEntry(b, modelMetadata, key, value) }
	addList := func(key string, list any, n int) {
		if n > 0 {
			text, err := json.Marshal(list)
			if err != nil {
				panic(err) // strings do not fail
			}
			add(key, string(text))
		}
	}
	add(metaLoss, e.name(g.Loss))
	if g.Name == "" {
		add(metaName, "")
	}
	if len(e.extra) > 0 {
		add(metaOutputs, strconv.Itoa(len(g.Outputs)))
	}
	var updates, grads, renamed, assumed [][]string
	for _, u := range g.Updates {
		updates = append(updates, []string{e.name(u.State), e.name(u.New)})
	}
	for _, d := range g.Grads {
		grads = append(grads, []string{e.name(d.Param), e.name(d.Grad)})
	}
	for _, v := range e.extra {
		if e.name(v) != v.Name {
			renamed = append(renamed, []string{e.name(v), v.Name})
		}
	}
	for _, a := range g.Assumed {
		assumed = append(assumed, []string{a.A.String(), a.B.String(), a.Node})
	}
	addList(metaUpdates, updates, len(updates))
	addList(metaGrads, grads, len(grads))
	addList(metaRenamed, renamed, len(renamed))
	addList(metaAssumed, assumed, len(assumed))
	var given []*graph.Value
	for _, v := range g.Values {
		if v.Kind != graph.Computed {
			given = append(given, v)
		}
	}
	if !slices.Equal(given, e.order) {
		names := make([]string, len(given))
		for i, v := range given {
			names[i] = v.Name
		}
		addList(metaOrder, names, len(names))
	}
	return b
}

func (e *encoder) valueInfo(v *graph.Value) []byte {
	var shape []byte
	for _, d := range v.Shape {
		var dim []byte
		if n, ok := d.Const(); ok {
			dim = appendInt(nil, dimValue, n)
		} else {
			dim = appendText(nil, dimParam, paramOf(d))
		}
		shape = appendBytes(shape, shapeDim, dim)
	}
	typ := appendInt(nil, tensorTypeElem, int64(v.Type))
	typ = appendBytes(typ, tensorTypeShape, shape)
	b := appendText(nil, valueName, e.name(v))
	return appendBytes(b, valueType, appendBytes(nil, typeTensor, typ))
}

// initializer adds a Param, Const or State.
func (e *encoder) initializer(v *graph.Value) error {
	p := part{data: v.Data}
	if v.Data == nil {
		size, ok := v.Bytes().Const()
		switch {
		case !ok:
			return fmt.Errorf("%s %s: the shape of an initializer must be numbers", v.Kind, v)
		case v.Kind == graph.State:
			p = part{zeros: size}
		case v.Ints != nil:
			b, err := graph.Bind(nil)
			if err != nil {
				panic(err) // cannot fail: no names are bound
			}
			x, err := v.Tensor(b)
			if err != nil {
				return err
			}
			p = part{bytes: x.Bytes}
		default:
			return fmt.Errorf("%s %q has no numbers to write", v.Kind, v.Name)
		}
	}
	if v.Type.Bits() < 8 {
		b := p.bytes
		if p.data != nil {
			var err error
			if b, err = p.data.Bytes(); err != nil {
				return err
			}
		}
		p = part{bytes: pack(v.Type, b)}
	}
	head := e.tensorHead(v.Type, v.Shape)
	head = appendText(head, tensorName, v.Name)
	natural := graph.Const
	if v.Type.IsFloat() {
		natural = graph.Param
	}
	if v.Kind != natural {
		head = appendEntry(head, tensorMetadata, metaKind, v.Kind.String())
	}
	e.addTensor(head, p)
	return nil
}

func (e *encoder) tensorHead(t graph.DType, s graph.Shape) []byte {
	var head []byte
	for _, d := range s {
		n, _ := d.Const()
		head = appendInt(head, tensorDims, n)
	}
	return appendInt(head, tensorType, int64(t))
}

// addTensor adds an initializer with its contents inside or in the external file.
func (e *encoder) addTensor(head []byte, p part) {
	body := &stream{}
	if e.extern != nil && p.len() >= e.extern.from {
		body.add(part{bytes: e.extern.place(head, p)})
	} else {
		head = protowire.AppendTag(head, tensorRaw, protowire.BytesType)
		body.add(part{bytes: protowire.AppendVarint(head, uint64(p.len()))})
		body.add(p)
	}
	e.inits.append(field(graphInit, body))
}

func (e *encoder) addNode(b []byte) {
	e.nodes.add(part{bytes: appendBytes(nil, graphNode, b)})
}

func (e *encoder) node(n *graph.Node) ([]byte, error) {
	var b []byte
	for _, v := range n.Inputs {
		b = appendText(b, nodeInput, e.name(v))
	}
	for _, v := range n.Outputs {
		b = appendText(b, nodeOutput, e.name(v))
	}
	b = appendText(b, nodeName, n.Name)
	b = appendText(b, nodeOp, n.Op.Name)
	if n.Op.Domain != "" {
		b = appendText(b, nodeDomain, n.Op.Domain)
	}
	if !utf8.ValidString(n.Name) {
		return nil, fmt.Errorf("node %q: names must be UTF-8", n.Name)
	}
	if n.Phase != graph.Forward {
		b = appendEntry(b, nodeMetadata, metaPhase, n.Phase.String())
	}
	for _, a := range n.Attrs {
		b = appendBytes(b, nodeAttr, appendAttr(nil, a))
		if x, ok := a.Value.(float64); ok && x == x && float64(float32(x)) != x {
			b = appendEntry(b, nodeMetadata, metaFloat+a.Name, strconv.FormatFloat(x, 'g', -1, 64))
		}
	}
	return b, nil
}

// appendAttr writes the body of an AttributeProto.
func appendAttr(b []byte, a graph.Attr) []byte {
	b = appendText(b, attrName, a.Name)
	var kind graph.AttrKind
	switch x := a.Value.(type) {
	case int64:
		kind, b = graph.AttrInt, appendInt(b, attrI, x)
	case float64:
		kind, b = graph.AttrFloat, appendFloat(b, attrF, x)
	case string:
		kind, b = graph.AttrString, appendText(b, attrS, x)
	case []int64:
		kind = graph.AttrInts
		for _, i := range x {
			b = appendInt(b, attrInts, i)
		}
	case []float64:
		kind = graph.AttrFloats
		for _, f := range x {
			b = appendFloat(b, attrFloats, f)
		}
	case []string:
		kind = graph.AttrStrings
		for _, s := range x {
			b = appendText(b, attrStrings, s)
		}
	case *graph.Tensor:
		kind = graph.AttrTensor
		var t []byte
		for _, d := range x.Shape {
			t = appendInt(t, tensorDims, int64(d))
		}
		t = appendInt(t, tensorType, int64(x.Type))
		b = appendBytes(b, attrT, appendBytes(t, tensorRaw, pack(x.Type, x.Bytes)))
	default:
		panic(fmt.Sprintf("onnx: attribute %s has type %T", a.Name, a.Value))
	}
	return appendInt(b, attrKind, int64(kind))
}

func appendFloat(b []byte, num fieldNum, x float64) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(b, num, protowire.Fixed32Type), math.Float32bits(float32(x)))
}
