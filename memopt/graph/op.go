package graph

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Op is all that is known of an operator. Packages outside the operator
// library never ask for an operator by name; they read these facets.
type Op struct {
	Name   string
	Domain string // "" is ONNX's own
	Since  int    // first opset of Domain whose form this is; 0 means any
	Doc    string // one line; what is computed

	// In and Out name the ports: "X, W, B?" has an optional last one,
	// "data..." takes any number. Attrs declares attributes with kind and
	// default: "axis int=-1, perm ints, mode string=constant".
	In, Out, Attrs string

	// Infer sets type, shape and, for integer values small enough to be
	// shapes, the contents of every output. It panics through Node.Fail.
	Infer func(n *Node)
	// Rewrite, if set, stands in for the node: the operator is defined by
	// others. Older forms of an operator and sequence operators are such.
	Rewrite func(b *Builder, n *Node) []*Value
	// Ragged gives what stands for a node some of whose rows (along dim 0) are in a number
	// that is only known when the step runs: inputs are Ragged, or its outputs are to be.
	// nil: the node has no such rows.
	Ragged func(b *Builder, n *Node) []*Value
	// Grad gives the gradient of each input from those of the outputs, as
	// nodes. dy holds nil where none flows; nil in the result says the same.
	Grad func(b *Builder, n *Node, dy []*Value) []*Value
	// NoGrad says that no gradient flows through the node, for a reason other
	// than element types: Shape, comparisons, ArgMax.
	NoGrad bool
	// Fixed lists inputs whose gradient Grad does not give though there is one:
	// weights of classes, tables of angles. Steps that would need it are refused.
	Fixed []int

	// NoOp says of a node that output 0 is input 0, bit for bit. What differs in
	// type or shape is none anyway, and a View that does not is always one.
	NoOp func(n *Node) bool
	// Simplify gives what stands for the outputs with less work and the same
	// bits, or nil: a pair of casts, a view of a view.
	Simplify func(b *Builder, n *Node) []*Value
	// Unfold gives what stands for the outputs in pieces, or nil, where the node hides
	// between them what a plan would rather keep than its inputs.
	Unfold func(b *Builder, n *Node) []*Value
	// Fuse sees this operator in pieces of which m.Node is the last. It gives
	// what stands for that node's outputs, or nil; see Match.
	Fuse func(m *Match) []*Value

	// Shrink lists what a node of the backward pass can do with less of, bit for
	// bit: see Smaller. It may be empty for a node.
	Shrink func(n *Node) []Smaller
	// Whole says between what the numbers of an output lie, if they are whole, by
	// what is known of inputs. Index says it of an input: of other numbers the node
	// makes an error. nil, or false: nothing is said.
	Whole func(n *Node, output int, of func(v *Value) (Whole, bool)) (w Whole, known bool)
	Index func(n *Node, input int) (w Whole, known bool)

	// Eval is what is true, written plainly. Fast is the CPU device's quick
	// form; it must agree with Eval and must not depend on the worker count.
	Eval, Fast func(c *Call)
	// Scratch is the bytes Fast needs beside its outputs.
	Scratch func(n *Node) Dim
	// Lower says how the node runs on a device that runs kernels; see Lowering.
	// nil: such a device leaves it to the processor.
	Lower func(l *Lowering)

	// Flops prices one run; bytes moved come from the shapes.
	Flops func(n *Node) Dim
	// Reads is how many elements of an input a run reads; nil: all. A lookup
	// reads the rows that it picks, not the table.
	Reads func(n *Node, input int) Dim
	// Recompute says whether and how gladly the planner may run it again.
	Recompute Class
	// InPlace lists inputs whose bytes output 0 may be written over, if
	// nobody reads them later and the sizes agree.
	InPlace []int
	// Pointwise: there is one output, and an element of it depends on one element
	// of each input, broadcast. Such nodes can run as one; see Chain.
	Pointwise bool
	// Elementwise: the same of operators on any types, which need not have kernels that
	// run as one. What is Pointwise is Elementwise.
	Elementwise bool
	// View: output 0 is input 0 under another shape; nothing runs.
	View bool
	// Overwrites gives, per output, the input that it replaces in place: the
	// updated parameter is where the parameter was. nil for most operators.
	Overwrites []int
	// Running lists the inputs that hold running statistics.
	Running []Running
	// Random: draws from the counter (seed, step, node, element).
	Random bool
	// Border: the forward pass is what this node needs, itself included; all
	// else is the backward pass. A graph has one such node at most.
	Border bool

	// Pieces says that the operator computes in pieces what is then never there whole.
	Pieces Pieces
	// UsesRunning reports whether a node computes with its running statistics as they
	// are, as a model does that is evaluated; nil: no node does.
	UsesRunning func(n *Node) bool

	// Role marks the few operators that other stages build with.
	Role Role
	// Optimizer is the name users give to an update rule. Its ports are
	// param, grad, lr, scale, step, then one state for each slot; its outputs
	// the new param and the new states. A negative scale leaves all as it is.
	Optimizer string

	// OnlyCUDA: ONNX Runtime has the operator for CUDA and not for the processor.
	OnlyCUDA bool

	// Samples feed the conformance test; kernels documents their form.
	Samples []string
	// Tests is what tests must know of the operator beside that.
	Tests Tests

	in, out []Port
	attrs   []AttrSpec
}

