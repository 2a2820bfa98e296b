package graph

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Op describes an operator. Packages outside the operator library never look for an operator's
// name; they use these fields.
type Op struct {
	Name   string
	Domain string // "" is ONNX's own
	Since  int    // first opset of Domain with this form; 0 means any
	Doc    string // one line: what is computed

	// In and Out name the ports: "X, W, B?" has an optional last one,
	// "data..." takes any number. Attrs declares attributes with kind and
	// default: "axis int=-1, perm ints, mode string=constant".
	In, Out, Attrs string

	// Infer sets the types and shapes of all outputs, and the contents of integer outputs
	// that are small enough to be shapes. It reports errors by Node.Fail.
	Infer func(n *Node)
	// Rewrite, if set, replaces the node: the operator is defined by others, like older
	// forms of an operator and sequence operators.
	Rewrite func(b *Builder, n *Node) []*Value
	// Ragged replaces a node with Ragged inputs or outputs, whose number of rows (along dim
	// 0) is only known when the step runs. It returns nil for a node without such rows.
	Ragged func(b *Builder, n *Node) []*Value
	// Grad builds the gradients of the inputs from those of the outputs. nil, in dy and in
	// the result, is no gradient.
	Grad func(b *Builder, n *Node, dy []*Value) []*Value
	// NoGrad says that no gradient flows through the node, for a reason other
	// than element types: Shape, comparisons, ArgMax.
	NoGrad bool
	// OwnGrad says that the gradient is not that of a copy although output 0 is input 0, so Clean keeps the node.
	OwnGrad bool
	// Fixed lists differentiable inputs for which Grad has no gradient, such as class
	// weights or tables of angles. Steps that need it are refused.
	Fixed []int
	// Known lists inputs whose contents must be known before the step runs: shapes, axes, scales. A stored float
	// that such an input depends on is a constant, whatever its name.
	Known []int

	// NoOp reports whether output 0 equals input 0 bit for bit. It is called only if type and
	// shape agree, and not for Views, which then are always no-ops.
	NoOp func(n *Node) bool
	// Simplify returns cheaper replacements of the outputs with the same bits, or nil: for
	// pairs of casts, or views of views.
	Simplify func(b *Builder, n *Node) []*Value
	// Unfold replaces the node by several, or returns nil. It is for nodes with an internal
	// value that is cheaper to keep for the backward pass than the inputs.
	Unfold func(b *Builder, n *Node) []*Value
	// Fuse matches a pattern that this operator can replace and whose last node is m.Node.
	// It returns the replacements of that node's outputs, or nil; see Match.
	Fuse func(m *Match) []*Value

	// Shrink lists inputs of a node of the backward pass that it can replace by a smaller
	// extract, with the same bits; see Smaller.
	Shrink func(n *Node) []Smaller
	// Whole returns the range of an output's numbers if they are integers, from what is known
	// of the inputs. Index returns the range of an input's: the node fails for other numbers.
	// nil, or false, is no information.
	Whole func(n *Node, output int, of func(v *Value) (Whole, bool)) (w Whole, known bool)
	Index func(n *Node, input int) (w Whole, known bool)

	// Eval is the reference implementation. Fast is the CPU device's; it must agree with
	// Eval and must not depend on the number of workers.
	Eval, Fast func(c *Call)
	// Scratch is the bytes of workspace that Fast needs.
	Scratch func(n *Node) Dim
	// Lower lowers the node to kernels of a device; see Lowering. nil: the node runs on the
	// CPU.
	Lower func(l *Lowering)

	// Flops is the work of one run; the bytes moved follow from the shapes.
	Flops func(n *Node) Dim
	// Reads is how many elements of an input a run reads; nil: all. A lookup reads the
	// selected rows, not the table.
	Reads func(n *Node, input int) Dim
	// Inside is the bytes that a run writes and reads again in its own work space, beside its inputs and outputs.
	Inside func(n *Node) Dim
	// StepByStep: the nodes of a node's Body run one after another, each as a kernel of its own, so that their times add up.
	StepByStep bool
	// Kernel is the class of kernel, where other facets do not tell it: see Class. Calls is how
	// many launches one run of a node is; nil: one.
	Kernel KernelClass
	Calls  func(n *Node) int64
	// Recompute says whether the planner may run the node again, and at what cost.
	Recompute Class
	// InPlace lists inputs that output 0 may overwrite if their sizes agree and nobody reads
	// them later.
	InPlace []int
	// Pointwise: there is one output, each element of which depends on one element of each
	// input, after broadcasting. Such nodes can be fused; see Chain.
	Pointwise bool
	// Elementwise is Pointwise for operators on any types, which need not be fusible.
	// Pointwise operators are elementwise.
	Elementwise bool
	// View: output 0 is input 0 under another shape; nothing runs.
	View bool
	// Overwrites is, for each output, the input that it overwrites: an updated parameter has
	// the address of the parameter. nil for most operators.
	Overwrites []int
	// Streams: an element of an output depends on the same element of inputs of its shape alone, and on scalars, so that an
	// update can be run a piece at a time.
	Streams bool
	// Running lists the inputs that are running statistics.
	Running []Running
	// Random: the node draws random numbers, from the counter (seed, step, node, element).
	Random bool
	// Border: the forward pass consists of this node and the nodes that it depends on; the
	// rest is the backward pass. A graph has at most one such node.
	Border bool

	// Pieces says that the operator computes a large intermediate value in pieces, so that it
	// never exists as a whole.
	Pieces Pieces
	// Tiles is in how many tiles a node of a form in tiles is computed.
	Tiles func(n *Node) Dim
	// UsesRunning reports whether a node normalizes with its running statistics, as in
	// evaluation; nil: no node does.
	UsesRunning func(n *Node) bool

	// Role marks operators that other stages build with.
	Role Role
	// Optimizer is the user-visible name of an update rule. Its inputs are param, grad, lr,
	// scale, step, then one state per slot; its outputs the new param and the new states. A
	// negative scale leaves everything unchanged.
	Optimizer string

	// OnlyCUDA: ONNX Runtime has the operator for CUDA but not for the CPU.
	OnlyCUDA bool

	// Samples are for the conformance test; package kernels documents their form.
	Samples []string
	// Tests is further information for tests.
	Tests Tests

	in, out []Port
	attrs   []AttrSpec
}

