package spirv

import (
	order "encoding/binary"
	"slices"
)

// Exact arithmetic. A driver may compute a·b + c with one rounding or with two, as it likes, in one
// shader so and in another otherwise, unless each operation is marked. So all
// are: two kernels that write the same sum in the same order have the same bits
// on any device. A kernel that wants one rounding says fma.

// The words of SPIR-V that are looked at.
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

// rounds reports whether an instruction computes floats that a driver might fuse
// with others, or take apart.
func (i instruction) rounds() bool {
	return slices.Contains([]int{opFAdd, opFSub, opFMul, opFDiv, opVectorByScale, opDot}, i.op) || i.fuses()
}

func (i instruction) fuses() bool { return i.op == opExtInst && i.words[4] == extFma }

// unmarked are the instructions that compute floats without a mark.
func unmarked(all []instruction) []instruction {
	marks := map[uint32]bool{}
	for _, i := range all {
		if i.op == opDecorate && i.words[2] == noContraction {
			marks[i.words[1]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(i instruction) bool { return !i.rounds() || marks[i.words[2]] })
}

// Exact is a module in which every operation on floats stands for itself.
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

// Roundings counts the operations on floats in a module, and those that a driver may
// fuse or take apart.
func Roundings(code []byte) (all, loose int) {
	list := instructions(wordsOf(code))
	for _, i := range list {
		if i.rounds() {
			all++
		}
	}
	return all, len(unmarked(list))
}

// Fuses reports whether a module asks for a product and a sum with one rounding.
func Fuses(code []byte) bool {
	return slices.ContainsFunc(instructions(wordsOf(code)), instruction.fuses)
}
