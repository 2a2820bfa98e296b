package graph

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"memopt/internal/stop"
)

// Builder appends to a graph. Operators' rules (Infer, Grad, Rewrite) use the methods
// that panic; Try turns these panics into errors at the entry of a stage.
type Builder struct {
	Graph   *Graph
	Phase   Phase           // given to new nodes
	Scope   string          // prefix of generated names
	Context context.Context // polled at each node; nil is none
	// Eager, if not nil, makes Node evaluate nodes whose inputs are all constants, so that the rules of later nodes
	// know their contents. It is called with the bytes of the outputs first, and may refuse them.
	Eager  func(bytes int64) error
	serial int
	text   []byte            // buffer for names
	once   map[string]*Value // results of Once
}

// New makes an empty graph over a library.
func New(lib *Library, name string) *Graph {
	return &Graph{Name: name, Lib: lib, byName: map[string]*Value{}}
}

// NewBuilder starts appending to g.
func NewBuilder(g *Graph) *Builder { return &Builder{Graph: g} }

// Try runs f and returns the error that a rule in it reported. Other panics, which are bugs, pass through.
func Try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *NodeError:
			err = r
		case *DimError:
			err = r
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// Define adds a value that no node makes. Names are unique; "" generates one.
func (b *Builder) Define(kind Kind, name string, t DType, s Shape) (*Value, error) {
	if name == "" {
		name = b.Fresh(kind.String())
	} else if b.Graph.byName[name] != nil {
		return nil, fmt.Errorf("two values are named %q", name)
	}
	v := &Value{Kind: kind, Name: name, Type: t, Shape: s}
	b.insert(v)
	if kind == Input {
		b.Graph.Inputs = append(b.Graph.Inputs, v)
	}
	return v, nil
}

// Reserve allocates memory for that many more nodes and values.
func (b *Builder) Reserve(nodes, values int) {
	g := b.Graph
	g.Nodes, g.Values = slices.Grow(g.Nodes, nodes), slices.Grow(g.Values, values)
	names := make(map[string]*Value, len(g.byName)+values)
	maps.Copy(names, g.byName)
	g.byName = names
}

func (b *Builder) insert(v *Value) {
	v.ID = int32(len(b.Graph.Values))
	b.Graph.Values = append(b.Graph.Values, v)
	b.Graph.byName[v.Name] = v
}

// must defines a value under a generated name, which cannot fail.
func (b *Builder) must(kind Kind, t DType, s Shape) *Value {
	v, err := b.Define(kind, "", t, s)
	if err != nil {
		panic(err)
	}
	return v
}

// Fresh makes a name that is not in use.
func (b *Builder) Fresh(hint string) string {
	name := b.text[:0]
	if b.Scope != "" {
		name = append(append(name, b.Scope...), '/')
	}
	name = append(name, hint...)
	for length := len(name); b.Graph.byName[string(name)] != nil; {
		b.serial++
		name = strconv.AppendInt(append(name[:length], '_'), int64(b.serial), 10)
	}
	b.text = name
	return string(name)
}

// Const adds a constant; the contents of small integer tensors are also kept as formulas (Value.Ints).
func (b *Builder) Const(name string, x *Tensor) (*Value, error) {
	s := make(Shape, len(x.Shape))
	for i, d := range x.Shape {
		s[i] = Num(int64(d))
	}
	v, err := b.Define(Const, name, x.Type, s)
	if err != nil {
		return nil, err
	}
	v.Data = Bytes(x.Bytes)
	v.Ints = IntsOf(x)
	return v, nil
}

// IntsOf is the contents of a small integer or bool tensor as formulas.
func IntsOf(x *Tensor) []Dim {
	if x.Type.IsReal() || x.Len() > MaxInts {
		return nil
	}
	ds := make([]Dim, x.Len())
	for i := range ds {
		ds[i] = Num(x.Int(i))
	}
	return ds
}

// Ints is an int64 Const of formulas, such as a shape operand.
func (b *Builder) Ints(ds ...Dim) *Value {
	v := b.must(Const, Int64, Dims(int64(len(ds))))
	v.Ints = append([]Dim{}, ds...) // known, even if there are none
	return v
}

// Int is a scalar int64 Const.
func (b *Builder) Int(d Dim) *Value {
	v := b.must(Const, Int64, Shape{})
	v.Ints = []Dim{d}
	return v
}

