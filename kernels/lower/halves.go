package lower

import (
	"slices"
	"sync"

	"memopt/internal/graph"
	"memopt/kernels/internal/spirv"
)

// 16-bit floats on Vulkan are storage only; arithmetic is float32. Neither operators nor
// shaders handle them: an operator is lowered as if its 16-bit operands were float32, then
// each dispatch switches to the half form of its kernel. In that form float buffers are
// arrays of 32-bit words, which hold a float32 or two 16-bit floats each, as a
// specialization constant says for each binding, so the device needs no 16-bit storage.
// Operands of kernels without a half form are converted to float32 in work space.

// halfForm is the form of a kernel for 16-bit floats.
type halfForm struct {
	kernel *graph.Kernel
	floats func() map[int]bool // the bindings that are buffers of floats
}

var halfForms = map[*graph.Kernel]*halfForm{}

// Halved gives a kernel a half form. The kernel must not accumulate in a buffer: sums would
// be rounded after every term.
func Halved(k *graph.Kernel) *graph.Kernel {
	src := sourceOf(k)
	form := src.form("-half", func(text string) string { return spirv.Halves(text, src.Args) })
	halfForms[k] = &halfForm{form, sync.OnceValue(func() map[int]bool {
		text, err := sources.ReadFile(src.File)
		if err != nil {
			panic(err)
		}
		return spirv.FloatBindings(string(text), src.Args)
	})}
	return k
}

// halvedAs gives kernel k the half form of another kernel.
func halvedAs(k, other *graph.Kernel) *graph.Kernel {
	halfForms[k] = halfForms[other]
	return k
}

// halfFormOf is a kernel's half form, for an addressed kernel that of the kernel with
// descriptors; nil if there is none.
func halfFormOf(k *graph.Kernel) *halfForm {
	if k.Bound != nil {
		k = k.Bound
	}
	return halfForms[k]
}

var halfKinds = map[graph.DType]uint32{graph.Float16: 1, graph.BFloat16: 2}

func holdsHalves(o *graph.Operand) bool { return o != nil && halfKinds[o.Type] != 0 }

// WithHalves makes a Lower for float32 accept 16-bit floats, too. overwrites is the
// operator's.
func WithHalves(lower func(*graph.Lowering), overwrites []int) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		lower(l) // some operators only move bits
		if l.Refused == "" || !slices.ContainsFunc(slices.Concat(l.In, l.Out), holdsHalves) {
			return
		}
		f := l.With(asFloats(l.In), asFloats(l.Out))
		if lower(f); f.Refused == "" {
			l.Refused = ""
			(&halves{l: l, f: f, overwrites: overwrites}).convert()
			if l.Limits != graph.PlanLimits && l.Scratch > planScratch(l) {
				l.Refuse("run in pieces, its sums need work space that the plan does not reserve")
			}
		}
	}
}

// planScratch is the work space that a plan reserves for a node.
func planScratch(l *graph.Lowering) int64 {
	p := l.With(l.In, l.Out)
	p.Limits = graph.PlanLimits
	l.Node.Op.Lower(p)
	return p.Scratch
}

func asFloats(os []*graph.Operand) []*graph.Operand {
	os = slices.Clone(os)
	for i, o := range os {
		if holdsHalves(o) {
			os[i] = &graph.Operand{Type: graph.Float32, Shape: o.Shape}
		}
	}
	return os
}

// OfHalves reports whether WithHalves shows 16-bit inputs of a lowering as float32.
func OfHalves(l *graph.Lowering) bool {
	for i, o := range l.In {
		if o != nil && l.Node.In(i).Type != o.Type {
			return true
		}
	}
	return false
}

// halves converts the dispatches of f, which sees float32, into those of l.
type halves struct {
	l, f       *graph.Lowering
	overwrites []int
}

// operandKey identifies an operand; an output that overwrites an input has the input's key.
type operandKey struct {
	out   bool
	index int
}

// operand is the operand that a buffer belongs to; nil for work space.
func (h *halves) operand(b graph.Buffer) (operandKey, *graph.Operand) {
	key := operandKey{b.Place == graph.PlaceOut, b.Index}
	if key.out && h.overwrites != nil {
		key = operandKey{false, h.overwrites[b.Index]}
	}
	return key, BoundOperand(h.l, b)
}