// Tests is information that only tests read.
type Tests struct {
	// Work counts the operations of a run by iterating over tensors' elements, independently
	// of Flops. It checks which elements are counted, which is easily wrong: a reduction's
	// work depends on what it reads, a broadcast's on what it writes.
	Work func(n *Node, in []*Tensor) int64
	// NoScalars: the operator needs an axis and has no input that could broadcast, so no
	// sample has scalars.
	NoScalars bool
	// Places: input 1 has indices at which elements are read or written. Some sample has a
	// duplicate index.
	Places Places
	// NotPointwise says why an operator is not Pointwise although its kernels are.
	NotPointwise string
	// Large are samples for what small operands do not exercise, such as packed operands
	// and split reductions.
	Large []string
	// Pieces are samples with operands of more than 4 KiB, to test devices whose binding
	// range is limited to that.
	Pieces []string
}

// Places is the form of indices.
type Places uint8

// The forms of indices.
const (
	NoPlaces    Places = iota
	PlaceEach          // each integer is an index
	PlaceTuples        // each row of the last dim is an index
)

// Smaller is a variant of a node that reads an extract of an input, so that the input need not
// be kept: the signs of an activation for its gradient, the argmax of a pooling's windows.
// Keep and Read build nodes.
type Smaller struct {
	Input int
	// Keep makes the extract from x, the input.
	Keep func(b *Builder, x *Value) *Value
	// Read builds the replacements of the node's outputs. in is the node's inputs in b's
	// graph, with in[Input] nil.
	Read func(b *Builder, in []*Value, kept *Value) []*Value
}

// Running is an input that is a running statistic, and the output with its next value in
// training. Sample builds the next value with the unbiased variance, as PyTorch does, if the
// output uses the biased one; nil if they agree.
type Running struct {
	In, Out int
	Sample  func(b *Builder, n *Node) *Value
}

