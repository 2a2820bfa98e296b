package kernels

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"memopt/memopt/graph"
)

// 16-bit floats on devices that run kernels: storage only, arithmetic is
// float32. Neither operators nor shaders know of them. An operator is lowered
// as if its 16-bit operands were float32, and then each dispatch is changed to
// its kernel's other form, whose float buffers are words that hold a float32
// or two 16-bit floats each, as a constant says by binding. That asks nothing
// of a device: no 16-bit types in buffers. What a kernel without that form sees
// goes through scratch as float32.

// halfForm is a kernel's form for 16-bit floats.
type halfForm struct {
	kernel *graph.Kernel
	floats func() map[int]bool // the bindings that are buffers of floats
}

var halfForms = map[*graph.Kernel]*halfForm{}

// halved declares the form of a kernel for 16-bit floats. It must not add up
// in a buffer: sums would be rounded at every term.
func halved(k *graph.Kernel) *graph.Kernel {
	src := sourceOf(k)
	form := src.form("-half", func(text string) string { return halfText(text, src.args) })
	halfForms[k] = &halfForm{form, sync.OnceValue(func() map[int]bool {
		text, err := sources.ReadFile(src.file)
		if err != nil {
			panic(err)
		}
		return floatBindings(string(text), src.args)
	})}
	return k
}

// halvedAs declares that another kernel's form does for 16-bit floats, too.
func halvedAs(k, other *graph.Kernel) *graph.Kernel {
	halfForms[k] = halfForms[other]
	return k
}

// halfFormOf is a kernel's form for 16-bit floats, or that of its form with
// bindings; nil if there is none.
func halfFormOf(k *graph.Kernel) *halfForm {
	if k.Bound != nil {
		k = k.Bound
	}
	return halfForms[k]
}

// typesConstant is the number of the constant that has the bindings' kinds, two
// bits each.
const typesConstant = 20

var halfKinds = map[graph.DType]uint32{graph.Float16: 1, graph.BFloat16: 2}

func holdsHalves(o *graph.Operand) bool { return o != nil && halfKinds[o.Type] != 0 }

// withHalves is a Lower that also takes 16-bit floats, where it takes float32.
// overwrites is the operator's.
func withHalves(lower func(*graph.Lowering), overwrites []int) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		lower(l) // some carry any bits
		if l.Refused == "" || !slices.ContainsFunc(slices.Concat(l.In, l.Out), holdsHalves) {
			return
		}
		f := l.With(asFloats(l.In), asFloats(l.Out))
		if lower(f); f.Refused == "" {
			l.Refused = ""
			(&halves{l: l, f: f, overwrites: overwrites}).convert()
			if l.Limits != graph.PlanLimits && l.Scratch > planScratch(l) {
				l.Refuse("in pieces its sums want work space, which plans do not have")
			}
		}
	}
}

// planScratch is the work space that a plan has for a node.
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

// ofHalves says whether a lowering is that of withHalves, which shows 16-bit
// floats as float32. Kernels whose 16-bit form is of another shape ask it.
func ofHalves(l *graph.Lowering) bool {
	for i, o := range l.In {
		if o != nil && l.Node.In(i).Type != o.Type {
			return true
		}
	}
	return false
}

// halves brings the dispatches of f, which sees float32, to a lowering of
// 16-bit floats.
type halves struct {
	l, f       *graph.Lowering
	overwrites []int
}

// operandKey names an operand: what overwrites an input is that input.
type operandKey struct {
	out   bool
	index int
}

// operand is the one that a buffer is of, if it is one.
func (h *halves) operand(b graph.Buffer) (operandKey, *graph.Operand) {
	key := operandKey{b.Place == graph.PlaceOut, b.Index}
	if key.out && h.overwrites != nil {
		key = operandKey{false, h.overwrites[b.Index]}
	}
	return key, boundOperand(h.l, b)
}

