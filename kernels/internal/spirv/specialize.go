package spirv

// Opcodes of constants and of what is worked out of them.
const (
	opConstantTrue   = 41
	opConstantFalse  = 42
	opSpecConstant   = 50
	opSpecConstantOp = 52
	opIAdd           = 128 // the first that may be folded
	opISub           = 130
	opIMul           = 132
	opUDiv           = 134
	opUMod           = 137
	opLogicalEqual   = 164
	opLogicalUnequal = 165
	opLogicalOr      = 166
	opLogicalAnd     = 167
	opLogicalNot     = 168
	opSelect         = 169
	opIEqual         = 170
	opIUnequal       = 171
	opUGreater       = 172
	opUGreaterEqual  = 174
	opULess          = 176
	opULessEqual     = 178 // the last that may be folded
	specID           = 1   // a decoration
)

// known has the values of ids that specialization constants decide.
type known map[uint32]uint32

// learn adds an instruction's result, if it follows from what is known. spec has the values of specialization
// constants by number, numbers the numbers by id.
func (k known) learn(in instruction, spec, numbers map[uint32]uint32) {
	switch in.op {
	case opConstantTrue, opConstantFalse:
		k[in.words[2]] = uint32(opConstantFalse - in.op)
	case opConstant:
		if len(in.words) == 4 { // 32 bits
			k[in.words[2]] = in.words[3]
		}
	case opSpecConstant:
		if number, ok := numbers[in.words[2]]; ok {
			if v, ok := spec[number]; ok {
				k[in.words[2]] = v
			}
		}
	case opSpecConstantOp:
		k.fold(int(in.words[3]), in.words[2], in.words[4:])
	default:
		if in.op >= opIAdd && in.op <= opULessEqual {
			k.fold(in.op, in.words[2], in.words[3:])
		}
	}
}

// fold works out an operation on integers or truth values, if its operands are known.
func (k known) fold(op int, result uint32, operands []uint32) {
	if op == opSelect {
		if which, ok := k[operands[0]]; ok {
			if v, ok := k[operands[2-which]]; ok {
				k[result] = v
			}
		}
		return
	}
	a, ok := k[operands[0]]
	if !ok {
		return
	}
	truth := func(v bool) uint32 {
		if v {
			return 1
		}
		return 0
	}
	if op == opLogicalNot {
		k[result] = 1 - a
		return
	}
	if len(operands) != 2 {
		return
	}
	b, ok := k[operands[1]]
	if !ok {
		return
	}
	switch op {
	case opIAdd:
		k[result] = a + b
	case opISub:
		k[result] = a - b
	case opIMul:
		k[result] = a * b
	case opUDiv:
		if b != 0 {
			k[result] = a / b
		}
	case opUMod:
		if b != 0 {
			k[result] = a % b
		}
	case opLogicalEqual, opIEqual:
		k[result] = truth(a == b)
	case opLogicalUnequal, opIUnequal:
		k[result] = truth(a != b)
	case opLogicalOr:
		k[result] = a | b
	case opLogicalAnd:
		k[result] = a & b
	case opUGreater:
		k[result] = truth(a > b)
	case opUGreaterEqual:
		k[result] = truth(a >= b)
	case opULess:
		k[result] = truth(a < b)
	case opULessEqual:
		k[result] = truth(a <= b)
	}
}

// prune leaves out the blocks that are never entered, and what operands of phis come from them.
func (s *analyzed) prune() {
	entered := s.before(0, -1)
	entered[0] = true
	labels := map[uint32]bool{}
	for b, block := range s.blocks {
		if entered[b] {
			labels[block.label] = true
		} else {
			block.code, block.next = block.code[len(block.code)-1:], nil
		}
	}
	for _, block := range s.blocks {
		for i, in := range block.code {
			if in.op != opPhi {
				continue
			}
			words := append([]uint32(nil), in.words[:3]...)
			for j := 3; j < len(in.words); j += 2 {
				if labels[in.words[j+1]] {
					words = append(words, in.words[j], in.words[j+1])
				}
			}
			block.code[i].words = words
		}
	}
}
