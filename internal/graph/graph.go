package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Graph is a program: nodes in a valid running order, and their values. IDs are dense:
// g.Nodes[n.ID] is n and g.Values[v.ID] is v, so passes keep per-node data in slices.
type Graph struct {
	Name    string
	Lib     *Library
	Nodes   []*Node
	Values  []*Value
	Inputs  []*Value // fed in every step
	Outputs []*Value
	Loss    *Value // one of Outputs, if the graph has a loss
	Updates []Update
	Grads   []Grad
	Holds   []Hold
	// Recorded are the conditions under which a recorded program ran. It must run under the
	// same for its sizes to be right.
	Recorded []Recorded
	// Trainer is where a recorded program ran, which tells what its operators take there.
	Trainer Trainer
	Assumed []Assume

	byName map[string]*Value
}

// Update says that New replaces State at the end of a step: a parameter, optimizer slot or
// running statistic.
type Update struct{ State, New *Value }

// Grad pairs a parameter with its total gradient.
type Grad struct{ Param, Grad *Value }

// Hold says that code outside the graph holds Value, or the value that it is a view of, until
// Until has run for the first time: the bytes that Value's node wrote in its first run must
// stay until then.
type Hold struct {
	Value *Value
	Until *Node
}

// Recorded is one condition, such as a number of threads or a memory layout.
type Recorded struct{ Name, Value string }

// Trainer is a device as a trainer names it, cpu for a processor, with the number of threads, and the trainer's own name and
// those of its drivers with their versions.
type Trainer struct {
	Device, Driver string
	Threads        int64
}

// Allocator is the name of the condition that the program runs with an allocator of its own,
// which the value names. A plan then gives lifetimes of values, not their addresses.
const Allocator = "allocator"

// FlopsPerByte is the name of the condition that the program's device does that many flops in
// the time that it moves a byte.
const FlopsPerByte = "flops_per_byte"

// BytesPerFlop is how many bytes move in the time of a flop, by condition FlopsPerByte; the
// default is 4.
func (g *Graph) BytesPerFlop() float64 {
	for _, r := range g.Recorded {
		if r.Name == FlopsPerByte {
			if v, err := strconv.ParseInt(r.Value, 10, 64); err == nil && v > 0 {
				return 1 / float64(v)
			}
		}
	}
	return 4
}

// Assume is an equation between dims that could not be proven from the
// formulas; it is checked when dims get numbers.
type Assume struct {
	A, B Dim
	Node string
}

// Kind is where a value comes from.
type Kind uint8

// The kinds of values.
const (
	Computed    Kind = iota // an output of a node
	Input                   // fed in every step
	Param                   // an initializer that is trained
	ModelBuffer             // an initializer that is not trained; only running statistics change
	Const                   // an initializer or number that never changes
	State                   // kept from step to step: optimizer slots, counters
	Sequence                // a list of values; exists only while a file is read
	Ragged                  // rows whose number is known only when the step runs; exists only while a file is read
)

// String is the word used in the text form.
func (k Kind) String() string {
	return [...]string{"computed", "input", "param", "buffer", "const", "state", "sequence", "ragged"}[k]
}

// Stored reports whether the contents of such values come with the model.
func (k Kind) Stored() bool { return k == Param || k == ModelBuffer || k == Const }

// Phase is the part of the step that a node belongs to.
type Phase uint8

// The phases, in order.
const (
	Forward Phase = iota
	Backward
	Updating
)

// String is the word used in the text form.
func (p Phase) String() string { return [...]string{"forward", "backward", "update"}[p] }

// Shape is a list of dims; the empty list is a scalar.
type Shape []Dim

// Dims makes a Shape from numbers.
func Dims(ns ...int64) Shape {
	s := make(Shape, len(ns))
	for i, n := range ns {
		s[i] = Num(n)
	}
	return s
}

// Elems is the number of elements.
func (s Shape) Elems() Dim { return s.times(1) }

// times is the number of elements × n. It multiplies numbers first, which makes fewer formulas.
func (s Shape) times(n int64) Dim {
	of, number := Num(1), int64(1)
	for _, d := range s {
		if d.poly == nil {
			number = mulInt(number, d.num)
		} else {
			of = of.Mul(d)
		}
	}
	return of.Mul(Num(mulInt(number, n)))
}

// Equal reports whether the shapes are the same formulas.
func (s Shape) Equal(t Shape) bool { return slices.EqualFunc(s, t, Dim.Equal) }

// String prints [batch, 64].
func (s Shape) String() string {
	b := []byte{'['}
	for i, d := range s {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, d.String()...)
	}
	return string(append(b, ']'))
}

// Data provides the bytes of an initializer. Package weights has implementations; mapped files
// are not read before Bytes is called.
type Data interface {
	Len() int64
	Bytes() ([]byte, error)
}

// Bytes is Data in memory.
type Bytes []byte

// Len is the number of bytes.
func (b Bytes) Len() int64 { return int64(len(b)) }

// Bytes returns b.
func (b Bytes) Bytes() ([]byte, error) { return b, nil }

