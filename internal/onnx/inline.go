package onnx

import (
	"memopt/internal/graph"
)

// Inlining of calls of model-local functions, branches, and iterations of loops (loop.go). Each
// builds nodes in a scope of its own.

// maxDepth limits the nesting of calls and branches.
const maxDepth = 64

type funcKey struct{ domain, name, overload string }

// function is a FunctionProto.
type function struct {
	key             funcKey
	inputs, outputs []string
	required        []string // attributes without a default
	defaults        map[string]attribute
	opsets          map[string]int
	nodes           [][]byte
}

func (r *reader) readFunctions() {
	for _, b := range r.model.functions {
		f := &function{defaults: map[string]attribute{}, opsets: map[string]int{}}
		for d, v := range r.model.opsets {
			f.opsets[d] = v
		}
		own := map[string]int{}
		for m := r.message("a function", b); m.next(); {
			switch m.num {
			case funcName:
				f.key.name = r.word(m)
			case funcDomain:
				f.key.domain = plainDomain(r.word(m))
			case funcOverload:
				f.key.overload = m.text()
			case funcInput:
				f.inputs = append(f.inputs, m.text())
			case funcOutput:
				f.outputs = append(f.outputs, m.text())
			case funcAttr:
				f.required = append(f.required, m.text())
			case funcAttrDefault:
				a := r.attribute(m.sub("an attribute"), func() string { return "function " + quote(f.key.name) })
				f.defaults[a.name] = a
			case funcNode:
				f.nodes = append(f.nodes, m.bytes())
			case funcOpset:
				r.opset(m, own)
			}
		}
		for d, v := range own {
			f.opsets[d] = v
		}
		r.checkOpset("function "+quote(f.key.name), f.opsets)
		if r.functions[f.key] != nil {
			fail("two functions are named %s", quote(f.key.name))
		}
		r.functions[f.key] = f
		r.limit += inlineRatio * len(f.nodes)
	}
}

// call builds the nodes of a function in place of a node.
func (r *reader) call(s *scope, n *node, f *function, in []*graph.Value) {
	op := n.fullOp()
	if len(in) > len(f.inputs) || len(n.out) > len(f.outputs) {
		r.bad.node(n.name, op, "%d inputs and %d outputs, but the function has %d and %d",
			len(in), len(n.out), len(f.inputs), len(f.outputs))
		s.poison(n)
		return
	}
	for c := s; c != nil; c = c.caller {
		if c.called == f {
			fail("node %s (%s): the function calls itself", quote(n.name), op)
		}
	}
	inner := r.enter(s, n)
	inner.called, inner.opsets = f, f.opsets
	inner.prefix = n.name + "/"
	inner.attrs = make(map[string]attribute, len(f.defaults)+len(n.attrs))
	for name, a := range f.defaults {
		inner.attrs[name] = a
	}
	for _, a := range n.attrs {
		inner.attrs[a.name] = a
	}
	for _, name := range f.required {
		if _, given := inner.attrs[name]; !given {
			r.bad.node(n.name, op, "attribute %s is not given", quote(name))
		}
	}
	for i, name := range f.inputs {
		if inner.has(name) {
			fail("function %s: two inputs are named %s", quote(f.key.name), quote(name))
		}
		inner.values[name] = nil
		if i < len(in) {
			inner.values[name] = in[i]
		}
	}
	r.body(s, n, inner, f.nodes, f.outputs, n.out)
}

// enter opens the scope of an inlined node.
func (r *reader) enter(s *scope, n *node) *scope {
	if s.depth == maxDepth {
		fail("node %s (%s): functions and branches are nested more than %d deep", quote(n.name), n.fullOp(), maxDepth)
	}
	return &scope{caller: s, depth: s.depth + 1, values: map[string]*graph.Value{}, export: map[string]string{}}
}

// body builds the inlined nodes and binds their outputs to the caller's names; "" is none.
func (r *reader) body(s *scope, n *node, inner *scope, nodes [][]byte, outputs, names []string) {
	inner.copied = s.copied || inner.called != nil
	inner.turn = inner.turn || s.turn
	switch {
	case inner.turn:
		r.unrolled += 1 + len(nodes)
	case inner.copied:
		r.inlined += 1 + len(nodes)
	}
	if r.inlined > r.limit {
		fail("node %s (%s): inlining functions would make more than %d nodes", quote(n.name), n.fullOp(), r.limit)
	}
	if r.unrolled > maxUnrolled {
		fail("node %s (%s): unrolling loops would make more than %d nodes", quote(n.name), n.fullOp(), maxUnrolled)
	}
	for i, name := range names {
		if name != "" && outputs[i] != "" && !inner.has(outputs[i]) {
			if _, twice := inner.export[outputs[i]]; !twice {
				inner.export[outputs[i]] = name
			}
		}
	}
	r.nodes(inner, nodes)
	for i := range names {
		v, ok := inner.lookup(outputs[i])
		if !ok || v == nil {
			fail("node %s (%s): output %s is made by no node inside", quote(n.name), n.fullOp(), quote(outputs[i]))
		}
		if names[i] != "" {
			s.values[names[i]] = v
		}
	}
}

