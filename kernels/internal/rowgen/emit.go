package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// isa is a vector instruction set: lanes per register, number of registers, and the
// letter of their names.
type isa struct {
	name  string
	lanes int
	regs  int
	reg   string
}

var isas = []isa{{"AVX2", 8, 16, "Y"}, {"AVX512", 16, 32, "Z"}}

// Byte offsets in rowArgs.
const (
	insAt, outsAt, sumsAt, scalarsAt = 0, 32, 64, 72
	topAt                            = 2 * 16 * 8 // in rowSums, after two sums
)

var (
	inRegs  = []string{"R8", "R9", "R10", "R11"}
	outRegs = []string{"R12", "R13", "DI", "SI"}
)

// table holds the constants of all loops, each eight times: AVX2 reads a full vector from
// memory; AVX-512 broadcasts the first.
type table struct{ bits []uint32 }

func (t *table) at(bits uint32) int {
	i := slices.Index(t.bits, bits)
	if i < 0 {
		i, t.bits = len(t.bits), append(t.bits, bits)
	}
	return 32 * i
}

// emitter writes one kernel for one instruction set.
type emitter struct {
	isa
	k     *kernel
	table *table
	out   bytes.Buffer
	where map[*value]int // register of each live value
	last  map[*value]int // index of a value's last use
	free  []int
	ahead int // bytes from BX to this turn's elements
	// The loop is unrolled turns times, turn is the current copy, and partial has the
	// float32 register of each sum within an iteration.
	turn, turns int
	partial     map[int]int
	failed      bool
}

// emit keeps as many constants in registers as fit.
func emit(k *kernel, s isa, t *table) string {
	for hoisted := len(k.consts); ; hoisted-- {
		if hoisted < 0 {
			panic(k.name + ": too few registers on " + s.name)
		}
		e := &emitter{isa: s, k: k, table: t, where: map[*value]int{}, last: map[*value]int{}}
		if text := e.run(hoisted); !e.failed {
			return text
		}
	}
}

func (e *emitter) run(hoisted int) string {
	k := e.k
	for r := range e.regs {
		e.free = append(e.free, r)
	}
	for i, v := range k.values {
		for _, a := range v.args {
			e.last[a] = i
		}
	}
	fmt.Fprintf(&e.out, "\n// func %s%s(a *rowArgs, n int)\n// %s\nTEXT ·%s%s(SB), NOSPLIT, $0-16\n", k.name, e.name, k.doc, k.name, e.name)
	e.line("MOVQ a+0(FP), AX")
	e.line("MOVQ n+8(FP), CX")
	e.line("SHLQ $2, CX")
	for i := range k.ins {
		e.line("MOVQ %d(AX), %s", insAt+8*i, inRegs[i])
	}
	for i := range k.outs {
		e.line("MOVQ %d(AX), %s", outsAt+8*i, outRegs[i])
	}
	if k.ahead {
		e.line("LEAQ (R8)(CX*1), R13")
	}
	for _, v := range k.scalars {
		e.where[v] = e.take()
		e.line("VBROADCASTSS %d(AX), %s", scalarsAt+4*v.i, e.at(v))
	}
	if len(k.consts) > 0 {
		e.line("LEAQ rowNumbers<>(SB), DX")
	}
	byNeed := slices.Clone(k.consts)
	slices.SortStableFunc(byNeed, func(a, b *value) int { return e.need(b) - e.need(a) })
	for _, v := range byNeed[:hoisted] {
		e.where[v] = e.take()
		e.line("VBROADCASTSS %d(DX), %s", e.table.at(v.bits), e.at(v))
	}
	if k.sums > 0 || k.top {
		e.summing()
	} else {
		e.line("XORQ BX, BX")
		e.loop("Loop", "CX", totals{})
	}
	e.line("VZEROUPPER")
	e.line("RET")
	return e.out.String()
}

// loop writes a loop whose body is unrolled once per set of totals. It ends when BX
// reaches end.
func (e *emitter) loop(label, end string, sets ...totals) {
	fmt.Fprintf(&e.out, "\n%s%s%s:\n", e.k.name, e.name, label)
	e.partial = map[int]int{}
	for turn, t := range sets {
		e.ahead, e.turn, e.turns = 4*e.lanes*turn, turn, len(sets)
		for i, v := range e.k.values {
			e.value(i, v, t.sums, t.top)
		}
	}
	e.line("ADDQ $%d, BX", 4*e.lanes*len(sets))
	e.line("CMPQ BX, %s", end)
	e.line("JLT  %s%s%s", e.k.name, e.name, label)
}