// Value is an output of a node, or an input or stored value of a step. It has a type and a
// shape; only stored values have numbers.
type Value struct {
	ID    int32
	Out   int32 // which output of Def
	Kind  Kind
	Type  DType
	Name  string
	Shape Shape
	// Ints is the contents of a small integer value as formulas, in row-major order; nil if
	// unknown.
	Ints []Dim
	Def  *Node // nil unless Computed
	// Data is the contents of a Param, ModelBuffer, Const or State. A Const without Data
	// has Ints; a State without Data starts as zeros.
	Data Data
	Seq  []*Value // a Sequence's elements; for a Ragged the value with its rows, the first row and the end
}

// Bytes is the size of the value.
func (v *Value) Bytes() Dim { return v.Shape.times(v.Type.Size()) }

// Tensor is the contents of a Param, ModelBuffer, Const or State. Formulas are evaluated;
// otherwise the tensor shares the bytes of Data.
func (v *Value) Tensor(b *Binding) (*Tensor, error) {
	shape, err := b.Shape(v.Shape)
	if err != nil {
		return nil, fmt.Errorf("value %q: %w", v.Name, err)
	}
	switch {
	case v.Data != nil:
		data, err := v.Data.Bytes()
		if err != nil {
			return nil, fmt.Errorf("value %q: %w", v.Name, err)
		}
		return &Tensor{Type: v.Type, Shape: shape, Bytes: data}, nil
	case v.Ints != nil:
		x := NewTensor(v.Type, shape...)
		for i, d := range v.Ints {
			n, err := b.Eval(d)
			if err != nil {
				return nil, fmt.Errorf("value %q: %w", v.Name, err)
			}
			x.SetInt(i, n)
		}
		return x, nil
	case v.Kind == State:
		return NewTensor(v.Type, shape...), nil
	}
	return nil, fmt.Errorf("value %q has no numbers", v.Name)
}

// Rank is the number of dims.
func (v *Value) Rank() int { return len(v.Shape) }

// String prints the name and type.
func (v *Value) String() string { return fmt.Sprintf("%s %s%s", v.Name, v.Type, v.Shape) }

// Node is one use of an operator.
type Node struct {
	ID      int32
	Phase   Phase
	Op      *Op
	Name    string
	Attrs   []Attr   // only those that are set, sorted by name
	Inputs  []*Value // nil where an optional input is omitted
	Outputs []*Value // nil where an optional output is omitted
	// Body has the nodes of a chain in a graph of their own; Infer makes it from the
	// attributes. nil for other operators.
	Body *Graph

	inferredBy *Builder // set during Infer
}

// GradientScope is the scope of the names of the nodes that compute n's gradient.
func (n *Node) GradientScope() string { return gradients + n.Name }

const gradients = "grad/"

// GradientOf reports whether n is part of the gradient of one of the nodes with these
// GradientScopes.
func (n *Node) GradientOf(scopes map[string]bool) bool {
	if n.Phase == Forward || !strings.HasPrefix(n.Name, gradients) {
		return false
	}
	for i := len(gradients); i < len(n.Name); i++ { // names have slashes, too
		if n.Name[i] == '/' && scopes[n.Name[:i]] {
			return true
		}
	}
	return false
}

// In is input i, or nil if it is omitted or does not exist.
func (n *Node) In(i int) *Value {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return nil
}

// Output is output i, or nil if it is omitted or does not exist.
func (n *Node) Output(i int) *Value {
	if i < len(n.Outputs) {
		return n.Outputs[i]
	}
	return nil
}

// Attr is the value of an attribute, its default, or nil.
func (n *Node) Attr(name string) any {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return n.Attrs[i].Value
		}
	}
	if s := n.Op.spec(name); s != nil {
		return s.Default
	}
	panic(fmt.Sprintf("graph: operator %s does not declare attribute %q", n.Op.Name, name))
}

// SetAttr sets an attribute that no shape depends on. Nodes that share attributes keep theirs.
func (n *Node) SetAttr(name string, value any) {
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs), func(a Attr) bool { return a.Name == name })
	at, _ := slices.BinarySearchFunc(attrs, name, func(a Attr, name string) int { return strings.Compare(a.Name, name) })
	n.Attrs = slices.Insert(attrs, at, Attr{name, value})
}

// Has reports whether the attribute is set on the node itself.
func (n *Node) Has(name string) bool {
	return slices.ContainsFunc(n.Attrs, func(a Attr) bool { return a.Name == name })
}

// Int is an integer attribute; 0 if it is absent and has no default.
func (n *Node) Int(name string) int { v, _ := n.Attr(name).(int64); return int(v) }

// Float is a float attribute; 0 if it is absent and has no default.
func (n *Node) Float(name string) float64 { v, _ := n.Attr(name).(float64); return v }

// Str is a string attribute; "" if it is absent and has no default.
func (n *Node) Str(name string) string { v, _ := n.Attr(name).(string); return v }

// Ints is a list attribute; nil if it is absent.
func (n *Node) Ints(name string) []int64 { v, _ := n.Attr(name).([]int64); return v }

