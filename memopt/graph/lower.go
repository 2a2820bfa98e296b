package graph

import (
	"fmt"
	"math"
	"slices"
)

// Lowering is one node on the way to a device that runs kernels: shapes are
// numbers, and the operator's Lower appends dispatches, as data. A device
// binds each buffer to the bytes that the plan gives its value, and keeps
// the dispatches in order where one reads what another writes.
//
// A dispatch computes each element in one fixed order and writes no byte
// twice, so a recomputed value has the same bits as the first.
type Lowering struct {
	Node    *Node
	In, Out []*Operand // nil where omitted
	Limits  Limits

	Dispatches []Dispatch
	// Scratch is the bytes of work space that the dispatches share. It must
	// not depend on Limits: a plan holds on every device.
	Scratch int64
	// Refused says why the node has no kernels, if it has none: its element
	// types, or a form that is too rare.
	Refused string

	binding *Binding
}

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

// Limits are what a lowering may ask of the device.
type Limits struct {
	Subgroup  int    // lanes that run together: 8 and more
	Range     int64  // bytes that a kernel sees of one buffer
	Groups    [3]int // of one dispatch
	Int64     bool   // 64-bit integers
	Int8      bool   // bytes in buffers
	Shared    bool   // groups have memory of their own that is worth a barrier
	Addressed bool   // kernels may find buffers by addresses
	Far       bool   // and those that must see more than Range of one do
	// Matrix is the rows, columns and terms of what a subgroup multiplies at once of
	// float16, summed in float32; zeros if it is not to.
	Matrix [3]int
}

// PlanLimits are what a plan is made with: nothing is refused for a device's
// sake, so the work space that a plan has is enough for all.
var PlanLimits = Limits{Subgroup: 8, Range: math.MaxInt64, Groups: [3]int{math.MaxInt32, math.MaxInt32, math.MaxInt32}, Int64: true, Int8: true}

// Kernel is a compute shader: SPIR-V for Vulkan 1.2, with storage buffers at
// bindings 0, 1, … of set 0, and push constants.
type Kernel struct {
	Name string
	Code []byte
	// Bound, if it is not nil, is the form of the kernel that has bindings. This one has
	// none: the addresses of its buffers, of two words each, stand behind its push
	// constants.
	Bound *Kernel
	// Joined, if it is not nil, does at once what several dispatches of the kernel do
	// that agree in all but their first push constant, their groups, which are in
	// line, and where their buffers are. Its first push constant is their number, and
	// it has one more buffer, with a row for each: how many groups those before have,
	// the first push constant, and by binding how many words its buffer begins behind
	// what is bound for all.
	Joined *Kernel
}

// AddressedPush is the most bytes of push constants, with its addresses, that a kernel
// has which is picked for Limits.Addressed.
const AddressedPush = 4*32 + 8*5

// Dispatch is one run of a kernel.
type Dispatch struct {
	Kernel  *Kernel
	Spec    []uint32 // specialisation constants 0, 1, …
	Push    []uint32 // push constants; 32 words at most
	Buffers []Buffer // by binding
	Groups  [3]int
}

// Place says whose bytes a buffer is.
type Place uint8

// The places. Run is 16 bytes that the device sets before each run: seed and
// step, low words first. None is for a binding that a dispatch has no use for;
// Writes says whether the shader declares that it might write there.
const (
	PlaceIn Place = iota
	PlaceOut
	PlaceScratch
	PlaceRun
	PlaceNone
)

// RunBytes is the size of PlaceRun.
const RunBytes = 16

// Buffer is a range of an operand's or the scratch's bytes. Bytes 0 means all
// that follows At.
type Buffer struct {
	Place     Place
	Index     int // of In or Out
	At, Bytes int64
	Writes    bool
}

// Seen is how many bytes of its buffer b a dispatch sees.
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

// TooFar finds a buffer of which a dispatch would see more than the device shows; −1
// is none.
func (l *Lowering) TooFar(d Dispatch) int {
	if d.Kernel.Bound != nil {
		return -1
	}
	return slices.IndexFunc(d.Buffers, func(b Buffer) bool { return l.Seen(b) > l.Limits.Range })
}

// Refuse says why there are no kernels for the node.
func (l *Lowering) Refuse(format string, args ...any) {
	if l.Refused == "" {
		l.Refused = fmt.Sprintf(format, args...)
	}
	l.Dispatches = nil
}

// Ints is the contents of an input that is known while planning.
func (l *Lowering) Ints(i int) ([]int64, bool) { return l.contents(l.Node.In(i)) }

// OutInts is the contents of an output that is known while planning.
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

// With is a lowering of the same node whose operands are seen as others: of
// another element type, say. Its dispatches and scratch are its own.
func (l *Lowering) With(in, out []*Operand) *Lowering {
	return &Lowering{Node: l.Node, In: in, Out: out, Limits: l.Limits, binding: l.binding}
}

// Lower gives a node's dispatches; shapes are its values' under b. It says why
// there are none in Refused.
func Lower(n *Node, b *Binding, limits Limits) (*Lowering, error) {
	l := &Lowering{Node: n, Limits: limits, binding: b}
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