// Whole says that all numbers of a value are integers in [Lo, Hi] and not negative zeros.
type Whole struct {
	Lo, Hi int64
	Why    string
}

// Class says whether the planner may recompute a node.
type Class uint8

// The recompute classes.
const (
	Never Class = iota // updates and other side effects
	Heavy              // expensive: matrix products, convolutions
	Cheap              // bandwidth-bound: usually worth recomputing
)

// String is the class as ops prints it.
func (c Class) String() string { return [...]string{"never", "heavy", "cheap"}[c] }

// Role is what other stages need an operator for.
type Role uint8

// The roles.
const (
	RoleNone          Role = iota
	RoleSum                // any number of values of one type and shape → their sum
	RoleAccumulate         // (sum so far, gradient, micro-batch index) → new sum, in place
	RoleClip               // (max norm, gradients…) → factor ≤ 1 for all of them
	RoleCount              // (step, scale?) → step + 1, in place; step if the scale is negative
	RoleScale              // (value, factor) → product with a scalar
	RoleLossSeed           // (loss scale) → the initial gradient, with type and rank by attributes to and rank
	RoleUnscale            // (loss scale, factor?, gradients…) → factor ≥ 0 that undoes the scale, or −1 to skip the update
	RoleNextLossScale      // (loss scale, good updates, factor) → both for the next update, in place
	RoleBranch             // (condition, value, value) → the first value if true, else the second
	RoleStack              // values of one type and shape → their concatenation along a new dim, attribute axis; of length 0 with attribute none
	RoleElement            // (value, index) → the element along dim 0, or attribute axis
	RoleBorder             // (results…) → the gradients that the user gives for those without a mark; see Op.Border
	RoleChain              // (inputs of the steps…) → the values named by attribute results; see Chain
	RoleCast               // (value) → the value in the type of attribute to
	RolePackFloat8         // (value) → 8-bit floats, and a power of two per block
	RoleUnpackFloat8       // (both of those) → the value in the type of attribute to
)

// Pieces is what an operator computes in pieces, which it recomputes in the backward pass. Such
// operators replace others only in forms of a step that settings or the planner choose: package
// planner/forms has a row for each kind.
type Pieces uint8

// The kinds of pieces.
const (
	NoPieces          Pieces = iota
	LossInChunks             // a loss and the matrix product before it, in blocks of rows; same bits
	AttentionInRows          // attention in blocks of queries; same bits
	AttentionInTiles         // attention in blocks of queries and keys; rounds differently
	FeedForwardInRows        // products and pointwise operators on rows, in blocks of rows; same bits
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

// A is attributes as rules write them; values may also be int and float32.
type A map[string]any

// Ports returns the declared inputs and outputs.
func (op *Op) Ports() (in, out []Port) { return op.in, op.out }

// AttrSpecs returns the declared attributes.
func (op *Op) AttrSpecs() []AttrSpec { return op.attrs }

// FullName is the name, prefixed by the domain if there is one.
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

// Define adds an operator. It panics on a malformed declaration, which is a bug.
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

// With is the library with some forms redefined.
func (lib *Library) With(forms ...Op) *Library {
	other := &Library{maps.Clone(lib.ops), maps.Clone(lib.roles), maps.Clone(lib.optimizers)}
	for _, form := range forms {
		k := opKey{form.Domain, form.Name}
		other.ops[k] = slices.DeleteFunc(slices.Clone(other.ops[k]), func(o *Op) bool { return o.Since == form.Since })
		other.Define(form)
	}
	return other
}

// Find returns an operator's form in an opset, or nil. Opset 0 is the newest.
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

// All lists the operators by domain, name and descending Since.
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

// list converts and sorts a rule's attributes.
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

// Call is one run of an operator on tensors. Outputs are allocated; Eval fills them.
type Call struct {
	Node    *Node
	In, Out []*Tensor // nil where omitted
	Scratch []byte
	// Parallel runs f over [0, n) in ranges, which differ between machines, so f must compute
	// each item independently.
	Parallel func(n, grain int, f func(lo, hi int))
	// Seed and Step are part of the counter of random operators.
	Seed, Step uint64
}
