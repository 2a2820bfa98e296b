package kernels

import (
	endian "encoding/binary"
	"fmt"
	"slices"
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

// spirvEdit is a module in which functions get other bodies: calls of others, one
// after another.
type spirvEdit struct {
	*spirvModule
	next      uint32 // the first number that is free
	numbers   map[uint32]uint32
	constants []instruction // of the numbers
	bodies    map[int][]instruction
	at        int // the function that is written
}

func (m *spirvModule) edit() *spirvEdit {
	return &spirvEdit{spirvModule: m, next: m.header[3], numbers: map[uint32]uint32{}, bodies: map[int][]instruction{}}
}

// function is the number of one. One that is not there is our own mistake.
func (m *spirvModule) function(name string) int {
	i, ok := m.named[name]
	if !ok {
		panic(fmt.Sprintf("kernels: the shader has no function %s", name))
	}
	return i
}

func (e *spirvEdit) fresh() uint32 {
	e.next++
	return e.next - 1
}

// write begins the body of a function, and gives its parameters.
func (e *spirvEdit) write(name string) (parameters []uint32) {
	e.at = e.function(name)
	code := e.functions[e.at].code
	body := []instruction{code[0]}
	for _, in := range code {
		if in.op == opFunctionParameter {
			parameters = append(parameters, in.words[2])
			body = append(body, in)
		}
	}
	e.bodies[e.at] = append(body, newInstruction(opLabel, e.fresh()))
	return parameters
}

// call appends a call and gives what it returns.
func (e *spirvEdit) call(name string, args ...uint32) uint32 {
	f, id := e.functions[e.function(name)], e.fresh()
	e.bodies[e.at] = append(e.bodies[e.at], newInstruction(opFunctionCall, append([]uint32{f.returns, id, f.id}, args...)...))
	return id
}

// number is a float32 as a constant, by its bits.
func (e *spirvEdit) number(bits uint32) uint32 {
	id, ok := e.numbers[bits]
	if !ok {
		id = e.fresh()
		e.numbers[bits] = id
		e.constants = append(e.constants, newInstruction(opConstant, e.float, id, bits))
	}
	return id
}

// code is a function's, as it is now.
func (e *spirvEdit) code(i int) []instruction {
	if body, ok := e.bodies[i]; ok {
		return append(slices.Clip(body), newInstruction(opReturn), newInstruction(opFunctionEnd))
	}
	return e.functions[i].code
}

// reached is the functions that main calls, and the variables that those see.
func (e *spirvEdit) reached() (called []bool, seen map[uint32]bool) {
	called, seen = make([]bool, len(e.functions)), map[uint32]bool{}
	for list := []int{e.function("main")}; len(list) > 0; {
		i := list[0]
		if list = list[1:]; called[i] {
			continue
		}
		called[i] = true
		for _, in := range e.code(i) {
			switch in.op {
			case opFunctionCall:
				list = append(list, e.byID[in.words[3]])
			case opAccessChain:
				seen[in.words[3]] = true
			}
		}
	}
	return called, seen
}

// module is the whole, without what nobody calls and buffers that nobody sees.
func (e *spirvEdit) module() []byte {
	called, seen := e.reached()
	var code []instruction
	made := map[uint32]bool{} // in functions that stay
	for i := range e.functions {
		if called[i] {
			for _, in := range e.code(i) {
				code, made[in.result()] = append(code, in), true
			}
		}
	}
	gone := map[uint32]bool{}
	for i, f := range e.functions {
		for _, in := range f.code {
			gone[in.result()] = !called[i] || !made[in.result()]
		}
	}
	var globals []instruction
	for _, in := range e.globals {
		if in.op == opVariable && in.words[3] == storageBuffer {
			gone[in.words[2]] = !seen[in.words[2]]
		}
	}
	for _, in := range e.globals {
		switch {
		case in.op == opDecorate && gone[in.words[1]], in.op == opVariable && gone[in.words[2]]:
		case in.op == opEntryPoint:
			globals = append(globals, withoutInterfaces(in, gone))
		default:
			globals = append(globals, in)
		}
	}
	words := slices.Clone(e.header[:])
	words[3] = e.next
	for _, in := range slices.Concat(globals, e.constants, code) {
		words = append(words, in.words...)
	}
	return bytesOf(words)
}

func bytesOf(words []uint32) []byte {
	out := make([]byte, 0, 4*len(words))
	for _, w := range words {
		out = endian.LittleEndian.AppendUint32(out, w)
	}
	return out
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