// Tests is what tests must know of an operator to test it; no stage reads it.
type Tests struct {
	// Work counts the operations of a run by walking over the elements of its tensors:
	// another way than Flops to the same number. What an element takes is stated; which
	// elements it is taken for is what is easily wrong: a reduction works on what it
	// reads, a broadcast on what it writes.
	Work func(n *Node, in []*Tensor) int64
	// NoScalars: the operator needs an axis, and has no input that could broadcast, so
	// no sample has single numbers.
	NoScalars bool
	// Places: integers of input 1 say where elements are read or written, one by one or
	// by a last dim of them. Some sample has a place twice.
	Places Places
	// NotPointwise is why an operator is not Pointwise though its kernels are.
	NotPointwise string
	// Large are samples of what small operands do not show: operands laid out anew,
	// sums in parts.
	Large []string
	// Pieces are samples whose operands have more than 4 KiB, which devices that show a
	// kernel no more than that do in pieces.
	Pieces []string
}

// Places is how integers name places.
type Places uint8

// The ways to name a place.
const (
	NoPlaces    Places = iota
	PlaceEach          // each is one
	PlaceTuples        // each row of the last dim is one
)

// Smaller is a form of a node that reads an extract of an input instead of the
// input, which then need not be kept: the signs of an activation for its
// gradient, the places of the greatest elements for a pool's. Both parts build
// nodes.
type Smaller struct {
	Input int
	// Keep makes the extract from x, the input.
	Keep func(b *Builder, x *Value) *Value
	// Read gives what stands for the node's outputs, with the node's inputs as
	// they are in b's graph; in[Input] is nil.
	Read func(b *Builder, in []*Value, kept *Value) []*Value
}

// Running is an input that holds a running statistic, and the output that is its next
// value in training. Sample builds the next value by the statistic of the sample, as
// PyTorch's variance is, where the output is by that of the batch; nil where they are one.
type Running struct {
	In, Out int
	Sample  func(b *Builder, n *Node) *Value
}

// Whole says of all numbers of a value that they are whole and in [Lo, Hi], and
// that no zero among them is negative.
type Whole struct {
	Lo, Hi int64
	Why    string
}

// Class is the planner's licence to run a node again.
type Class uint8

// The recompute classes.
const (
	Never Class = iota // updates and whatever has effects
	Heavy              // matrix products, convolutions: possible but dear
	Cheap              // bandwidth-bound: normally worth repeating
)

// String is the class as ops prints it.
func (c Class) String() string { return [...]string{"never", "heavy", "cheap"}[c] }

// Role names what another stage needs an operator for.
type Role uint8

// The roles.
const (
	RoleNone          Role = iota
	RoleSum                // any number of values of one type and shape → their sum
	RoleAccumulate         // (sum so far, gradient, micro-batch index) → new sum, in place
	RoleClip               // (max norm, gradients…) → factor ≤ 1 for all of them
	RoleCount              // (step, scale?) → step + 1, in place; step if the scale is negative
	RoleScale              // (value, factor) → product with a scalar
	RoleLossSeed           // (loss scale) → the loss's gradient by itself, of attributes to and rank
	RoleUnscale            // (loss scale, factor?, gradients…) → factor ≥ 0 that takes the scale off, or −1: no update
	RoleNextLossScale      // (loss scale, good updates, factor) → both for the next update, in place
	RoleBranch             // (condition, value, value) → the first where it holds, else the second
	RoleStack              // values of one type and shape → all of them along a new first dim
	RoleElement            // (value, place) → what is there along dim 0, or attribute axis
	RoleBorder             // (results…) → the gradients that the user gives for those without a mark; see Op.Border
	RoleChain              // (what the steps read…) → those of their values that results names; see Chain
	RoleCast               // (value) → the value in the type that attribute to names
	RolePackFloat8         // (value) → the value in 8 bits, and a power of two for each block of them
	RoleUnpackFloat8       // (both of those) → the value in the type that attribute to names
)

