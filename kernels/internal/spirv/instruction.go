package spirv

import (
	endian "encoding/binary"
	"slices"
	"strings"
)

// Opcodes.
const (
	opSource            = 3
	opSourceExtension   = 4
	opName              = 5
	opMemberName        = 6
	opEntryPoint        = 15
	opTypeFloat         = 22
	opConstant          = 43
	opFunction          = 54
	opFunctionParameter = 55
	opFunctionEnd       = 56
	opFunctionCall      = 57
	opVariable          = 59
	opStore             = 62
	opAccessChain       = 65
	opDecorate          = 71
	opLoopMerge         = 246
	opSelectionMerge    = 247
	opLabel             = 248
	opBranch            = 249
	opReturn            = 253
	opUnreachable       = 255

	storageBuffer = 12 // a storage class
	spirvHeader   = 5  // words
)

// instruction is an instruction of a module: its offset in words, opcode and words.
type instruction struct {
	at, op int
	words  []uint32
}

func newInstruction(op int, operands ...uint32) instruction {
	return instruction{op: op, words: append([]uint32{uint32(len(operands)+1)<<16 | uint32(op)}, operands...)}
}

func instructions(words []uint32) (all []instruction) {
	for at := spirvHeader; at < len(words); {
		n := int(words[at] >> 16)
		all = append(all, instruction{at, int(words[at] & 0xffff), words[at : at+n : at+n]})
		at += n
	}
	return all
}

func wordsOf(code []byte) []uint32 {
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = endian.LittleEndian.Uint32(code[4*i:])
	}
	return words
}

// result is the id of an instruction's result, or 0. The instruction must be in a function.
func (i instruction) result() uint32 {
	switch {
	case i.op == opLabel:
		return i.words[1]
	case i.op == opStore || i.op == opFunctionEnd || opLoopMerge <= i.op && i.op <= opSelectionMerge || opBranch <= i.op && i.op <= opUnreachable:
		return 0
	}
	return i.words[2]
}

// spirvText decodes a literal string: four bytes per word, ended by a zero.
func spirvText(words []uint32) string {
	var b []byte
	for _, w := range words {
		b = endian.LittleEndian.AppendUint32(b, w)
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

func bytesOf(words []uint32) []byte {
	out := make([]byte, 0, 4*len(words))
	for _, w := range words {
		out = endian.LittleEndian.AppendUint32(out, w)
	}
	return out
}

// withoutInterfaces removes the variables in gone from an entry point's interface.
func withoutInterfaces(in instruction, gone map[uint32]bool) instruction {
	name := 3 // the name's last word ends in a zero byte
	for in.words[name]>>24 != 0 {
		name++
	}
	operands := append([]uint32{}, in.words[1:name+1]...)
	for _, id := range in.words[name+1:] {
		if !gone[id] {
			operands = append(operands, id)
		}
	}
	return newInstruction(opEntryPoint, operands...)
}

// Bindings lists the bindings of a module's buffers, each once.
func Bindings(code []byte) (list []uint32) {
	for _, in := range instructions(wordsOf(code)) {
		if in.op == opDecorate && in.words[2] == decorationBinding && !slices.Contains(list, in.words[3]) {
			list = append(list, in.words[3])
		}
	}
	return list
}
