package graph

import (
	"fmt"
	"math"
	"slices"
)

// Lowering translates one node to kernel dispatches for a device. Shapes are numbers, and
// the operator's Lower appends the dispatches. A device binds each buffer to the bytes that
// the plan gives its value, and orders dispatches that depend on each other.
//
// A dispatch computes each element in one fixed order and writes no byte twice, so that
// recomputed values have the same bits.
type Lowering struct {
	Node    *Node
	In, Out []*Operand // nil where omitted
	Limits  Limits

	Dispatches []Dispatch
	// Scratch is the bytes of workspace that the dispatches share. It must not depend on
	// Limits, as a plan is valid for every device.
	Scratch int64
	// Refused says why the node has no kernels, for example its element types; "" if it has.
	Refused string

	binding *Binding
	picks   *[]Pick
}

// Pick is a choice between variants of a kernel that sum in the same order, so that all have
// the same bits. Class is the kernel's and the size's, and Variants are those worth trying,
// the one that a model of the device expects to be fastest first.
type Pick struct {
	Class    string
	Variants []string
}

// Picker decides picks: it returns one of the variants.
type Picker struct {
	Pick func(Pick) string
	All  bool // also variants that are expected to be slow, for tests
}

// Pick decides between variants: by Limits.Picker, or the first one.
func (l *Lowering) Pick(class string, variants ...string) string {
	p := Pick{class, variants}
	if !slices.ContainsFunc(*l.picks, func(x Pick) bool { return x.Class == class }) {
		*l.picks = append(*l.picks, p)
	}
	if l.Limits.Picker != nil {
		if v := l.Limits.Picker.Pick(p); slices.Contains(variants, v) {
			return v
		}
	}
	return variants[0]
}

// Picks are the choices that were made, each class once.
func (l *Lowering) Picks() []Pick { return *l.picks }

// Operand is an input or output of a lowering.
type Operand struct {
	Type  DType
	Shape []int
}

// Len is the number of elements.
func (o *Operand) Len() int {
	n := 1
	for _, d := range o.Shape {
		n *= d
	}
	return n
}

// Limits are a device's limits and features.
type Limits struct {
	Subgroup  int    // lanes of a subgroup, at least 8
	Range     int64  // bytes of a buffer that a kernel can bind
	Groups    [3]int // workgroups of a dispatch
	Int64     bool   // 64-bit integers
	Int8      bool   // 8-bit storage
	Shared    bool   // shared memory is fast enough to be worth a barrier
	Addressed bool   // kernels may access buffers by address
	Far       bool   // kernels that need more than Range of a buffer use addresses
	// Matrices are the cooperative matrices with float32 accumulators that are to be used.
	Matrices Matrices
	// Invocations and SharedBytes are what a workgroup may have; 0 is no limit.
	Invocations, SharedBytes int
	Picker                   *Picker // decides between variants; nil takes the expected best
}

// Matrices are shapes M, N, K of cooperative matrix products, by the type of the factors; zeros if there are none.
type Matrices struct{ Float16, BFloat16 [3]int }

// Of is the shape for factors of a type; zeros if there is none.
func (m Matrices) Of(t DType) [3]int {
	switch t {
	case Float16:
		return m.Float16
	case BFloat16:
		return m.BFloat16
	}
	return [3]int{}
}

// PlanLimits are the limits for planning. Nothing is refused because of a device, so that a
// plan's workspace is enough for all.
var PlanLimits = Limits{Subgroup: 8, Range: math.MaxInt64, Groups: [3]int{math.MaxInt32, math.MaxInt32, math.MaxInt32}, Int64: true, Int8: true}

// Kernel is a compute shader: SPIR-V for Vulkan 1.2, with storage buffers at
// bindings 0, 1, … of set 0, and push constants.
type Kernel struct {
	Name string
	// Code is the SPIR-V, read when it is first asked for: most programs run few kernels of all there are, or none.
	Code func() []byte
	// Bound, if not nil, is the variant of the kernel with bindings. This one has none:
	// the addresses of its buffers, two words each, follow its push constants.
	Bound *Kernel
	// Joined, if not nil, does several dispatches of the kernel in one. They may differ only
	// in the first push constant, the number of groups (along x only), and the offsets of
	// their buffers. Its first push constant is their number, and it has one more buffer, with
	// a row for each dispatch: the number of groups before it, its first push constant, and by
	// binding its buffer's offset in words from the common binding.
	Joined *Kernel
}