// Pieces is what an operator computes in pieces, and again for the backward pass. Such
// operators stand for others only in forms of a step that settings or the planner
// choose: package planner/forms has a row for each kind.
type Pieces uint8

// The kinds of pieces.
const (
	NoPieces         Pieces = iota
	LossInChunks            // a loss and the product under it, some rows at a time; the bits are those of the operators
	AttentionInRows         // attention, some queries at a time; the bits are those of the operators
	AttentionInTiles        // attention, some queries and some keys at a time, which rounds otherwise
)

// Port is one input or output.
type Port struct {
	Name     string
	Optional bool
	Variadic bool
}

// AttrKind is the type of an attribute.
type AttrKind uint8

// The attribute kinds, with ONNX's numbers.
const (
	AttrFloat   AttrKind = 1
	AttrInt     AttrKind = 2
	AttrString  AttrKind = 3
	AttrTensor  AttrKind = 4
	AttrFloats  AttrKind = 6
	AttrInts    AttrKind = 7
	AttrStrings AttrKind = 8
)

var attrKinds = map[string]AttrKind{
	"float": AttrFloat, "int": AttrInt, "string": AttrString, "tensor": AttrTensor,
	"floats": AttrFloats, "ints": AttrInts, "strings": AttrStrings,
}

// AttrSpec declares an attribute; Default nil means it may be absent.
type AttrSpec struct {
	Name    string
	Kind    AttrKind
	Default any
}

// Attr is a set attribute. Value is int64, float64, string, *Tensor, or a
// slice of the first three.
type Attr struct {
	Name  string
	Value any
}

// A is attributes as rules write them; int and float32 are taken too.
type A map[string]any

// Ports returns the declared inputs and outputs.
func (op *Op) Ports() (in, out []Port) { return op.in, op.out }

// AttrSpecs returns the declared attributes.
func (op *Op) AttrSpecs() []AttrSpec { return op.attrs }

// FullName is the name with the domain in front, if there is one.
func (op *Op) FullName() string { return fullName(op.Domain, op.Name) }

func fullName(domain, name string) string {
	if domain == "" {
		return name
	}
	return domain + "." + name
}

// spec finds a declared attribute.
func (op *Op) spec(name string) *AttrSpec {
	for i := range op.attrs {
		if op.attrs[i].Name == name {
			return &op.attrs[i]
		}
	}
	return nil
}

// Library is the set of operators that a graph may use.
type Library struct {
	ops        map[opKey][]*Op // newest form first
	roles      map[Role]*Op
	optimizers map[string]*Op
}

type opKey struct{ domain, name string }

// Define adds an operator. A malformed declaration is our own mistake and
// panics.
func (lib *Library) Define(op Op) *Op {
	o := &op
	o.in, o.out = parsePorts(o, o.In), parsePorts(o, o.Out)
	o.attrs = parseAttrSpecs(o)
	if lib.ops == nil {
		lib.ops, lib.roles, lib.optimizers = map[opKey][]*Op{}, map[Role]*Op{}, map[string]*Op{}
	}
	k := opKey{o.Domain, o.Name}
	for _, other := range lib.ops[k] {
		if other.Since == o.Since {
			panic(fmt.Sprintf("graph: operator %s since %d defined twice", o.FullName(), o.Since))
		}
	}
	lib.ops[k] = append(lib.ops[k], o)
	slices.SortFunc(lib.ops[k], func(a, b *Op) int { return b.Since - a.Since })
	if o.Role != RoleNone {
		lib.roles[o.Role] = o
	}
	if o.Optimizer != "" {
		lib.optimizers[o.Optimizer] = o
	}
	return o
}

// With is the library with other definitions of some of its forms.
func (lib *Library) With(forms ...Op) *Library {
	other := &Library{maps.Clone(lib.ops), maps.Clone(lib.roles), maps.Clone(lib.optimizers)}
	for _, form := range forms {
		k := opKey{form.Domain, form.Name}
		other.ops[k] = slices.DeleteFunc(slices.Clone(other.ops[k]), func(o *Op) bool { return o.Since == form.Since })
		other.Define(form)
	}
	return other
}

