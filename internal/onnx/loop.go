package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Loops are unrolled: their nodes are built once per iteration. The number of iterations must be
// known while the file is read; it may be a formula of dims with given sizes. The results of
// iterations are stacked by an operator of the library, which computes them all at once if it can.

const (
	loopBody = "body"
	// maxUnrolled limits the nodes of all unrolled iterations of a file.
	maxUnrolled = 1 << 18
)

// scanInputs is an attribute of Scan, a loop over the elements of some inputs.
const scanInputs = "num_scan_inputs"

// turns is the body of a loop node, or nil.
func (n *node) turns() *attribute {
	for i := range n.attrs {
		if a := &n.attrs[i]; a.body != nil && a.name == loopBody {
			return a
		}
	}
	return nil
}

// looping is the state of unrolling a loop.
type looping struct {
	n      *node
	body   body
	shared *scope // the body's initializers, shared by all iterations
	home   *scope

	count   int64          // iterations, or −1: until the condition is false
	cond    *graph.Value   // nil if there is none
	state   []*graph.Value // loop-carried values
	scanned []*graph.Value // each iteration reads an element
	stacked [][]*graph.Value

	axes, outAxes         []int64
	backward, outBackward []int64
	isScan                bool
	empty                 bool // no iteration runs; stacked has one for types and shapes
}

// loop builds all iterations.
func (r *reader) loop(s *scope, n *node, in []*graph.Value, a *attribute) {
	if slices.Contains(in, poison) {
		s.poison(n)
		return
	}
	for _, role := range []graph.Role{graph.RoleStack, graph.RoleElement} {
		if r.lib.Role(role) == nil {
			r.bad.foreign(n.name, n.fullOp(), "the library does not support loops")
			s.poison(n)
			return
		}
	}
	const oldest = 9 // Scan had a batch dim before
	if s.opsets[n.domain] < oldest {
		r.bad.foreign(n.name, n.fullOp(), "loops are supported from opset %d, but the file is for opset %d", oldest, s.opsets[n.domain])
		s.poison(n)
		return
	}
	nodes, values, unrolled := len(r.b.Graph.Nodes), len(r.b.Graph.Values), r.unrolled
	l := &looping{n: n, body: r.readBody("a loop", a.body), home: a.home}
	if l.body.sparse > 0 {
		r.bad.node(n.name, n.fullOp(), "the loop has sparse initializers; only dense ones are read")
	}
	if why := r.enterLoop(l, in); why != "" {
		r.bad.node(n.name, n.fullOp(), "%s", why)
		s.poison(n)
		return
	}
	l.shared = r.enter(s, n)
	l.shared.outer, l.shared.opsets, l.shared.attrs = a.home, a.home.opsets, a.home.attrs
	l.shared.prefix = n.name + "/"
	r.sharedInitializers(l.shared, l.body)
	for turn := int64(0); l.count < 0 || turn < l.count; turn++ {
		goes, known := l.goes()
		if !known {
			if !r.sized() {
				r.bad.node(n.name, n.fullOp(), "the condition of iteration %d is not known while the file is read: %s", turn, r.missing(r.names()))
			}
			s.poison(n)
			return
		}
		if !goes {
			break
		}
		if !r.turn(s, l, turn) {
			s.poison(n)
			return
		}
	}
	if !r.measure(s, l) {
		s.poison(n)
		return
	}
	r.leaveLoop(s, l)
	// Remove unused nodes, so that they do not count for the limit of other loops.
	var keep []*graph.Value
	for _, name := range n.out {
		if v := s.values[name]; name != "" && v != poison {
			keep = append(keep, v)
		}
	}
	for _, in := range r.inside {
		if in.v != poison {
			keep = append(keep, in.v)
		}
	}
	r.b.Sweep(nodes, values, keep)
	r.unrolled = unrolled + len(r.b.Graph.Nodes) - nodes
}

// goes reports whether there is another iteration, if that is known.
func (l *looping) goes() (goes, known bool) {
	if l.cond == nil {
		return true, true
	}
	if len(l.cond.Ints) == 1 {
		v, known := l.cond.Ints[0].Const()
		return v != 0, known
	}
	v, known := numberOf(l.cond)
	return v != 0, known
}

// numberOf evaluates a scalar that is computed from constants. Unlike Value.Ints, the
// computation may involve floats, as for the end of a Range.
func numberOf(v *graph.Value) (n int64, known bool) {
	x := computed(v, 0)
	if x == nil || x.Len() != 1 || x.Type.IsFloat() {
		return 0, false
	}
	return x.Int(0), true
}

