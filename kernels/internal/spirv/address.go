package spirv

import "slices"

// Buffers by device address. Bound storage buffers are replaced by 64-bit addresses, which
// follow the push constants in order of bindings. Drivers then need no descriptor lookup
// and no bounds check, and the limit on a binding's range does not apply.

// Constants of SPIR-V beside those of instruction.go.
const (
	opMemoryModel         = 14
	opCapability          = 17
	opTypeVoid            = 19 // the first type opcode
	opTypeInt             = 21
	opTypeVector          = 23
	opTypeArray           = 28
	opTypeStruct          = 30
	opTypePointer         = 32
	opLoad                = 61
	opInBoundsAccessChain = 66
	opMemberDecorate      = 72
	opBitcast             = 124

	pushConstant    = 9 // storage classes
	physicalStorage = 5349

	decorationBlock   = 2
	decorationStride  = 6
	decorationBinding = 33
	decorationOffset  = 35

	capabilityInt8      = 39
	capabilityAddresses = 5347
	modelAddresses      = 5348 // PhysicalStorageBuffer64
	operandAligned      = 2
	addressBytes        = 8
)

// addressing rewrites a module to use addresses.
type addressing struct {
	next     uint32                 // the first unused id
	made     map[uint32]instruction // types, constants and variables by id
	strides  map[uint32]uint32      // array strides
	bindings map[uint32]uint32      // buffers' bindings
	bytewise bool                   // the module has 8-bit integers
	push     uint32                 // the push constants' variable, and its structure
	pushed   instruction
	offsets  []instruction // of the structure's members
	// Types: uint, uvec2 (an address), and a push constant pointer to that.
	word, pair, place uint32
	members           []uint32 // by binding, the constant that is its address's member index
}

// Addressed returns a module that accesses its buffers by address, or nil if the module
// has no push constants.
func Addressed(code []byte) []byte {
	words := wordsOf(code)
	if len(words) == 0 {
		return nil
	}
	all := instructions(words)
	first := slices.IndexFunc(all, func(in instruction) bool { return in.op == opFunction })
	a := &addressing{next: words[3], made: map[uint32]instruction{}, strides: map[uint32]uint32{}, bindings: map[uint32]uint32{}}
	a.survey(all[:first])
	if a.push == 0 {
		return nil
	}
	out := slices.Clone(words[:spirvHeader])
	write := func(list []instruction) {
		for _, in := range list {
			out = append(out, in.words...)
		}
	}
	write(a.globals(all[:first]))
	for rest := all[first:]; len(rest) > 0; {
		n := 1 + slices.IndexFunc(rest, func(in instruction) bool { return in.op == opFunctionEnd })
		write(a.function(rest[:n]))
		rest = rest[n:]
	}
	out[3] = a.next
	return bytesOf(out)
}

func (a *addressing) fresh() uint32 {
	a.next++
	return a.next - 1
}

// survey records the global declarations.
func (a *addressing) survey(globals []instruction) {
	for _, in := range globals {
		switch {
		case in.op == opDecorate && in.words[2] == decorationBinding:
			a.bindings[in.words[1]] = in.words[3]
		case in.op == opDecorate && in.words[2] == decorationStride:
			a.strides[in.words[1]] = in.words[3]
		case in.op == opTypeInt, in.op == opTypeFloat, in.op == opTypeVector, in.op == opTypeArray, in.op == opTypeStruct, in.op == opTypePointer:
			a.made[in.words[1]] = in
			switch {
			case in.op == opTypeInt && in.words[2] == 8:
				a.bytewise = true
			case in.op == opTypeInt && in.words[2] == 32 && in.words[3] == 0:
				a.word = in.words[1]
			case in.op == opTypeVector && in.words[3] == 2 && in.words[2] == a.word:
				a.pair = in.words[1]
			}
		case in.op == opConstant, in.op == opVariable:
			a.made[in.words[2]] = in
			if in.op == opVariable && in.words[3] == pushConstant {
				a.push = in.words[2]
				a.pushed = a.made[a.made[in.words[1]].words[3]]
			}
		}
	}
	for _, in := range globals {
		if in.op == opMemberDecorate && a.push != 0 && in.words[1] == a.pushed.words[1] && in.words[3] == decorationOffset {
			a.offsets = append(a.offsets, in)
		}
	}
}

// bytes is a type's size in memory.
func (a *addressing) bytes(t uint32) uint32 {
	switch in := a.made[t]; in.op {
	case opTypeVector:
		return in.words[3] * a.bytes(in.words[2])
	case opTypeArray:
		return a.strides[t] * a.made[in.words[3]].words[3]
	default:
		return in.words[2] / 8
	}
}