// AddressedPush limits the bytes of push constants, including addresses, of kernels that are
// picked for Limits.Addressed.
const AddressedPush = 4*32 + 8*5

// Dispatch is one run of a kernel.
type Dispatch struct {
	Kernel  *Kernel
	Spec    []uint32 // specialisation constants 0, 1, …
	Push    []uint32 // push constants; 32 words at most
	Buffers []Buffer // by binding
	Groups  [3]int
}

// Place says what memory a buffer is in.
type Place uint8

// The places. Run is 16 bytes that the device sets before each run: seed and
// step, low words first. None is for a binding that a dispatch does not use;
// Writes then says whether the shader declares it as writable.
const (
	PlaceIn Place = iota
	PlaceOut
	PlaceScratch
	PlaceRun
	PlaceNone
)

// RunBytes is the size of PlaceRun.
const RunBytes = 16

// Buffer is a range of the bytes of an operand or of the workspace. Bytes 0 means everything
// from At on.
type Buffer struct {
	Place     Place
	Index     int // of In or Out
	At, Bytes int64
	Writes    bool
}

// Seen is the number of bytes of b.
func (l *Lowering) Seen(b Buffer) int64 {
	if b.Bytes > 0 {
		return b.Bytes
	}
	o := (*Operand)(nil)
	switch b.Place {
	case PlaceIn:
		o = l.In[b.Index]
	case PlaceOut:
		o = l.Out[b.Index]
	case PlaceScratch:
		return l.Scratch - b.At
	}
	if o == nil {
		return RunBytes
	}
	return int64(o.Len())*o.Type.Size() - b.At
}

// TooFar finds a binding that exceeds the device's Range; −1 is none.
func (l *Lowering) TooFar(d Dispatch) int {
	if d.Kernel.Bound != nil {
		return -1
	}
	return slices.IndexFunc(d.Buffers, func(b Buffer) bool { return l.Seen(b) > l.Limits.Range })
}

// Refuse records why there are no kernels for the node and drops its dispatches.
func (l *Lowering) Refuse(format string, args ...any) {
	if l.Refused == "" {
		l.Refused = fmt.Sprintf(format, args...)
	}
	l.Dispatches = nil
}

// Ints is the contents of an input, if they are known before the run.
func (l *Lowering) Ints(i int) ([]int64, bool) { return l.contents(l.Node.In(i)) }

// OutInts is the contents of an output, if they are known before the run.
func (l *Lowering) OutInts(i int) ([]int64, bool) { return l.contents(l.Node.Output(i)) }

func (l *Lowering) contents(v *Value) ([]int64, bool) {
	if v == nil || v.Ints == nil {
		return nil, false
	}
	out := make([]int64, len(v.Ints))
	for k, d := range v.Ints {
		x, err := l.binding.Eval(d)
		if err != nil {
			return nil, false
		}
		out[k] = x
	}
	return out, true
}

// With is a lowering of the same node with other operands, for example of another element
// type. Its dispatches and scratch are its own.
func (l *Lowering) With(in, out []*Operand) *Lowering {
	return l.Step(l.Node, in, out)
}

// Step is a lowering of a node of the node's body. Its dispatches and scratch are its own.
func (l *Lowering) Step(n *Node, in, out []*Operand) *Lowering {
	return &Lowering{Node: n, In: in, Out: out, Limits: l.Limits, binding: l.binding, picks: l.picks}
}

// Lower lowers a node, with shapes evaluated under b. If there are no kernels, Refused says why.
func Lower(n *Node, b *Binding, limits Limits) (*Lowering, error) {
	l := &Lowering{Node: n, Limits: limits, binding: b, picks: new([]Pick)}
	operands := func(vs []*Value) ([]*Operand, error) {
		out := make([]*Operand, len(vs))
		for i, v := range vs {
			if v == nil {
				continue
			}
			shape, err := b.Shape(v.Shape)
			if err != nil {
				return nil, err
			}
			out[i] = &Operand{v.Type, shape}
		}
		return out, nil
	}
	var err error
	if l.In, err = operands(n.Inputs); err != nil {
		return nil, err
	}
	if l.Out, err = operands(n.Outputs); err != nil {
		return nil, err
	}
	if n.Op.Lower == nil {
		l.Refuse("%s has no kernel", n.Op.FullName())
		return l, nil
	}
	if err := Try(func() { n.Op.Lower(l) }); err != nil {
		return nil, err
	}
	if l.Refused != "" {
		l.Dispatches, l.Scratch = nil, 0
	}
	return l, nil
}