// totals are the accumulator registers of the sums and the maximum.
type totals struct {
	sums []string
	top  string
}

// summing writes the loop of a reduction. Several independent sets of accumulators hide
// the latency of additions; a second loop adds the remainder to the first set, and then
// the other sets are added to it.
func (e *emitter) summing() {
	k, sets := e.k, make([]totals, map[string]int{"Y": 2, "Z": 4}[e.reg])
	e.line("MOVQ %d(AX), BX", sumsAt)
	for n := range sets {
		for i := range 2 * k.sums {
			r := e.nameOf(e.take())
			sets[n].sums = append(sets[n].sums, r)
			if n == 0 {
				e.line("VMOVUPD %d(BX), %s", e.sumAt(i), r)
			} else {
				e.line("%s %[2]s, %[2]s, %[2]s", map[string]string{"Y": "VXORPS", "Z": "VPXORQ"}[e.reg], r)
			}
		}
		if k.top {
			sets[n].top = e.nameOf(e.take())
			e.line("VMOVUPS %d(BX), %s", topAt, sets[n].top)
		}
	}
	e.line("XORQ BX, BX")
	e.line("MOVQ CX, AX")
	e.line("ANDQ $%d, AX", -4*e.lanes*len(sets))
	e.line("JZ   %s%sRest", k.name, e.name)
	e.loop("Loop", "AX", sets...)
	fmt.Fprintf(&e.out, "\n%s%sRest:\n", k.name, e.name)
	e.line("CMPQ BX, CX")
	e.line("JGE  %s%sDone", k.name, e.name)
	e.loop("Single", "CX", sets[0])
	fmt.Fprintf(&e.out, "\n%s%sDone:\n", k.name, e.name)
	e.line("MOVQ a+0(FP), AX")
	e.line("MOVQ %d(AX), BX", sumsAt)
	first := sets[0]
	for i, s := range first.sums {
		for _, t := range sets[1:] {
			e.line("VADDPD %s, %s, %[2]s", t.sums[i], s)
		}
		e.line("VMOVUPD %s, %d(BX)", s, e.sumAt(i))
	}
	if k.top {
		for _, t := range sets[1:] {
			e.line("VMAXPS %s, %s, %[2]s", t.top, first.top)
		}
		// Reduce the maximum across lanes.
		at := func(kind string) string { return kind + first.top[1:] }
		other := e.nameOf(e.take())
		half := func(kind string) string { return kind + other[1:] }
		if e.reg == "Z" {
			e.line("VEXTRACTF64X4 $1, %s, %s", at("Z"), half("Y"))
			e.line("VMAXPS %s, %s, %[2]s", half("Y"), at("Y"))
		}
		e.line("VEXTRACTF128 $1, %s, %s", at("Y"), half("X"))
		e.line("VMAXPS %s, %s, %[2]s", half("X"), at("X"))
		for _, turn := range []int{0x4e, 0xb1} {
			e.line("VPERMILPS $%#x, %s, %s", turn, at("X"), half("X"))
			e.line("VMAXPS %s, %s, %[2]s", half("X"), at("X"))
		}
		e.line("VBROADCASTSS %s, %s", at("X"), first.top)
		e.line("VMOVUPS %s, %d(BX)", first.top, topAt)
	}
}

// sumAt is the byte offset in rowSums of register i of the sums; a sum has two registers.
func (e *emitter) sumAt(i int) int { return i/2*16*8 + i%2*4*e.lanes }

// need ranks constants for registers: by uses, and first those used where an instruction
// cannot read an operand from memory.
func (e *emitter) need(c *value) (n int) {
	for _, v := range e.k.values {
		for i, a := range v.args {
			if a != c {
				continue
			}
			n++
			if i == 0 && (v.op == "MINPS" || v.op == "MAXPS" || v.op == "less" || v.op == "DIVPS" || v.op == "SUBPS") {
				n += 100
			}
		}
	}
	return n
}

// place is the displacement of this turn's elements, for an element width in units of 4 bytes.
func (e *emitter) place(width int) string {
	if e.ahead == 0 {
		return ""
	}
	return fmt.Sprint(e.ahead * width)
}