// Floats is a list attribute; nil if it is absent.
func (n *Node) Floats(name string) []float64 { v, _ := n.Attr(name).([]float64); return v }

// Identity seeds the numbers of a random node: its attribute seed, or else a hash of its
// name. It does not depend on the ID, so editing the graph does not change the numbers.
func (n *Node) Identity() uint64 {
	if n.Op.spec("seed") != nil && n.Has("seed") {
		return uint64(n.Int("seed"))
	}
	return NameIdentity(n.Name)
}

// NameIdentity is the Identity of a node with that name and no seed.
func NameIdentity(name string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, name) // a hash does not fail
	return h.Sum64()
}

// NodeError is an error about a node.
type NodeError struct {
	Node, Op string
	Msg      string
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("node %q (%s): %s", e.Node, e.Op, e.Msg)
}

// Fail panics with an error about the node.
func (n *Node) Fail(format string, args ...any) {
	panic(&NodeError{n.Name, n.Op.FullName(), fmt.Sprintf(format, args...)})
}

// Set sets the type and shape of output i, if it is not omitted.
func (n *Node) Set(i int, t DType, s Shape) {
	if v := n.Output(i); v != nil {
		v.Type, v.Shape = t, s
	}
}

// SetInts sets the contents of output i, if it is not omitted and small enough.
func (n *Node) SetInts(i int, ds []Dim) {
	if v := n.Output(i); v != nil && len(ds) <= MaxInts {
		v.Ints = ds
	}
}

// MaxInts limits the elements of integer values whose contents are kept as formulas. It is
// enough for shapes.
const MaxInts = 64

// Same asserts that two dims are equal. It fails if they are known to differ, and adds to
// Graph.Assumed if neither is proven.
func (n *Node) Same(x, y Dim, what string) {
	if x.Equal(y) {
		return
	}
	if c, known := x.Compare(y); known && c != 0 {
		n.Fail("%s: %s and %s differ", what, x, y)
	}
	if b := n.inferredBy; b != nil {
		b.Graph.Assumed = append(b.Graph.Assumed, Assume{x, y, n.Name})
	}
}

// ByName finds a value.
func (g *Graph) ByName(name string) *Value { return g.byName[name] }

// Names lists the dims that the graph's values use, sorted.
func (g *Graph) Names() []string {
	set := map[string]bool{}
	for _, v := range g.Values {
		for _, d := range v.Shape {
			if d.poly != nil {
				d.eachName(set)
			}
		}
	}
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// CheckBinding checks the assumptions about dims. An assumption about a name that no value
// uses is checked only if the name is bound, as it then is another name of some dim.
func (g *Graph) CheckBinding(b *Binding) error {
	var used []string
	eval := func(a Assume, d Dim) (n int64, known bool, err error) {
		n, err = b.Eval(d)
		var unbound *UnboundError
		if errors.As(err, &unbound) {
			if used == nil {
				used = g.Names()
			}
			if !slices.Contains(used, unbound.Name) {
				return 0, false, nil
			}
		}
		if err != nil {
			err = fmt.Errorf("node %q: %w", a.Node, err)
		}
		return n, true, err
	}
	for _, a := range g.Assumed {
		x, known, err := eval(a, a.A)
		if err != nil {
			return err
		}
		y, both, err := eval(a, a.B)
		if err != nil {
			return err
		}
		if known && both && x != y {
			return fmt.Errorf("node %q needs %s = %s, but they are %d and %d", a.Node, a.A, a.B, x, y)
		}
	}
	return nil
}

// Fingerprint is a hash of the program: of all names, types and attributes, but not of
// the contents of large initializers.
func (g *Graph) Fingerprint() string {
	h := sha256.New()
	g.Print(h)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Uses lists the readers of each value, in running order.
type Uses struct {
	start []int32
	nodes []*Node
}

// Uses finds the readers of every value. A node that reads a value twice is
// listed once.
func (g *Graph) Uses() *Uses {
	u := &Uses{start: make([]int32, len(g.Values)+2)}
	each := func(f func(v *Value, n *Node)) {
		for _, n := range g.Nodes {
			for i, v := range n.Inputs {
				if v != nil && !slices.Contains(n.Inputs[:i], v) {
					f(v, n)
				}
			}
		}
	}
	each(func(v *Value, _ *Node) { u.start[v.ID+2]++ })
	for i := 2; i < len(u.start); i++ {
		u.start[i] += u.start[i-1]
	}
	u.nodes = make([]*Node, u.start[len(u.start)-1])
	each(func(v *Value, n *Node) {
		u.nodes[u.start[v.ID+1]] = n
		u.start[v.ID+1]++
	})
	return u
}

// Of lists the readers of v.
func (u *Uses) Of(v *Value) []*Node { return u.nodes[u.start[v.ID]:u.start[v.ID+1]] }

// HasBackward reports whether the graph is more than a forward pass.
func (g *Graph) HasBackward() bool {
	return slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.Phase != Forward })
}