// Find returns the form of an operator that holds in an opset, or nil.
// Opset 0 asks for the newest.
func (lib *Library) Find(domain, name string, opset int) *Op {
	if domain == "ai.onnx" {
		domain = ""
	}
	for _, op := range lib.ops[opKey{domain, name}] {
		if opset == 0 || op.Since <= opset {
			return op
		}
	}
	return nil
}

// Role returns the operator with a role.
func (lib *Library) Role(r Role) *Op { return lib.roles[r] }

// Optimizer returns the update rule of that name, or nil.
func (lib *Library) Optimizer(name string) *Op { return lib.optimizers[name] }

// Optimizers lists the update rules by name.
func (lib *Library) Optimizers() []string {
	var names []string
	for n := range lib.optimizers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// All lists the operators by domain, name and falling Since.
func (lib *Library) All() []*Op {
	var all []*Op
	for _, forms := range lib.ops {
		all = append(all, forms...)
	}
	slices.SortFunc(all, func(a, b *Op) int {
		if c := strings.Compare(a.Domain, b.Domain); c != 0 {
			return c
		}
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return b.Since - a.Since
	})
	return all
}

func parsePorts(op *Op, s string) []Port {
	var ps []Port
	for f := range strings.SplitSeq(s, ",") {
		f = strings.TrimSpace(f)
		if f == "" {
			continue
		}
		p := Port{Name: f}
		if n, ok := strings.CutSuffix(p.Name, "?"); ok {
			p.Name, p.Optional = n, true
		}
		if n, ok := strings.CutSuffix(p.Name, "..."); ok {
			p.Name, p.Variadic = n, true
		}
		if !isIdent(p.Name) || len(ps) > 0 && ps[len(ps)-1].Variadic {
			panic(fmt.Sprintf("graph: operator %s: bad ports %q", op.Name, s))
		}
		ps = append(ps, p)
	}
	return ps
}

func parseAttrSpecs(op *Op) []AttrSpec {
	var specs []AttrSpec
	for f := range strings.SplitSeq(op.Attrs, ",") {
		f = strings.TrimSpace(f)
		if f == "" {
			continue
		}
		decl, def, hasDef := strings.Cut(f, "=")
		name, kindName, _ := strings.Cut(strings.TrimSpace(decl), " ")
		kind, ok := attrKinds[strings.TrimSpace(kindName)]
		if !ok {
			panic(fmt.Sprintf("graph: operator %s: bad attribute %q", op.Name, f))
		}
		spec := AttrSpec{Name: name, Kind: kind}
		if hasDef {
			var err error
			switch kind {
			case AttrInt:
				spec.Default, err = strconv.ParseInt(def, 10, 64)
			case AttrFloat:
				spec.Default, err = strconv.ParseFloat(def, 64)
			case AttrString:
				spec.Default = def
			default:
				err = fmt.Errorf("no default for lists")
			}
			if err != nil {
				panic(fmt.Sprintf("graph: operator %s: bad attribute %q: %v", op.Name, f, err))
			}
		}
		specs = append(specs, spec)
	}
	return specs
}

// kindOf is the kind of an attribute's value.
func kindOf(v any) AttrKind {
	switch v.(type) {
	case float64:
		return AttrFloat
	case int64:
		return AttrInt
	case string:
		return AttrString
	case *Tensor:
		return AttrTensor
	case []float64:
		return AttrFloats
	case []int64:
		return AttrInts
	case []string:
		return AttrStrings
	}
	return 0
}

func (k AttrKind) String() string {
	for name, kind := range attrKinds {
		if kind == k {
			return name
		}
	}
	return "attribute"
}

// list turns attributes as written by a rule into sorted ones.
func (a A) list() []Attr {
	if len(a) == 0 {
		return nil
	}
	out := make([]Attr, 0, len(a))
	for name, v := range a {
		switch x := v.(type) {
		case int:
			v = int64(x)
		case float32:
			v = float64(x)
		case bool:
			v = int64(0)
			if x {
				v = int64(1)
			}
		}
		if kindOf(v) == 0 {
			panic(fmt.Sprintf("graph: attribute %s has type %T", name, v))
		}
		out = append(out, Attr{name, v})
	}
	slices.SortFunc(out, func(a, b Attr) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Call is one run of an operator on tensors. Outputs have their shapes and
// bytes; Eval fills them.
type Call struct {
	Node    *Node
	In, Out []*Tensor // nil where omitted
	Scratch []byte
	// Parallel runs f over [0, n) in ranges. How the ranges fall may differ
	// from machine to machine, so f must compute each item by itself.
	Parallel func(n, grain int, f func(lo, hi int))
	// Seed and Step key the counter of random operators.
	Seed, Step uint64
}