// computed evaluates a small value, or returns nil.
func computed(v *graph.Value, depth int) *graph.Tensor {
	const deepest = 50
	shape := make([]int, len(v.Shape))
	for i, d := range v.Shape {
		n, known := d.Const()
		if !known || n > graph.MaxInts {
			return nil
		}
		shape[i] = int(n)
	}
	elems := int64(1)
	for _, d := range shape {
		elems *= int64(d)
	}
	if elems > graph.MaxInts || depth > deepest || len(shape) > 3 {
		return nil
	}
	x := graph.NewTensor(v.Type, shape...)
	switch {
	case v.Ints != nil:
		for i, d := range v.Ints {
			n, known := d.Const()
			if !known {
				return nil
			}
			x.SetInt(i, n)
		}
		return x
	case v.Kind == graph.Const && v.Data != nil:
		b, err := v.Data.Bytes()
		if err != nil || len(b) != len(x.Bytes) {
			return nil
		}
		copy(x.Bytes, b)
		return x
	case v.Kind != graph.Computed || len(v.Def.Outputs) != 1 || v.Def.Op.Random:
		return nil
	}
	c := &graph.Call{Node: v.Def, Out: []*graph.Tensor{x}}
	for _, in := range v.Def.Inputs {
		var t *graph.Tensor
		if in != nil {
			if t = computed(in, depth+1); t == nil {
				return nil
			}
		}
		c.In = append(c.In, t)
	}
	if graph.Try(func() { v.Def.Op.Eval(c) }) != nil {
		return nil
	}
	return x
}

// sized reports whether sizes of dims are given. The file is then read again with sizes in
// place of names, and the graph is valid only for these sizes.
func (r *reader) sized() bool {
	r.wantsSizes = r.wantsSizes || len(r.dims) > 0
	return r.wantsSizes
}

// enterLoop reads the node's inputs and attributes; why says why it is unsupported, or "".
func (r *reader) enterLoop(l *looping, in []*graph.Value) (why string) {
	n := l.n
	ints := map[string][]int64{}
	scans := int64(-1)
	for _, a := range n.attrs {
		switch v := a.value.(type) {
		case int64:
			if a.name == scanInputs {
				scans = v
			}
		case []int64:
			ints[a.name] = v
		}
	}
	if scans >= 0 {
		l.isScan, l.count = true, -1
		if scans < 1 || scans > int64(len(in)) || slices.Contains(in, nil) {
			return fmt.Sprintf("%s is %d, but there are %d inputs", scanInputs, scans, len(in))
		}
		l.state, l.scanned = in[:len(in)-int(scans)], in[len(in)-int(scans):]
		l.axes, l.outAxes = ints["scan_input_axes"], ints["scan_output_axes"]
		l.backward, l.outBackward = ints["scan_input_directions"], ints["scan_output_directions"]
		for i, v := range l.scanned {
			axis := at(l.axes, i)
			if axis < 0 {
				axis += int64(v.Rank())
			}
			if axis < 0 || axis >= int64(v.Rank()) {
				return fmt.Sprintf("input %d has no axis %d", i+len(l.state), at(l.axes, i))
			}
			turns, why := r.turnsOf(n, v.Shape[axis])
			if why != "" {
				return why
			}
			if l.count >= 0 && turns != l.count {
				return fmt.Sprintf("scanned inputs have different lengths, %d and %d", l.count, turns)
			}
			l.count = turns
		}
	} else {
		l.count = -1
		if len(in) < 2 {
			in = append(slices.Clone(in), make([]*graph.Value, 2-len(in))...)
		}
		if most := in[0]; most != nil {
			if len(most.Ints) != 1 {
				turns, known := numberOf(most)
				if !known {
					return "the number of iterations is only known when the step runs"
				}
				most = r.b.Int(graph.Num(turns))
			}
			if l.count, why = r.turnsOf(n, most.Ints[0]); why != "" {
				return why
			}
			l.count = max(l.count, 0)
		}
		if l.cond = in[1]; l.cond == nil && l.count < 0 {
			return "the loop has neither a number of iterations nor a condition"
		}
		l.state = in[2:]
		if slices.Contains(l.state, nil) {
			return "an initial value is missing"
		}
	}
	head, tail := 2, 1 // inputs: iteration, condition; outputs: condition
	if l.isScan {
		head, tail = 0, 0
	}
	results := len(l.body.outputs) - tail
	if len(l.body.inputs) != head+len(l.state)+len(l.scanned) || results < len(l.state) || len(n.out) > results {
		fail("node %s (%s): the loop's body has %d inputs and %d outputs, but the node needs %d and %d",
			quote(n.name), n.fullOp(), len(l.body.inputs), len(l.body.outputs), len(n.in), len(n.out))
	}
	l.state = slices.Clone(l.state)
	l.stacked = make([][]*graph.Value, results-len(l.state))
	return ""
}