func (h *halves) convert() {
	l, f := h.l, h.f
	// An operand goes through work space if some kernel does not access it as floats, or reads
	// an output back, which would have been rounded.
	through := map[operandKey]bool{}
	h.each(func(d *graph.Dispatch, i int, b graph.Buffer, key operandKey) {
		form := halfFormOf(d.Kernel)
		if form == nil || !form.floats()[i] || b.At%8 != 0 || key.out && !b.Writes {
			through[key] = true
		}
	})
	l.Scratch = f.Scratch
	at := map[operandKey]graph.Buffer{}
	place := func(key operandKey, o *graph.Operand) {
		if _, placed := at[key]; through[key] && !placed {
			l.Scratch = Aligned(l.Scratch)
			at[key] = Scratch(l.Scratch, int64(4*o.Len()), true)
			l.Scratch += int64(4 * o.Len())
		}
	}
	var before, after []graph.Dispatch
	for i, o := range l.In {
		if key := (operandKey{false, i}); holdsHalves(o) && through[key] && o.Len() > 0 {
			place(key, o)
			before = append(before, h.cast(o, at[key], Reads(i), true)...)
		}
	}
	for i, o := range l.Out {
		if key, _ := h.operand(Writes(i)); holdsHalves(o) && through[key] && o.Len() > 0 {
			place(key, o)
			after = append(after, h.cast(o, at[key], Writes(i), false)...)
		}
	}
	h.each(func(d *graph.Dispatch, i int, b graph.Buffer, key operandKey) {
		if s, ok := at[key]; ok {
			s.At, s.Writes = s.At+b.At, b.Writes
			if s.Bytes -= b.At; b.Bytes > 0 {
				s.Bytes = b.Bytes
			}
			d.Buffers[i] = s
			return
		}
		_, o := h.operand(b)
		*d = halfDispatch(*d, i, o)
	})
	for i := range f.Dispatches {
		for k, b := range f.Dispatches[i].Buffers {
			if b.Place == graph.PlaceScratch && b.Bytes == 0 {
				f.Dispatches[i].Buffers[k].Bytes = f.Scratch - b.At
			}
		}
	}
	l.Dispatches = slices.Concat(before, f.Dispatches, after)
}

// each calls see for every buffer that is a 16-bit operand. It clones the lists of buffers,
// which dispatches may share.
func (h *halves) each(see func(d *graph.Dispatch, i int, b graph.Buffer, key operandKey)) {
	for k := range h.f.Dispatches {
		d := &h.f.Dispatches[k]
		d.Buffers = slices.Clone(d.Buffers)
		for i, b := range d.Buffers {
			if key, o := h.operand(b); holdsHalves(o) {
				see(d, i, b, key)
			}
		}
	}
}

// halfDispatch makes binding i of a dispatch 16-bit floats.
func halfDispatch(d graph.Dispatch, i int, o *graph.Operand) graph.Dispatch {
	if form := halfFormOf(d.Kernel); form != nil {
		d.Kernel = form.kernel
		d.Spec = append(slices.Clone(d.Spec), make([]uint32, spirv.TypesConstant+1-len(d.Spec))...)
	}
	d.Spec[spirv.TypesConstant] |= halfKinds[o.Type] << (2 * i)
	b := &d.Buffers[i]
	if b.Bytes == 0 {
		b.Bytes = int64(4*o.Len()) - b.At
	}
	b.At, b.Bytes = b.At/2, WholeWords(b.Bytes/2)
	return d
}

// cast converts between a 16-bit operand and float32 in work space.
func (h *halves) cast(o *graph.Operand, floats, operand graph.Buffer, widen bool) []graph.Dispatch {
	f := &graph.Operand{Type: graph.Float32, Shape: []int{o.Len()}}
	to, from := operand, floats
	if widen {
		to, from = floats, operand
	}
	to.Writes, from.Writes = true, false
	s := h.l.With(nil, nil)
	CastForm.Append(s, "a", f, []*graph.Operand{f}, []graph.Buffer{to, from})
	for k, d := range s.Dispatches {
		for i := range d.Buffers {
			if (i == 0) != widen {
				d = halfDispatch(d, i, o)
			}
		}
		s.Dispatches[k] = d
	}
	return s.Dispatches
}

// CastForm copies floats; with half forms of its operands it converts them.
var CastForm = FormOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)

func init() { CastForm.Exprs = append(CastForm.Exprs, "a") }