func (h *halves) convert() {
	l, f := h.l, h.f
	// An operand goes through scratch if some kernel sees it otherwise than as
	// floats, or comes back to what was rounded.
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
			l.Scratch = aligned(l.Scratch)
			at[key] = scratch(l.Scratch, int64(4*o.Len()), true)
			l.Scratch += int64(4 * o.Len())
		}
	}
	var before, after []graph.Dispatch
	for i, o := range l.In {
		if key := (operandKey{false, i}); holdsHalves(o) && through[key] && o.Len() > 0 {
			place(key, o)
			before = append(before, h.cast(o, at[key], reads(i), true)...)
		}
	}
	for i, o := range l.Out {
		if key, _ := h.operand(writes(i)); holdsHalves(o) && through[key] && o.Len() > 0 {
			place(key, o)
			after = append(after, h.cast(o, at[key], writes(i), false)...)
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

// each calls see for every buffer that is a 16-bit operand. Dispatches may share
// their lists, so each gets its own.
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

// halfDispatch has binding i of a dispatch hold 16-bit floats.
func halfDispatch(d graph.Dispatch, i int, o *graph.Operand) graph.Dispatch {
	if form := halfFormOf(d.Kernel); form != nil {
		d.Kernel = form.kernel
		d.Spec = append(slices.Clone(d.Spec), make([]uint32, typesConstant+1-len(d.Spec))...)
	}
	d.Spec[typesConstant] |= halfKinds[o.Type] << (2 * i)
	b := &d.Buffers[i]
	if b.Bytes == 0 {
		b.Bytes = int64(4*o.Len()) - b.At
	}
	b.At, b.Bytes = b.At/2, wholeWords(b.Bytes/2)
	return d
}

// cast copies between an operand and floats in scratch.
func (h *halves) cast(o *graph.Operand, floats, operand graph.Buffer, widen bool) []graph.Dispatch {
	f := &graph.Operand{Type: graph.Float32, Shape: []int{o.Len()}}
	to, from := operand, floats
	if widen {
		to, from = floats, operand
	}
	to.Writes, from.Writes = true, false
	s := h.l.With(nil, nil)
	castForm.append(s, "a", f, []*graph.Operand{f}, []graph.Buffer{to, from})
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

var castForm = formOf(graph.Float32, graph.Float32, graph.Float32, graph.Float32)

func init() { castForm.exprs = append(castForm.exprs, "a") }

var (
	bufferLine   = regexp.MustCompile(`(?m)^layout\(binding = (\d+)\) (readonly )?buffer (\w+) \{ (\w+) (\w+)\[\]; \};.*$`)
	commentText  = regexp.MustCompile(`(?m)[ \t]*//.*$`)
	floatBuffers = map[string]bool{"float": true, "vec4": true}
)

// halfPreamble is between 16-bit floats and float32: float16 is 1, bfloat16 2.
// What is no even split is rounded to the even neighbour; drivers' own packing
// need not do that.
const halfPreamble = `
layout(constant_id = 20) const uint TYPES = 0; // what a buffer holds, two bits for each binding
float widened(uint kind, uint h) { return kind == 2 ? uintBitsToFloat(h << 16) : unpackHalf2x16(h & 0xffffu).x; }
uint narrowed(uint kind, float v) {
	uint u = floatBitsToUint(v), m = u & 0x7fffffffu, s = u >> 16 & 0x8000u;
	if (kind == 2) return m > 0x7f800000u ? s | 0x7fc0u : s | (m + 0x7fffu + (m >> 16 & 1u)) >> 16;
	if (m > 0x7f800000u) return s | 0x7e00u;
	if (m >= 0x477ff000u) return s | 0x7c00u;
	if (m < 0x38800000u) return s | uint(roundEven(uintBitsToFloat(m) * 16777216.0));
	return s | (m + 0xfffu + (m >> 13 & 1u) - 0x38000000u) >> 13;
}
`

// halfText makes of a shader's text its form for 16-bit floats: float buffers
// become words, and what is loaded from them and stored to them goes through
// functions. Invocations that own half of a word each change only that half.
func halfText(text string, args []string) string {
	kindOf := bufferKinds(args)
	text = commentText.ReplaceAllString(text, "")
	declared, names := map[string]bool{}, map[string]bool{}
	text = bufferLine.ReplaceAllStringFunc(text, func(line string) string {
		m := bufferLine.FindStringSubmatch(line)
		binding, readonly, kind, name := m[1], m[2], kindOf(m[4]), m[5]
		if !floatBuffers[kind] {
			return line
		}
		names[name] = true
		words, out := "words"+binding, ""
		if !declared[words] {
			declared[words] = true
			out = fmt.Sprintf("layout(binding = %s) %sbuffer Words%s { uint %s[]; };\n", binding, readonly, binding, words)
		}
		form, stores := scalarHalf, scalarStore
		if kind == "vec4" {
			form, stores = vectorHalf, vectorStore
		}
		if readonly == "" {
			form += stores
		}
		return out + strings.NewReplacer("NAME", name, "WORDS", words, "KIND", "(TYPES >> "+binding+"*2 & 3u)").Replace(form)
	})
	at := strings.Index(text, "layout(binding")
	return rewriteHalves(text[:at], names) + halfPreamble + rewriteHalves(text[at:], names)
}

// bufferKinds is what a shader's names for element types mean.
func bufferKinds(args []string) func(string) string {
	defines := map[string]string{}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(a, "-D"), "=")
		defines[name] = value
	}
	return func(kind string) string {
		if to := defines[kind]; to != "" {
			return to
		}
		return kind
	}
}

// floatBindings are those that a shader declares as floats.
func floatBindings(text string, args []string) map[int]bool {
	kindOf, floats := bufferKinds(args), map[int]bool{}
	for _, m := range bufferLine.FindAllStringSubmatch(text, -1) {
		if k, _ := strconv.Atoi(m[1]); floatBuffers[kindOf(m[4])] {
			floats[k] = true
		}
	}
	return floats
}

const (
	scalarHalf = `float load_NAME(uint i) {
	if (KIND == 0) return uintBitsToFloat(WORDS[i]);
	return widened(KIND, WORDS[i >> 1] >> 16 * (i & 1));
}
`
	scalarStore = `void store_NAME(uint i, float v) {
	if (KIND == 0) WORDS[i] = floatBitsToUint(v);
	else atomicXor(WORDS[i >> 1], ((WORDS[i >> 1] >> 16 * (i & 1) ^ narrowed(KIND, v)) & 0xffffu) << 16 * (i & 1));
}
`
	vectorHalf = `vec4 load_NAME(uint i) {
	if (KIND == 0) return uintBitsToFloat(uvec4(WORDS[4 * i], WORDS[4 * i + 1], WORDS[4 * i + 2], WORDS[4 * i + 3]));
	uint u = WORDS[2 * i], v = WORDS[2 * i + 1];
	return vec4(widened(KIND, u), widened(KIND, u >> 16), widened(KIND, v), widened(KIND, v >> 16));
}
`
	vectorStore = `void store_NAME(uint i, vec4 v) {
	if (KIND == 0) {
		WORDS[4 * i] = floatBitsToUint(v.x);
		WORDS[4 * i + 1] = floatBitsToUint(v.y);
		WORDS[4 * i + 2] = floatBitsToUint(v.z);
		WORDS[4 * i + 3] = floatBitsToUint(v.w);
		return;
	}
	WORDS[2 * i] = narrowed(KIND, v.x) | narrowed(KIND, v.y) << 16;
	WORDS[2 * i + 1] = narrowed(KIND, v.z) | narrowed(KIND, v.w) << 16;
}
`
)

var indexedName = regexp.MustCompile(`\b(\w+)\[`)

// rewriteHalves replaces name[i] by a load, and name[i] = x; by a store.
func rewriteHalves(text string, names map[string]bool) string {
	var b strings.Builder
	for {
		m := indexedName.FindStringSubmatchIndex(text)
		if m == nil {
			b.WriteString(text)
			return b.String()
		}
		name := text[m[2]:m[3]]
		if !names[name] {
			b.WriteString(text[:m[1]])
			text = text[m[1]:]
			continue
		}
		b.WriteString(text[:m[0]])
		end := closing(text, m[1])
		index := rewriteHalves(text[m[1]:end], names)
		text = text[end+1:]
		assigns := assignment.FindStringSubmatch(text)
		if assigns == nil {
			fmt.Fprintf(&b, "load_%s(%s)", name, index)
			continue
		}
		text = text[len(assigns[0])-1:]
		stop := strings.Index(text, ";")
		value := rewriteHalves(text[:stop], names)
		if assigns[1] != "" {
			value = fmt.Sprintf("load_%s(%s) %s (%s)", name, index, assigns[1], value)
		}
		fmt.Fprintf(&b, "store_%s(%s, %s)", name, index, value)
		text = text[stop:]
	}
}

// assignment is what follows an element that is stored to, and one byte more.
var assignment = regexp.MustCompile(`^ ([-+*/]?)= `)

// closing is where the bracket that was opened before from is closed.
func closing(text string, from int) int {
	depth := 1
	for i := from; ; i++ {
		switch text[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
}
