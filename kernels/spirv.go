package kernels

import (
	endian "encoding/binary"
	"fmt"
	"strings"

	"memopt/memopt/graph"
)

// As much of SPIR-V as it takes to write the body of a function into a module and
// to leave out what is not called then.

// The opcodes that are looked at.
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

// instruction is one of a module: its place, opcode and words.
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

// result is the value that an instruction of a function makes, or 0.
func (i instruction) result() uint32 {
	switch {
	case i.op == opLabel:
		return i.words[1]
	case i.op == opStore || i.op == opFunctionEnd || opLoopMerge <= i.op && i.op <= opSelectionMerge || opBranch <= i.op && i.op <= opUnreachable:
		return 0
	}
	return i.words[2]
}

// spirvModule is a module whose functions have names.
type spirvModule struct {
	header    [spirvHeader]uint32
	globals   []instruction // all before the first function
	functions []spirvFunction
	named     map[string]int // function, by its name in GLSL
	byID      map[uint32]int
	float     uint32 // the type
}

type spirvFunction struct {
	id, returns uint32
	code        []instruction
}

func newSpirvModule(k *graph.Kernel) *spirvModule {
	m := &spirvModule{named: map[string]int{}, byID: map[uint32]int{}}
	words := wordsOf(k.Code)
	copy(m.header[:], words)
	names := map[uint32]string{}
	for _, in := range instructions(words) {
		switch in.op {
		case opSource, opSourceExtension, opMemberName:
			continue
		case opName:
			names[in.words[1]] = spirvText(in.words[2:])
			continue
		case opTypeFloat:
			m.float = in.words[1]
		case opFunction:
			name, _, _ := strings.Cut(names[in.words[2]], "(")
			m.named[name], m.byID[in.words[2]] = len(m.functions), len(m.functions)
			m.functions = append(m.functions, spirvFunction{id: in.words[2], returns: in.words[1]})
		}
		if n := len(m.functions); n > 0 {
			m.functions[n-1].code = append(m.functions[n-1].code, in)
		} else {
			m.globals = append(m.globals, in)
		}
	}
	return m
}

// spirvText is a string: four characters a word, up to a zero.
func spirvText(words []uint32) string {
	var b []byte
	for _, w := range words {
		b = endian.LittleEndian.AppendUint32(b, w)
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

// spirvBody is a function's new body: calls of others, one after another.
type spirvBody struct {
	m         *spirvModule
	next      *uint32 // the first number that is free
	constants map[uint32]uint32
	defined   *[]instruction // of the constants
	code      []instruction
}

// call appends a call and gives what it returns. A function that is not there is
// our own mistake.
func (b *spirvBody) call(name string, args ...uint32) uint32 {
	i, ok := b.m.named[name]
	if !ok {
		panic(fmt.Sprintf("kernels: the shader has no function %s", name))
	}
	f := b.m.functions[i]
	id := b.fresh()
	b.code = append(b.code, newInstruction(opFunctionCall, append([]uint32{f.returns, id, f.id}, args...)...))
	return id
}

func (b *spirvBody) fresh() uint32 {
	*b.next++
	return *b.next - 1
}

// number is a float32 as a constant, by its bits.
func (b *spirvBody) number(bits uint32) uint32 {
	id, ok := b.constants[bits]
	if !ok {
		id = b.fresh()
		b.constants[bits] = id
		*b.defined = append(*b.defined, newInstruction(opConstant, b.m.float, id, bits))
	}
	return id
}

// with is the module in which functions have other bodies, as write appends them
// (it is given the function's name and its parameters), without what nobody calls
// and the buffers that nobody sees.
func (m *spirvModule) with(names []string, write func(name string, b *spirvBody, parameters []uint32)) []byte {
	next := m.header[3]
	var constants []instruction
	known := map[uint32]uint32{}
	bodies := map[int][]instruction{}
	for _, name := range names {
		i := m.named[name]
		b := &spirvBody{m: m, next: &next, constants: known, defined: &constants}
		var parameters []uint32
		head := m.functions[i].code[:1:1]
		for _, in := range m.functions[i].code[1:] {
			if in.op == opFunctionParameter {
				parameters = append(parameters, in.words[2])
				head = append(head, in)
			}
		}
		write(name, b, parameters)
		body := append(head, newInstruction(opLabel, b.fresh()))
		bodies[i] = append(append(body, b.code...), newInstruction(opReturn), newInstruction(opFunctionEnd))
	}
	codeOf := func(i int) []instruction {
		if body, ok := bodies[i]; ok {
			return body
		}
		return m.functions[i].code
	}

	// What main calls, and what of buffers that sees.
	called, seen := make([]bool, len(m.functions)), map[uint32]bool{}
	for list := []int{m.named["main"]}; len(list) > 0; {
		i := list[0]
		if list = list[1:]; called[i] {
			continue
		}
		called[i] = true
		for _, in := range codeOf(i) {
			switch in.op {
			case opFunctionCall:
				list = append(list, m.byID[in.words[3]])
			case opAccessChain:
				seen[in.words[3]] = true
			}
		}
	}
	gone := map[uint32]bool{}
	for i, f := range m.functions {
		if _, replaced := bodies[i]; !called[i] || replaced {
			for _, in := range f.code {
				gone[in.result()] = true
			}
		}
	}
	for i := range bodies {
		if called[i] {
			for _, in := range codeOf(i) {
				delete(gone, in.result())
			}
		}
	}
	for _, in := range m.globals {
		if in.op == opVariable && in.words[3] == storageBuffer && !seen[in.words[2]] {
			gone[in.words[2]] = true
		}
	}

	out := append([]uint32{}, m.header[:]...)
	for _, in := range m.globals {
		switch {
		case in.op == opDecorate && gone[in.words[1]], in.op == opVariable && gone[in.words[2]]:
			continue
		case in.op == opEntryPoint:
			in = withoutInterfaces(in, gone)
		}
		out = append(out, in.words...)
	}
	for _, in := range constants {
		out = append(out, in.words...)
	}
	for i := range m.functions {
		if called[i] {
			for _, in := range codeOf(i) {
				out = append(out, in.words...)
			}
		}
	}
	out[3] = next
	var code []byte
	for _, w := range out {
		code = endian.LittleEndian.AppendUint32(code, w)
	}
	return code
}

// withoutInterfaces is an entry point that does not name what is gone.
func withoutInterfaces(in instruction, gone map[uint32]bool) instruction {
	name := 3 // the words of the name end with one that has a zero
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
