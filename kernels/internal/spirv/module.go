package spirv

import (
	"fmt"
	"slices"
	"strings"
)

// Module is a module that was compiled without optimization, so that its functions have names.
type Module struct {
	header    [spirvHeader]uint32
	globals   []instruction // all instructions before the first function
	functions []function
	named     map[string]int // functions by their names in GLSL
	byID      map[uint32]int
	float     uint32 // id of the type
}

type function struct {
	id, returns uint32
	code        []instruction
}

// Read parses a module.
func Read(code []byte) *Module {
	m := &Module{named: map[string]int{}, byID: map[uint32]int{}}
	words := wordsOf(code)
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
			m.functions = append(m.functions, function{id: in.words[2], returns: in.words[1]})
		}
		if n := len(m.functions); n > 0 {
			m.functions[n-1].code = append(m.functions[n-1].code, in)
		} else {
			m.globals = append(m.globals, in)
		}
	}
	return m
}

// Edit is a copy of a module in which functions get new bodies: sequences of calls.
type Edit struct {
	*Module
	next      uint32            // the first unused id
	numbers   map[uint32]uint32 // by bits, a constant's id
	constants []instruction
	bodies    map[int][]instruction
	at        int // the function that is being written
}

// Edit starts an edit, which does not change the module.
func (m *Module) Edit() *Edit {
	return &Edit{Module: m, next: m.header[3], numbers: map[uint32]uint32{}, bodies: map[int][]instruction{}}
}

// function is the index of a function; a missing one is a bug.
func (m *Module) function(name string) int {
	i, ok := m.named[name]
	if !ok {
		panic(fmt.Sprintf("spirv: the module has no function %s", name))
	}
	return i
}

func (e *Edit) fresh() uint32 {
	e.next++
	return e.next - 1
}

// Write starts a new body of a function and returns its parameters.
func (e *Edit) Write(name string) (parameters []uint32) {
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

// Call appends a call and returns its result.
func (e *Edit) Call(name string, args ...uint32) uint32 {
	f, id := e.functions[e.function(name)], e.fresh()
	e.bodies[e.at] = append(e.bodies[e.at], newInstruction(opFunctionCall, append([]uint32{f.returns, id, f.id}, args...)...))
	return id
}

// Number returns a float32 constant with these bits.
func (e *Edit) Number(bits uint32) uint32 {
	id, ok := e.numbers[bits]
	if !ok {
		id = e.fresh()
		e.numbers[bits] = id
		e.constants = append(e.constants, newInstruction(opConstant, e.float, id, bits))
	}
	return id
}

// code is the current code of function i.
func (e *Edit) code(i int) []instruction {
	if body, ok := e.bodies[i]; ok {
		return append(slices.Clip(body), newInstruction(opReturn), newInstruction(opFunctionEnd))
	}
	return e.functions[i].code
}

// reached finds the functions that main calls, directly or not, and the variables they use.
func (e *Edit) reached() (called []bool, seen map[uint32]bool) {
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

// Code returns the edited module without unused functions and buffers.
func (e *Edit) Code() []byte {
	called, seen := e.reached()
	var code []instruction
	made := map[uint32]bool{} // results of remaining functions
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
