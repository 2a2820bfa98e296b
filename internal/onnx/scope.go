package onnx

import (
	"strconv"
	"strings"

	"memopt/internal/graph"
)

// scope has the names of a graph, branch or function call while it is read.
type scope struct {
	values  map[string]*graph.Value // nil is an omitted argument of a call
	outer   *scope                  // enclosing scope of a branch
	opsets  map[string]int
	outputs []string // of the main graph, as named in the file

	// If the scope is inlined:
	caller *scope               // scope of the inlined node; nil for the main graph
	called *function            // the function, if it is one
	prefix string               // of the names of nodes and values
	export map[string]string    // own name → name in the caller
	attrs  map[string]attribute // attributes of the call
	turn   bool                 // in a loop
	copied bool                 // in a function, which may be inlined many times
	depth  int
}

// poison stands for values that could not be made. The reason has been recorded, so nodes that
// depend on them are skipped silently.
var poison = &graph.Value{Name: "(not made)"}

func (s *scope) has(name string) bool { _, ok := s.values[name]; return ok }

func (s *scope) lookup(name string) (*graph.Value, bool) {
	for ; s != nil; s = s.outer {
		if v, ok := s.values[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// nameFor is the name in the graph for a new value of the scope. The file's names take precedence
// over generated ones.
func (r *reader) nameFor(s *scope, name string) string {
	for s.caller != nil {
		outside, ok := s.export[name]
		if !ok {
			name = s.prefix + name
			if r.b.Graph.ByName(name) != nil {
				name = r.b.Fresh(name)
			}
			return name
		}
		s, name = s.caller, outside
	}
	if v := r.b.Graph.ByName(name); v != nil {
		r.b.Graph.Rename(v, r.b.Fresh(name))
	}
	return name
}

// node is a NodeProto.
type node struct {
	name, op, domain, overload string
	in, out                    []string // in shares the file's bytes
	attrs                      []attribute
	phase                      graph.Phase
	exact                      map[string]float64 // float attributes in double precision
	fx                         string             // the exporter's own node, as text
}

// fullOp is the operator's name with its domain.
func (n *node) fullOp() string {
	if n.domain == "" {
		return n.op
	}
	return n.domain + "." + n.op
}

// node reads a NodeProto into n, reusing its lists.
func (r *reader) node(b []byte, n *node) {
	*n = node{in: n.in[:0], out: n.out[:0], attrs: n.attrs[:0]}
	hasAttrs := false
	for m := r.message("a node", b); m.next(); {
		switch m.num {
		case nodeInput:
			n.in = append(n.in, m.view())
		case nodeOutput:
			n.out = append(n.out, m.text())
		case nodeName:
			n.name = m.text()
		case nodeOp:
			n.op = r.word(m)
		case nodeDomain:
			n.domain = plainDomain(r.word(m))
		case nodeOverload:
			n.overload = m.text()
		case nodeAttr:
			hasAttrs = true
		case nodeMetadata:
			n.fact(m.entry())
		}
	}
	for _, out := range n.out {
		if n.name == "" {
			n.name = out
		}
	}
	if n.op == "" {
		fail("node %s has no operator", quote(n.name))
	}
	if hasAttrs {
		where := func() string { return "node " + quote(n.name) + " (" + n.fullOp() + ")" }
		for m := r.message("a node", b); m.next(); {
			if m.num == nodeAttr {
				n.attrs = append(n.attrs, r.attribute(m.sub("an attribute"), where))
			}
		}
	}
}

// nodes builds a list of nodes. If an input is missing, the rest of the list is sorted, once.
func (r *reader) nodes(s *scope, list [][]byte) {
	sorted := false
	n := &node{}
	for i := 0; i < len(list); i++ {
		r.node(list[i], n)
		if !sorted && !r.ready(s, n, list[i]) {
			sorted = true
			list = append(list[:i:i], r.sorted(list[i:])...)
			r.node(list[i], n)
		}
		r.build(s, n)
	}
}

// ready reports whether all inputs of the node exist.
func (r *reader) ready(s *scope, n *node, b []byte) bool {
	for _, name := range n.in {
		if name != "" {
			if _, ok := s.lookup(name); !ok {
				return false
			}
		}
	}
	for _, a := range n.attrs {
		if a.body == nil {
			continue
		}
		inside := map[string]bool{}
		ok := true
		r.links(b, 0, func(name string) {
			_, known := s.lookup(name)
			ok = ok && (known || name == "" || inside[name])
		}, func(name string) { inside[name] = true })
		return ok
	}
	return true
}

// build builds one node, inlining calls, branches and loops.
func (r *reader) build(s *scope, n *node) {
	op := n.fullOp()
	if err := n.bind(s); err != nil {
		fail("node %s (%s): %v", quote(n.name), op, err)
	}
	in := make([]*graph.Value, len(n.in))
	poisoned := false
	for i, name := range n.in {
		if name == "" {
			continue
		}
		v, ok := s.lookup(name)
		if !ok {
			fail("node %s (%s): input %s is made by no node before it", quote(n.name), op, quote(name))
		}
		in[i] = v
		poisoned = poisoned || v == poison
	}
	for _, name := range n.out {
		if name != "" && s.has(name) {
			fail("node %s (%s): two values are named %s", quote(n.name), op, quote(name))
		}
	}
	if s.prefix != "" {
		n.name = s.prefix + n.name
	}
	if n.name == "" {
		n.name = r.b.Fresh(n.op) // no output has a name
	}
	if f := r.functions[funcKey{n.domain, n.op, n.overload}]; f != nil {
		r.call(s, n, f, in)
		return
	}
	if then, otherwise := n.branches(); then != nil {
		r.branch(s, n, in, then, otherwise)
		return
	}
	if body := n.turns(); body != nil {
		r.loop(s, n, in, body)
		return
	}
	found := r.find(s, n)
	attrs, ok := r.resolve(s, n)
	attrs = withoutMarks(attrs, found)
	if found == nil || !ok {
		s.poison(n)
		return
	}
	if poisoned {
		r.checkAttrs(n, found, attrs)
		s.poison(n)
		return
	}
	attrs, in = r.asTrained(n, attrs, in)
	outs := make([]string, len(n.out))
	for i, name := range n.out {
		if name != "" {
			outs[i] = r.nameFor(s, name)
		}
	}
	r.b.Phase = n.phase
	r.fix(found, in)
	made, err := r.b.Node(found, n.name, attrs, in, outs)
	if err != nil {
		err = fedBy(found, in, err)
		r.bad.nodeError(n.name, op, err)
		s.poison(n)
		return
	}
	for i, name := range n.out {
		switch {
		case name == "":
		case i < len(made) && made[i] != nil:
			s.values[name] = made[i]
		default:
			r.bad.node(n.name, op, "output %d (%s) is not made by the operator", i, quote(name))
			s.values[name] = poison
		}
	}
}

// find looks up the operator, or records why it is not supported.
func (r *reader) find(s *scope, n *node) *graph.Op {
	version, imported := s.opsets[n.domain]
	if !imported {
		r.bad.foreign(n.name, n.fullOp(), "domain %s is not among the file's opset imports", quote(n.domain))
		return nil
	}
	op := r.lib.Find(n.domain, n.op, version)
	switch {
	case op != nil:
	case r.lib.Find(n.domain, n.op, 0) != nil:
		forms := r.lib.Find(n.domain, n.op, 0)
		r.bad.foreign(n.name, n.fullOp(), "the library has this operator since opset %d, the file is for opset %d", forms.Since, version)
	default:
		r.bad.foreign(n.name, n.fullOp(), "the library has no such operator (opset %d)", version)
	}
	return op
}

// checkAttrs checks a node whose inputs could not be made.
func (r *reader) checkAttrs(n *node, op *graph.Op, attrs []graph.Attr) {
	for _, a := range attrs {
		known := false
		for _, s := range op.AttrSpecs() {
			known = known || s.Name == a.Name
		}
		if !known {
			r.bad.node(n.name, n.fullOp(), "attribute %q is not known", a.Name)
		}
	}
}

func (s *scope) poison(n *node) {
	for _, name := range n.out {
		if name != "" {
			s.values[name] = poison
		}
	}
}

// fact reads memopt's metadata of a node.
func (n *node) fact(key, value string) {
	if key == fxKey {
		n.fx = value
		return
	}
	if key == metaPhase {
		n.phase = phasesByWord[value]
		return
	}
	if name, ok := strings.CutPrefix(key, metaFloat); ok {
		if x, err := strconv.ParseFloat(value, 64); err == nil {
			if n.exact == nil {
				n.exact = map[string]float64{}
			}
			n.exact[name] = x
		}
	}
}