// Num is a scalar Const of any type.
func (b *Builder) Num(t DType, x float64) *Value {
	c := NewTensor(t)
	c.SetFloat(0, x)
	v := b.must(Const, t, Shape{})
	v.Data = Bytes(c.Bytes)
	v.Ints = IntsOf(c)
	return v
}

// Op appends a node and returns its first output. It is for rules, and panics on errors.
func (b *Builder) Op(name string, attrs A, in ...*Value) *Value {
	return b.Ops(name, attrs, 1, in...)[0]
}

// Ops appends a node with a number of outputs. It takes the operator's newest form; name may
// have a domain ("memopt.X"). It is for rules, and panics on errors.
func (b *Builder) Ops(name string, attrs A, outputs int, in ...*Value) []*Value {
	op := b.lookup(name)
	if op == nil {
		panic(fmt.Sprintf("graph: a rule uses operator %q, which is not in the library", name))
	}
	return b.Apply(op, attrs, outputs, in...)
}

func (b *Builder) lookup(name string) *Op {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return b.Graph.Lib.Find(name[:i], name[i+1:], 0)
		}
	}
	return b.Graph.Lib.Find("", name, 0)
}

// Apply appends a node of an operator. It is for rules, and panics on errors.
func (b *Builder) Apply(op *Op, attrs A, outputs int, in ...*Value) []*Value {
	names := unnamed[:]
	if outputs > len(names) {
		names = make([]string, outputs)
	}
	outs, err := b.Node(op, "", attrs.list(), in, names[:outputs])
	if err != nil {
		var ne *NodeError
		if errors.As(err, &ne) {
			panic(ne)
		}
		panic(&NodeError{b.Scope, op.FullName(), err.Error()})
	}
	return outs
}

// unnamed is a list of empty output names.
var unnamed [8]string

// Once is Apply for one output, but returns the earlier result for an equal call: unrolled
// iterations of a loop share what does not change. It is for rules, and panics on errors.
func (b *Builder) Once(op *Op, attrs A, in ...*Value) *Value {
	key := fmt.Appendf(nil, "%s %d %d", op.FullName(), op.Since, b.Phase)
	for _, a := range attrs.list() {
		if t, ok := a.Value.(*Tensor); ok {
			key = fmt.Appendf(key, " %s=%s%v%q", a.Name, t.Type, t.Shape, t.Bytes)
		} else {
			key = fmt.Appendf(key, " %s=%#v", a.Name, a.Value)
		}
	}
	for _, v := range in {
		switch {
		case v == nil:
			key = append(key, " _"...)
		case v.Ints != nil:
			key = fmt.Appendf(key, " %s%s%s", v.Type, v.Shape, v.Ints)
		default:
			key = fmt.Appendf(key, " #%d", v.ID)
		}
	}
	if v := b.once[string(key)]; v != nil {
		return v
	}
	if b.once == nil {
		b.once = map[string]*Value{}
	}
	v := b.Apply(op, attrs, 1, in...)[0]
	b.once[string(key)] = v
	return v
}

// Sweep removes the nodes and values from these indexes on that no value of keep depends on.
// Nothing else may refer to them.
func (b *Builder) Sweep(nodes, values int, keep []*Value) {
	g := b.Graph
	live, used := make([]bool, len(g.Values)-values), make([]bool, len(g.Nodes)-nodes)
	var mark func(v *Value)
	mark = func(v *Value) {
		switch {
		case v == nil:
		case v.Kind == Sequence || v.Kind == Ragged:
			for _, u := range v.Seq {
				mark(u)
			}
		case int(v.ID) >= values:
			live[int(v.ID)-values] = true
			if v.Def != nil {
				used[int(v.Def.ID)-nodes] = true
			}
		}
	}
	for _, v := range keep {
		mark(v)
	}
	for i, n := range slices.Backward(g.Nodes[nodes:]) {
		if used[i] {
			for _, v := range slices.Concat(n.Inputs, n.Outputs) {
				mark(v)
			}
		}
	}
	g.keepValues(values, live)
	done := g.Nodes[:nodes]
	for i, n := range g.Nodes[nodes:] {
		if used[i] {
			n.ID = int32(len(done))
			done = append(done, n)
		}
	}
	clear(g.Nodes[len(done):])
	g.Nodes = done
	b.once = nil // its keys contain old IDs
}