func (e *emitter) line(format string, args ...any) {
	fmt.Fprintf(&e.out, "\t"+format+"\n", args...)
}

func (e *emitter) take() int {
	if len(e.free) == 0 {
		e.failed = true
		return 0
	}
	r := e.free[0]
	e.free = e.free[1:]
	return r
}

func (e *emitter) give(r int) {
	e.free = append(e.free, r)
	slices.Sort(e.free)
}

func (e *emitter) nameOf(r int) string { return fmt.Sprint(e.reg, r) }
func (e *emitter) at(v *value) string  { return e.nameOf(e.where[v]) }
func half(reg string, of isa) string   { return map[string]string{"Z": "Y", "Y": "X"}[of.reg] + reg[1:] }
func (e *emitter) inReg(v *value) bool { _, ok := e.where[v]; return ok }
func (e *emitter) dies(v *value, turn int) bool {
	return v.op != "const" && v.op != "scalar" && e.last[v] == turn
}

// operand is an instruction's last source: a register, or a constant in memory, which
// AVX-512 broadcasts if the mnemonic has a suffix.
func (e *emitter) operand(v *value) (suffix, text string) {
	if e.inReg(v) {
		return "", e.at(v)
	}
	if e.reg == "Z" {
		return ".BCST", fmt.Sprintf("%d(DX)", e.table.at(v.bits))
	}
	return "", fmt.Sprintf("%d(DX)", e.table.at(v.bits))
}

// register is a register with a value; done frees it if it was loaded only for this use.
func (e *emitter) register(v *value) (reg string, done func()) {
	if e.inReg(v) {
		return e.at(v), func() {}
	}
	r := e.take()
	e.line("VBROADCASTSS %d(DX), %s", e.table.at(v.bits), e.nameOf(r))
	return e.nameOf(r), func() { e.give(r) }
}

