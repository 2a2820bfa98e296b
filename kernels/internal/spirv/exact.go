package spirv

import (
	order "encoding/binary"
	"slices"
)

// Exact arithmetic. A driver may contract a·b + c to a fused operation in one shader and
// not in another, unless operations are decorated NoContraction. So all are: shaders that
// compute the same sum in the same order agree bit for bit on any device. A shader that
// wants a single rounding calls fma.

// Constants of SPIR-V.
const (
	opExtInst       = 12
	opFAdd          = 129
	opFSub          = 131
	opFMul          = 133
	opFDiv          = 136
	opVectorByScale = 142
	opDot           = 148
	extFma          = 50 // of GLSL.std.450
	noContraction   = 42
)

// rounds reports whether an instruction is a floating-point operation that a driver might
// contract or expand.
func (i instruction) rounds() bool {
	return slices.Contains([]int{opFAdd, opFSub, opFMul, opFDiv, opVectorByScale, opDot}, i.op) || i.fuses()
}

func (i instruction) fuses() bool { return i.op == opExtInst && i.words[4] == extFma }

// unmarked returns the floating-point operations without NoContraction.
func unmarked(all []instruction) []instruction {
	marks := map[uint32]bool{}
	for _, i := range all {
		if i.op == opDecorate && i.words[2] == noContraction {
			marks[i.words[1]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(i instruction) bool { return !i.rounds() || marks[i.words[2]] })
}

// Exact returns the module with NoContraction on every floating-point operation.
func Exact(code []byte) []byte {
	words := wordsOf(code)
	all := instructions(words)
	var marks []byte
	for _, i := range unmarked(all) {
		for _, w := range []uint32{3<<16 | opDecorate, i.words[2], noContraction} {
			marks = order.LittleEndian.AppendUint32(marks, w)
		}
	}
	first := slices.IndexFunc(all, func(i instruction) bool { return i.op == opDecorate || i.op == opTypeVoid })
	return slices.Insert(slices.Clone(code), 4*all[first].at, marks...)
}

// Roundings counts the floating-point operations of a module, and those without NoContraction.
func Roundings(code []byte) (all, loose int) {
	list := instructions(wordsOf(code))
	for _, i := range list {
		if i.rounds() {
			all++
		}
	}
	return all, len(unmarked(list))
}

// Fuses reports whether a module uses fma.
func Fuses(code []byte) bool {
	return slices.ContainsFunc(instructions(wordsOf(code)), instruction.fuses)
}