// Node appends a node after checking it against the operator's declaration
// and inferring its outputs. An output named "" gets a generated name, or is omitted
// (nil) if its port is optional and the node is named. An operator with a
// Rewrite is replaced by the result of that.
func (b *Builder) Node(op *Op, name string, attrs []Attr, in []*Value, outs []string) (made []*Value, err error) {
	stop.Poll(b.Context)
	generated := name == ""
	if generated {
		name = b.Fresh(op.Name)
	}
	n, values := newNode(len(outs))
	n.Phase, n.Op, n.Name, n.Attrs, n.Inputs = b.Phase, op, name, attrs, trim(in)
	if err := n.checkCall(len(outs)); err != nil {
		return nil, err
	}
	for i, o := range outs {
		if o != "" && b.Graph.byName[o] != nil {
			return nil, &NodeError{name, op.FullName(), fmt.Sprintf("two values are named %q", o)}
		}
		if o != "" && slices.Contains(outs[:i], o) {
			return nil, &NodeError{name, op.FullName(), fmt.Sprintf("two outputs are named %q", o)}
		}
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *NodeError:
			made, err = nil, r
		case *DimError:
			made, err = nil, &NodeError{name, op.FullName(), r.Msg}
		default:
			panic(r)
		}
	}()
	if op.Rewrite != nil {
		return b.rewrite(n, op.Rewrite, outs), nil
	}
	if op.Ragged != nil {
		if made := b.rewrite(n, op.Ragged, outs); made != nil {
			return made, nil
		}
	}
	for i, v := range n.Inputs {
		if v != nil && v.Kind == Ragged {
			n.Fail("the number of rows of input %d is only known when the step runs", i)
		}
	}

	for i, o := range outs {
		if o == "" && !generated && op.outPort(i).Optional {
			continue
		}
		values[i] = Value{Kind: Computed, Def: n, Out: int32(i), Name: o}
		n.Outputs[i] = &values[i]
	}
	n.inferredBy = b
	op.Infer(n)
	n.inferredBy = nil
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if !v.Type.Valid() {
			panic(fmt.Sprintf("graph: operator %s infers no type for output %d", op.Name, i))
		}
		for _, d := range v.Shape {
			if lo, ok := d.Const(); ok && lo < 0 {
				n.Fail("output %d would have a dim of %d", i, lo)
			}
		}
		// Detect sizes beyond 64 bits here, where the node is known.
		if like := v.shareShape(n.Inputs); like == nil || like.Kind != Computed || like.Type.Size() < v.Type.Size() {
			v.Bytes()
		}
	}
	// Register given names before names are generated.
	given := false
	for _, v := range n.Outputs {
		if v != nil && v.Name != "" {
			b.Graph.byName[v.Name], given = v, true
		}
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		if v.Name == "" {
			v.Name = name
			if i > 0 || (given || !generated) && b.Graph.byName[name] != nil {
				v.Name = b.freshOutput(name, op.outPort(i).Name)
			}
		}
		b.insert(v)
	}
	if b.Eager != nil && n.computedNow(b.Eager) {
		return n.Outputs, nil
	}
	n.ID = int32(len(b.Graph.Nodes))
	b.Graph.Nodes = append(b.Graph.Nodes, n)
	return n.Outputs, nil
}

// Copy appends a copy of another graph's node under the same names. The inputs must have the
// types and shapes of the original's, so nothing is inferred.
func (b *Builder) Copy(n *Node, in []*Value) []*Value {
	c, values := newNode(len(n.Outputs))
	outputs := c.Outputs
	*c = *n
	c.ID, c.Inputs, c.Outputs = int32(len(b.Graph.Nodes)), in, outputs
	for i, v := range n.Outputs {
		if v != nil {
			values[i] = *v
			values[i].Def, outputs[i] = c, &values[i]
			b.insert(&values[i])
		}
	}
	b.Graph.Nodes = append(b.Graph.Nodes, c)
	return outputs
}

// newNode allocates a node and its outputs. Nearly all nodes have one output; these take a
// single allocation.
func newNode(outputs int) (*Node, []Value) {
	if outputs != 1 {
		return &Node{Outputs: make([]*Value, outputs)}, make([]Value, outputs)
	}
	x := new(struct {
		node    Node
		values  [1]Value
		outputs [1]*Value
	})
	x.node.Outputs = x.outputs[:]
	return &x.node, x.values[:]
}

// shareShape lets v share the memory of an equal shape, as shapes are immutable. It returns
// the value that has it, or nil.
func (v *Value) shareShape(with []*Value) *Value {
	for _, w := range with {
		if w != nil && len(v.Shape) > 0 && v.Shape.Equal(w.Shape) {
			v.Shape = slices.Clip(w.Shape)
			return w
		}
	}
	return nil
}