// value emits one value. The result may reuse the registers of arguments whose last use
// this is.
func (e *emitter) value(turn int, v *value, sums []string, top string) {
	var dead []*value
	for _, a := range v.args {
		if e.dies(a, turn) && !slices.Contains(dead, a) {
			dead = append(dead, a)
		}
	}
	result := func() string {
		for _, a := range dead {
			e.give(e.where[a])
		}
		dead = nil
		r := e.take()
		e.where[v] = r
		return e.nameOf(r)
	}
	switch v.op {
	case "in":
		e.line("VMOVUPS %s(%s)(BX*1), %s", e.place(1), inRegs[v.i], result())
	case "out":
		from, done := e.register(v.args[0])
		e.line("VMOVUPS %s, %s(%s)(BX*1)", from, e.place(1), outRegs[v.i])
		done()
	case "ADDPS", "MULPS", "SUBPS", "DIVPS", "MINPS", "MAXPS":
		a, b := v.args[0], v.args[1]
		if (v.op == "ADDPS" || v.op == "MULPS") && !e.inReg(a) {
			a, b = b, a
		}
		from, done := e.register(a)
		suffix, to := e.operand(b)
		done()
		e.line("V%s%s %s, %s, %s", v.op, suffix, to, from, result())
	case "and", "or":
		suffix, b := e.operand(v.args[1])
		a := e.at(v.args[0])
		name := map[string]string{"andY": "VANDPS", "orY": "VORPS", "andZ": "VPANDD", "orZ": "VPORD"}[v.op+e.reg]
		e.line("%s%s %s, %s, %s", name, suffix, b, a, result())
	case "sqrt":
		a := e.at(v.args[0])
		e.line("VSQRTPS %s, %s", a, result())
	case "round":
		a := e.at(v.args[0])
		e.line("%s $8, %s, %s", map[string]string{"Y": "VROUNDPS", "Z": "VRNDSCALEPS"}[e.reg], a, result())
	case "FMADD", "FNMADD":
		e.fused(turn, v, &dead)
	case "less":
		a, done := e.register(v.args[0])
		suffix, b := e.operand(v.args[1])
		done()
		x, doneX := e.register(v.args[2])
		y, doneY := e.register(v.args[3])
		if e.reg == "Z" {
			e.line("VCMPPS%s $0x11, %s, %s, K1", suffix, b, a)
			doneX()
			doneY()
			e.line("VBLENDMPS %s, %s, K1, %s", x, y, result())
			break
		}
		mask := e.take()
		e.line("VCMPPS $0x11, %s, %s, %s", b, a, e.nameOf(mask))
		doneX()
		doneY()
		e.give(mask)
		e.line("VBLENDVPS %s, %s, %s, %s", e.nameOf(mask), x, y, result())
	case "scale":
		p, n := e.at(v.args[0]), e.at(v.args[1])
		if e.reg == "Z" {
			e.line("VSCALEFPS %s, %s, %s", n, p, result())
			break
		}
		// 2^(n/2) · 2^(n − n/2), as 2ⁿ alone may overflow the exponent.
		s, t := e.take(), e.take()
		half, rest := e.nameOf(s), e.nameOf(t)
		bias := fmt.Sprintf("%d(DX)", e.table.at(127))
		e.line("VCVTPS2DQ %s, %s", n, rest)
		e.line("VPSRAD $1, %s, %s", rest, half)
		e.line("VPSUBD %s, %s, %s", half, rest, rest)
		for _, r := range []string{half, rest} {
			e.line("VPADDD %s, %s, %s", bias, r, r)
			e.line("VPSLLD $23, %s, %s", r, r)
		}
		e.line("VMULPS %s, %s, %s", half, p, half)
		e.give(s)
		e.give(t)
		e.line("VMULPS %s, %s, %s", rest, half, result())
	case "sum":
		t := e.take()
		for i, wide := range e.halves(e.at(v.args[0]), t) {
			wide()
			e.line("VADDPD %s, %[2]s, %[2]s", e.nameOf(t), sums[2*v.i+i])
		}
		e.give(t)
	case "near":
		e.near(v.i, e.at(v.args[0]), sums)
	case "ahead":
		e.line("PREFETCHT0 %s(R13)(BX*1)", e.place(1))
	case "fetch":
		e.line("PREFETCHT0 %s(%s)(BX*1)", e.place(1), inRegs[v.i])
	case "sumOf":
		s, t := e.take(), e.take()
		as, bs := e.halves(e.at(v.args[0]), s), e.halves(e.at(v.args[1]), t)
		for i := range as {
			as[i]()
			bs[i]()
			e.line("VFMADD231PD %s, %s, %s", e.nameOf(t), e.nameOf(s), sums[2*v.i+i])
		}
		e.give(s)
		e.give(t)
	case "wide":
		t := e.take()
		for i, wide := range e.halves(e.at(v.args[0]), t) {
			wide()
			place := fmt.Sprintf("%d(%s)(BX*2)", 4*e.lanes*i, outRegs[v.i])
			e.line("VADDPD %s, %[2]s, %[2]s", place, e.nameOf(t))
			e.line("VMOVUPD %s, %s", e.nameOf(t), place)
		}
		e.give(t)
	case "greatest":
		e.line("VMAXPS %s, %s, %[1]s", top, e.at(v.args[0])) // ignores NaN
	default:
		panic("rowgen: no operation " + v.op)
	}
	for _, a := range dead {
		e.give(e.where[a])
	}
}

// near adds to a sum: the turns of one iteration in float32, iterations in float64, in the
// last turn's accumulators.
func (e *emitter) near(sum int, from string, sums []string) {
	switch {
	case e.turns == 1:
	case e.turn == 0:
		r := e.take()
		e.partial[sum] = r
		e.line("VMOVAPS %s, %s", from, e.nameOf(r))
		return
	default:
		to := e.nameOf(e.partial[sum])
		e.line("VADDPS %s, %[2]s, %[2]s", from, to)
		if e.turn < e.turns-1 {
			return
		}
		from = to
	}
	t := e.take()
	for i, wide := range e.halves(from, t) {
		wide()
		e.line("VADDPD %s, %[2]s, %[2]s", e.nameOf(t), sums[2*sum+i])
	}
	e.give(t)
	if e.turns > 1 {
		e.give(e.partial[sum])
	}
}

// halves converts the lower and the upper half of a register to float64, one at a time, in t.
func (e *emitter) halves(from string, t int) [2]func() {
	to := e.nameOf(t)
	return [2]func(){
		func() { e.line("VCVTPS2PD %s, %s", half(from, e.isa), to) },
		func() {
			e.line("%s $1, %s, %s", map[string]string{"Y": "VEXTRACTF128", "Z": "VEXTRACTF64X4"}[e.reg], from, half(to, e.isa))
			e.line("VCVTPS2PD %s, %s", half(to, e.isa), to)
		},
	}
}