// globals rewrites the declarations before the functions: buffers are removed, and push
// constants are declared anew, after all types.
func (a *addressing) globals(all []instruction) (out []instruction) {
	bound, gone := uint32(0), map[uint32]bool{a.push: true}
	for id, binding := range a.bindings {
		bound, gone[id] = max(bound, binding+1), true
	}
	structure, pointer := a.fresh(), a.fresh()
	decors, types := a.addresses(bound, structure, pointer)
	for i, in := range all {
		switch {
		case in.op == opCapability && i == 0:
			if out = append(out, in, newInstruction(opCapability, capabilityAddresses)); a.bytewise {
				out = append(out, newInstruction(opCapability, capabilityInt8)) // for casts to byte pointers
			}
			continue
		case in.op == opMemoryModel:
			in = newInstruction(opMemoryModel, modelAddresses, in.words[2])
		case in.op == opEntryPoint:
			in = withoutInterfaces(in, gone)
			in = newInstruction(opEntryPoint, append(in.words[1:], a.push)...)
		case in.op == opTypePointer && in.words[2] == storageBuffer:
			in = newInstruction(opTypePointer, in.words[1], physicalStorage, in.words[3])
			a.made[in.words[1]] = in
		case (in.op == opName || in.op == opDecorate) && gone[in.words[1]], in.op == opVariable && gone[in.words[2]]:
			continue
		}
		if len(decors) > 0 && in.op >= opTypeVoid && in.op <= opTypePointer {
			out, decors = append(out, decors...), nil
		}
		out = append(out, in)
	}
	return append(out, types...)
}

// addresses declares the push constants with an address appended for each binding.
func (a *addressing) addresses(bound, structure, pointer uint32) (decors, types []instruction) {
	members, end := slices.Clone(a.pushed.words[2:]), uint32(0)
	for i, t := range members {
		end = max(end, a.offsets[i].words[4]+a.bytes(t))
		decors = append(decors, newInstruction(opMemberDecorate, structure, uint32(i), decorationOffset, a.offsets[i].words[4]))
	}
	if a.word == 0 {
		a.word = a.fresh()
		types = append(types, newInstruction(opTypeInt, a.word, 32, 0))
	}
	if a.pair == 0 {
		a.pair = a.fresh()
		types = append(types, newInstruction(opTypeVector, a.pair, a.word, 2))
	}
	for b := range bound {
		number := a.fresh()
		types = append(types, newInstruction(opConstant, a.word, number, uint32(len(members))))
		a.members = append(a.members, number)
		at := (end+addressBytes-1)/addressBytes*addressBytes + b*addressBytes
		decors = append(decors, newInstruction(opMemberDecorate, structure, uint32(len(members)), decorationOffset, at))
		members = append(members, a.pair)
	}
	a.place = a.fresh()
	return append(decors, newInstruction(opDecorate, structure, decorationBlock)), append(types,
		newInstruction(opTypeStruct, append([]uint32{structure}, members...)...),
		newInstruction(opTypePointer, pointer, pushConstant, structure),
		newInstruction(opTypePointer, a.place, pushConstant, a.pair),
		newInstruction(opVariable, pointer, a.push, pushConstant))
}

// function rewrites a function: it loads the addresses of its buffers first, and its loads
// and stores state their alignment.
func (a *addressing) function(code []instruction) (out []instruction) {
	var take []instruction
	taken := map[uint32]uint32{} // by buffer, its address
	pointers := map[uint32]uint32{}
	for i, in := range code {
		in.words = slices.Clone(in.words)
		code[i] = in
		switch in.op {
		case opAccessChain, opInBoundsAccessChain:
			binding, isBuffer := a.bindings[in.words[3]]
			if !isBuffer {
				continue
			}
			at, there := taken[in.words[3]]
			if !there {
				place, pair := a.fresh(), a.fresh()
				at = a.fresh()
				taken[in.words[3]] = at
				take = append(take, newInstruction(opAccessChain, a.place, place, a.push, a.members[binding]),
					newInstruction(opLoad, a.pair, pair, place), newInstruction(opBitcast, a.made[in.words[3]].words[1], at, pair))
			}
			in.words[3], pointers[in.words[2]] = at, in.words[1]
		case opLoad:
			if p, ok := pointers[in.words[3]]; ok {
				code[i] = newInstruction(opLoad, append(in.words[1:], operandAligned, a.alignment(p))...)
			}
		case opStore:
			if p, ok := pointers[in.words[1]]; ok {
				code[i] = newInstruction(opStore, append(in.words[1:], operandAligned, a.alignment(p))...)
			}
		}
	}
	begin := 1 + slices.IndexFunc(code, func(in instruction) bool { return in.op == opLabel })
	for code[begin].op == opVariable {
		begin++
	}
	return slices.Concat(code[:begin], take, code[begin:])
}

// alignment is the alignment of a pointer's target: the largest power of two that divides its size.
func (a *addressing) alignment(pointer uint32) uint32 {
	size := a.bytes(a.made[pointer].words[3])
	return size & -size
}