func (b *Builder) freshOutput(node, port string) string {
	scope := b.Scope
	b.Scope = ""
	defer func() { b.Scope = scope }()
	return b.Fresh(node + ":" + port)
}

// rewrite builds n's replacement and gives its results the names of n's outputs.
func (b *Builder) rewrite(n *Node, by func(*Builder, *Node) []*Value, outs []string) []*Value {
	scope, before, given := b.Scope, int32(len(b.Graph.Values)), n.Outputs
	b.Scope = n.Name
	n.Outputs = make([]*Value, len(outs))
	got := by(b, n)
	b.Scope = scope
	if got == nil {
		n.Outputs = given
		return nil
	}
	for i, name := range outs {
		if name == "" {
			continue
		}
		if i >= len(got) || got[i] == nil {
			n.Fail("output %d (%s) is not supported", i, n.Op.outPort(i).Name)
		}
		v := got[i]
		if v.Kind == Sequence || v.Kind == Ragged || v.ID < before || v.Name == name || slices.Contains(outs[:i], v.Name) {
			continue
		}
		// The rewrite may have generated this name for another value.
		if other := b.Graph.byName[name]; other != nil {
			b.Graph.Rename(other, b.Fresh(name))
		}
		b.Graph.Rename(v, name)
	}
	return got
}

// Rename renames a value, and its node if that has the name of its output 0. The new name must be unused.
func (g *Graph) Rename(v *Value, name string) {
	if g.byName[name] != nil {
		panic(fmt.Sprintf("graph: renaming %q: %q is in use", v.Name, name))
	}
	delete(g.byName, v.Name)
	if v.Def != nil && v.Out == 0 && v.Def.Name == v.Name {
		v.Def.Name = name
	}
	v.Name = name
	g.byName[name] = v
}

// trim drops omitted inputs from the end.
func trim(in []*Value) []*Value {
	for len(in) > 0 && in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	return in
}

func (op *Op) outPort(i int) Port { return port(op.out, i) }
func (op *Op) inPort(i int) Port  { return port(op.in, i) }

func port(ps []Port, i int) Port {
	if i < len(ps) {
		return ps[i]
	}
	if n := len(ps); n > 0 && ps[n-1].Variadic {
		return ps[n-1]
	}
	return Port{}
}

// checkCall checks arity and attributes against the declaration.
func (n *Node) checkCall(outputs int) error {
	fail := func(format string, args ...any) error {
		return &NodeError{n.Name, n.Op.FullName(), fmt.Sprintf(format, args...)}
	}
	if err := arity(n.Op.in, len(n.Inputs), "inputs"); err != "" {
		return fail("%s", err)
	}
	for i, v := range n.Inputs {
		if p := n.Op.inPort(i); v == nil && !p.Optional {
			return fail("input %d (%s) is missing", i, p.Name)
		}
		if v != nil && v.Kind == Sequence && n.Op.Rewrite == nil {
			return fail("input %d is a sequence", i)
		}
	}
	for i := len(n.Inputs); i < len(n.Op.in); i++ {
		if p := n.Op.in[i]; !p.Optional && !p.Variadic {
			return fail("input %d (%s) is missing", i, p.Name)
		}
	}
	if err := arity(n.Op.out, outputs, "outputs"); err != "" {
		return fail("%s", err)
	}
	for i := outputs; i < len(n.Op.out); i++ {
		if p := n.Op.out[i]; !p.Optional && !p.Variadic {
			return fail("output %d (%s) is missing", i, p.Name)
		}
	}
	if outputs == 0 {
		return fail("has no outputs")
	}
	for i, a := range n.Attrs {
		s := n.Op.spec(a.Name)
		if s == nil {
			return fail("attribute %q is not known%s", a.Name, n.Op.known())
		}
		if k := kindOf(a.Value); k != s.Kind {
			return fail("attribute %q is %s, not %s", a.Name, s.Kind, k)
		}
		if i > 0 && n.Attrs[i-1].Name >= a.Name {
			return fail("attribute %q is given twice or out of order", a.Name)
		}
	}
	return nil
}

func (op *Op) known() string {
	if len(op.attrs) == 0 {
		return "; this operator has none"
	}
	s := "; known are"
	for i, a := range op.attrs {
		if i > 0 {
			s += ","
		}
		s += " " + a.Name
	}
	return s
}

func arity(ports []Port, n int, what string) string {
	if n > len(ports) && (len(ports) == 0 || !ports[len(ports)-1].Variadic) {
		return fmt.Sprintf("%d %s, at most %d are known", n, what, len(ports))
	}
	return ""
}