// at is element i of an attribute, or 0.
func at(list []int64, i int) int64 {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// turnsOf evaluates a number of iterations; why says why it is unknown.
func (r *reader) turnsOf(n *node, d graph.Dim) (turns int64, why string) {
	if turns, known := d.Const(); known {
		return turns, ""
	}
	if r.sized() {
		return 0, ""
	}
	return 0, fmt.Sprintf("the number of iterations, %s, must be known while the file is read; %s", d, r.missing(d.Names()))
}

// names lists the names of dims of the inputs.
func (r *reader) names() (names []string) {
	for _, v := range r.b.Graph.Inputs {
		for _, d := range v.Shape {
			for _, name := range d.Names() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// missing says which dims need sizes.
func (r *reader) missing(names []string) string {
	if len(names) == 0 {
		return "it depends on the data"
	}
	return fmt.Sprintf("give %s a size (--dims %s=N)", strings.Join(names, " and "), strings.Join(names, "=N,"))
}

// withNumbers is a reader that reads the file again with the given sizes in place of names of
// dims, if a loop needs that, or else nil.
func (r *reader) withNumbers() *reader {
	if !r.wantsSizes {
		return nil
	}
	again := r.anew()
	again.sizes, again.dims = map[string]graph.Dim{}, nil
	for _, name := range slices.Sorted(maps.Keys(r.dims)) {
		again.sizes[name] = graph.Num(r.dims[name])
		again.same = append(again.same, graph.Assume{A: graph.Sym(name), B: graph.Num(r.dims[name])})
	}
	return again
}

// turn builds one iteration and reports whether all its results could be built.
func (r *reader) turn(s *scope, l *looping, turn int64) bool {
	n := l.n
	inner := r.enter(s, n)
	inner.outer, inner.opsets, inner.attrs = l.shared, l.shared.opsets, l.shared.attrs
	inner.prefix, inner.turn = fmt.Sprintf("%s/%d/", n.name, turn), true
	given := slices.Clone(l.state)
	if !l.isScan {
		cond := l.cond
		if cond == nil {
			cond = r.b.Num(graph.Bool, 1)
		}
		given = append([]*graph.Value{r.b.Int(graph.Num(turn)), cond}, given...)
	}
	for i, v := range l.scanned {
		place := turn
		if at(l.backward, i) != 0 {
			place = l.count - 1 - turn
		}
		element, err := r.b.Node(r.lib.Role(graph.RoleElement), r.b.Fresh(inner.prefix+"element"),
			[]graph.Attr{{Name: "axis", Value: at(l.axes, i)}}, []*graph.Value{v, r.b.Int(graph.Num(place))}, []string{""})
		if err != nil {
			r.bad.nodeError(n.name, n.fullOp(), err)
			return false
		}
		given = append(given, element[0])
	}
	for i, b := range l.body.inputs {
		inner.values[r.valueInfo("input", b).name] = given[i]
	}
	outputs := r.outputsOf(l.body)
	r.body(s, n, inner, l.body.nodes, outputs, make([]string, len(outputs)))
	results := make([]*graph.Value, len(outputs))
	for i, name := range outputs {
		if results[i], _ = inner.lookup(name); results[i] == poison {
			return false
		}
	}
	if !l.isScan {
		if l.cond != nil {
			l.cond = results[0]
		}
		results = results[1:]
	}
	copy(l.state, results)
	for i, v := range results[len(l.state):] {
		l.stacked[i] = append(l.stacked[i], v)
	}
	return true
}

// measure builds one iteration of a loop that has none and whose stacked results are used: they
// have its types and shapes, and length 0. It reports whether that could be built.
func (r *reader) measure(s *scope, l *looping) bool {
	used := slices.ContainsFunc(l.n.out[min(len(l.state), len(l.n.out)):], func(name string) bool { return name != "" })
	if !used || len(l.stacked[0]) > 0 {
		return true
	}
	before := slices.Clone(l.state)
	built := r.turn(s, l, 0)
	l.state, l.empty = before, true
	return built
}

// leaveLoop sets the node's outputs.
func (r *reader) leaveLoop(s *scope, l *looping) {
	n, none := l.n, int64(0)
	if l.empty {
		none = 1
	}
	for i, name := range n.out {
		if name == "" {
			continue
		}
		if i < len(l.state) {
			s.values[name] = l.state[i]
			continue
		}
		k := i - len(l.state)
		parts := l.stacked[k]
		s.values[name] = poison
		if at(l.outBackward, k) != 0 {
			parts = slices.Clone(parts)
			slices.Reverse(parts)
		}
		made, err := r.b.Node(r.lib.Role(graph.RoleStack), r.b.Fresh(n.name), []graph.Attr{{Name: "axis", Value: at(l.outAxes, k)}, {Name: "none", Value: none}},
			parts, []string{r.nameFor(s, name)})
		if err != nil {
			r.bad.nodeError(n.name, n.fullOp(), err)
			continue
		}
		s.values[name] = made[0]
	}
}