const thenBranch, elseBranch = "then_branch", "else_branch"

// branches returns the two subgraphs of a conditional node, which is a node of any operator
// with both attributes.
func (n *node) branches() (then, otherwise *attribute) {
	for i := range n.attrs {
		a := &n.attrs[i]
		switch {
		case a.body != nil && a.name == thenBranch:
			then = a
		case a.body != nil && a.name == elseBranch:
			otherwise = a
		}
	}
	if then == nil || otherwise == nil || len(n.in) != 1 {
		return nil, nil
	}
	return then, otherwise
}

// branch builds the branch that is taken, or both if the condition is only known when the step
// runs.
func (r *reader) branch(s *scope, n *node, in []*graph.Value, then, otherwise *attribute) {
	cond := in[0]
	if cond == poison {
		s.poison(n)
		return
	}
	if cond != nil && len(cond.Ints) == 1 {
		if which, known := cond.Ints[0].Const(); known {
			taken := then
			if which == 0 {
				taken = otherwise
			}
			r.arm(s, n, taken, n.out)
			return
		}
	}
	choose := r.lib.Role(graph.RoleBranch)
	if cond == nil || cond.Kind == graph.Sequence || cond.Kind == graph.Ragged || choose == nil {
		r.bad.node(n.name, n.fullOp(), "the condition is not known ahead")
		s.poison(n)
		return
	}
	values := func(taken *attribute) []*graph.Value {
		out := make([]string, len(n.out)) // unnamed: the node's names are for the chosen values
		return r.arm(s, n, taken, out)
	}
	yes, no := values(then), values(otherwise)
	for i, name := range n.out {
		if name == "" {
			continue
		}
		s.values[name] = poison
		if yes[i] == poison || no[i] == poison {
			continue
		}
		made, err := r.b.Node(choose, r.b.Fresh(n.name), nil, []*graph.Value{cond, yes[i], no[i]}, []string{r.nameFor(s, name)})
		if err != nil {
			r.bad.nodeError(n.name, n.fullOp(), err)
			continue
		}
		s.values[name] = made[0]
	}
}

// arm builds one branch and returns its outputs; names are the outputs' names in s, or "".
func (r *reader) arm(s *scope, n *node, taken *attribute, names []string) []*graph.Value {
	op := n.fullOp()
	inner := r.enter(s, n)
	inner.outer, inner.opsets, inner.attrs = taken.home, taken.home.opsets, taken.home.attrs
	inner.prefix = s.prefix
	g := r.readBody("a branch", taken.body)
	if g.sparse > 0 {
		r.bad.node(n.name, op, "the branch has sparse initializers; only dense ones are read")
	}
	if len(g.inputs) > 0 || len(g.outputs) != len(n.out) {
		fail("node %s (%s): the branch has %d inputs and %d outputs, not 0 and %d",
			quote(n.name), op, len(g.inputs), len(g.outputs), len(n.out))
	}
	r.sharedInitializers(inner, g)
	r.body(s, n, inner, g.nodes, r.outputsOf(g), names)
	values := make([]*graph.Value, len(g.outputs))
	for i, name := range r.outputsOf(g) {
		values[i], _ = inner.lookup(name)
	}
	return values
}

// sharedInitializers reads a subgraph's initializers. They are read once, however often the
// node is built.
func (r *reader) sharedInitializers(inner *scope, g body) {
	for _, b := range g.inits {
		m := r.message("initializer", b)
		if len(b) == 0 {
			r.initializer(inner, m)
			continue
		}
		if had := r.inside[&b[0]]; had.v != nil && !inner.has(had.name) {
			inner.values[had.name] = had.v
			continue
		}
		before := len(inner.values)
		r.initializer(inner, m)
		if t := readTensor(r.message("initializer", b), initializerName); len(inner.values) > before {
			r.inside[&b[0]] = innerValue{t.name, inner.values[t.name]}
		}
	}
}

// innerValue is an initializer of a subgraph.
type innerValue struct {
	name string
	v    *graph.Value
}

// outputsOf lists the names of a graph's outputs.
func (r *reader) outputsOf(g body) []string {
	outputs := make([]string, len(g.outputs))
	for i, b := range g.outputs {
		outputs[i] = r.valueInfo("output", b).name
	}
	return outputs
}
