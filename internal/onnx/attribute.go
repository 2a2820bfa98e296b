package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// attribute is an AttributeProto.
type attribute struct {
	name  string
	ref   string // the attribute of the enclosing function that it refers to
	value any    // as in graph.Attr; nil if there is none
	body  []byte // a subgraph
	home  *scope // scope of the names in the subgraph
	bad   string // why it is not supported
}

// The unspecified attribute type, and that of subgraphs.
const (
	kindUnknown = 0
	kindGraph   = 5
)

var otherKinds = map[int64]string{
	9: "a list of tensors", 10: "a list of graphs", 11: "a sparse tensor", 12: "a list of sparse tensors",
	13: "a type", 14: "a list of types",
}

func (r *reader) attribute(m *message, where func() string) attribute {
	var a attribute
	var (
		kind    int64
		f       float64
		i       int64
		s       string
		t, g    *message
		floats  []float64
		ints    []int64
		strs    []string
		guessed graph.AttrKind
	)
	for m.next() {
		switch m.num {
		case attrName:
			a.name = m.text()
		case attrRef:
			a.ref = m.text()
		case attrKind:
			kind = m.int()
		case attrF:
			f, guessed = m.float(), graph.AttrFloat
		case attrI:
			i, guessed = m.int(), graph.AttrInt
		case attrS:
			s, guessed = string(m.bytes()), graph.AttrString
		case attrT:
			t, guessed = m.sub("tensor"), graph.AttrTensor
		case attrG:
			g, guessed = m.sub("graph"), kindGraph
		case attrFloats:
			m.fixed(4, func(x uint64) { floats = append(floats, float64(math.Float32frombits(uint32(x)))) })
			guessed = graph.AttrFloats
		case attrInts:
			m.varints(func(x uint64) { ints = append(ints, int64(x)) })
			guessed = graph.AttrInts
		case attrStrings:
			strs, guessed = append(strs, string(m.bytes())), graph.AttrStrings
		}
	}
	if a.name == "" {
		fail("%s: an attribute has no name", where())
	}
	if a.ref != "" {
		return a
	}
	if kind == kindUnknown {
		kind = int64(guessed) // files older than the field
	}
	missing := func() { fail("%s: attribute %s has no value", where(), quote(a.name)) }
	switch kind {
	case int64(graph.AttrFloat):
		a.value = f
	case int64(graph.AttrInt):
		a.value = i
	case int64(graph.AttrString):
		a.value = s
	case int64(graph.AttrFloats):
		a.value = slices.Clip(floats)
	case int64(graph.AttrInts):
		a.value = slices.Clip(ints)
	case int64(graph.AttrStrings):
		a.value = slices.Clip(strs)
	case int64(graph.AttrTensor):
		if t == nil {
			missing()
		}
		x := readTensor(t, func(*tensor) string { return where() + ": attribute " + quote(a.name) })
		if a.bad = x.bad; x.bad == "" {
			a.value = r.attrTensor(x)
		}
	case kindGraph:
		if g == nil {
			missing()
		}
		a.body = g.rest
	case kindUnknown:
		missing()
	default:
		a.bad = "has an unsupported type"
		if k := otherKinds[kind]; k != "" {
			a.bad = "is " + k
		}
	}
	return a
}

// resolve converts the attributes of a node to the graph's. ok is false if one is unsupported.
func (r *reader) resolve(s *scope, n *node) (attrs []graph.Attr, ok bool) {
	ok = true
	for i := range n.attrs {
		a := &n.attrs[i]
		switch {
		case a.bad != "":
			r.bad.foreign(n.name, n.fullOp(), "attribute %s %s", quote(a.name), a.bad)
			ok = false
		case a.body != nil:
			r.bad.foreign(n.name, n.fullOp(), "attribute %s is a graph; only a %s and %s pair or a loop's %s is read", quote(a.name), thenBranch, elseBranch, loopBody)
			ok = false
		case a.value != nil:
			v := a.value
			if x, exact := n.exact[a.name]; exact && float64(float32(x)) == v {
				v = x
			}
			attrs = append(attrs, graph.Attr{Name: a.name, Value: v})
		}
	}
	slices.SortStableFunc(attrs, func(a, b graph.Attr) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(attrs); i++ {
		if attrs[i-1].Name == attrs[i].Name {
			fail("node %s (%s): attribute %s is given twice", quote(n.name), n.fullOp(), quote(attrs[i].Name))
		}
	}
	return attrs, ok
}

// bind replaces references by the attributes of the enclosing function's call. Attributes that
// the call does not set are removed.
func (n *node) bind(s *scope) error {
	kept := n.attrs[:0]
	for _, a := range n.attrs {
		if a.ref != "" {
			if s.attrs == nil {
				return fmt.Errorf("attribute %s refers to %s, but is not in a function", quote(a.name), quote(a.ref))
			}
			given, ok := s.attrs[a.ref]
			if !ok {
				continue
			}
			given.name = a.name
			a = given
		}
		if a.body != nil && a.home == nil {
			a.home = s
		}
		kept = append(kept, a)
	}
	n.attrs = kept
	return nil
}