// fused emits ±a·b + c in the form that overwrites an operand whose last use this is.
func (e *emitter) fused(turn int, v *value, dead *[]*value) {
	a, b, c := v.args[0], v.args[1], v.args[2]
	keep := func(over *value) {
		*dead = slices.DeleteFunc(*dead, func(x *value) bool { return x == over })
		e.where[v] = e.where[over]
	}
	if !e.dies(a, turn) && e.dies(b, turn) || !e.inReg(a) {
		a, b = b, a
	}
	switch {
	case e.dies(a, turn) && a != b && a != c && e.inReg(b):
		suffix, m := e.operand(c)
		e.line("V%s213PS%s %s, %s, %s", v.op, suffix, m, e.at(b), e.at(a))
		keep(a)
	case e.dies(a, turn) && a != b && a != c && e.inReg(c):
		suffix, m := e.operand(b)
		e.line("V%s132PS%s %s, %s, %s", v.op, suffix, m, e.at(c), e.at(a))
		keep(a)
	case e.dies(c, turn) && c != a && c != b && e.inReg(a):
		suffix, m := e.operand(b)
		e.line("V%s231PS%s %s, %s, %s", v.op, suffix, m, e.at(a), e.at(c))
		keep(c)
	default:
		// Every operand is still needed: overwrite a copy of c.
		r := e.take()
		if e.inReg(c) {
			e.line("VMOVAPS %s, %s", e.at(c), e.nameOf(r))
		} else {
			e.line("VBROADCASTSS %d(DX), %s", e.table.at(c.bits), e.nameOf(r))
		}
		from, done := e.register(a)
		suffix, m := e.operand(b)
		e.line("V%s231PS%s %s, %s, %s", v.op, suffix, m, from, e.nameOf(r))
		done()
		e.where[v] = r
	}
}

const warning = "// Code generated by rowgen from internal/rowgen/table.go. DO NOT EDIT.\n"

// files returns the generated files by name.
func files() map[string][]byte {
	var code strings.Builder
	var amd64, other strings.Builder
	numbers := &table{}
	amd64.WriteString(warning + "\npackage f32\n")
	other.WriteString(warning + "\n//go:build !amd64\n\npackage f32\n")
	for _, l := range loops {
		k := &kernel{name: l.name, doc: l.doc}
		l.body(k)
		for _, s := range isas {
			code.WriteString(emit(k, s, numbers))
			fmt.Fprintf(&amd64, "\n//go:noescape\nfunc %s%s(a *rowArgs, n int)\n", l.name, s.name)
		}
		fmt.Fprintf(&amd64, `
// %[1]s: %[2]s
func (a *rowArgs) %[1]s(n int) {
	full := n &^ (lanes - 1)
	if full > 0 {
		a.%[1]sFull(full)
	}
	if full < n {
		var t rowTail
		t.args.sums, t.args.scalars = a.sums, a.scalars
		t.load(a, full, n, %[3]d)
		t.args.in = [4]*float32{&t.in[0][0], &t.in[1][0], &t.in[2][0], &t.in[3][0]}
		t.args.out = [4]*float32{&t.out[0][0], &t.out[1][0], &t.out[2][0]}
		t.args.%[1]sFull(lanes)
		t.store(a, full, n, %[4]d)
	}
}

func (a *rowArgs) %[1]sFull(n int) {
	if lanes == 16 {
		%[1]sAVX512(a, n)
	} else {
		%[1]sAVX2(a, n)
	}
}
`, l.name, l.doc, k.ins, k.outs)
		fmt.Fprintf(&other, "\nfunc (*rowArgs) %s(int) { panic(noVectors) }\n", l.name)
	}
	var asm strings.Builder
	asm.WriteString(warning + "\n#include \"textflag.h\"\n\n// The constants of all loops, each eight times.\n")
	for i, b := range numbers.bits {
		for j := range 4 {
			fmt.Fprintf(&asm, "DATA rowNumbers<>+%d(SB)/8, $0x%08x%08x\n", 32*i+8*j, b, b)
		}
	}
	fmt.Fprintf(&asm, "GLOBL rowNumbers<>(SB), RODATA|NOPTR, $%d\n", 32*len(numbers.bits))
	asm.WriteString(code.String())
	return map[string][]byte{
		"vector_amd64.s":  []byte(asm.String()),
		"vector_amd64.go": []byte(amd64.String()),
		"vector_noasm.go": []byte(other.String()),
	}
}
