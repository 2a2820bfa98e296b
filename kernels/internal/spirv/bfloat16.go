package spirv

// What BFloat16 takes away and puts in its place.
const (
	opExtension                = 10
	capabilityFloat16          = 9
	capabilityBFloat16         = 5116
	capabilityBFloat16Matrices = 5118
	bfloat16Encoding           = 0
	bfloat16Extension          = "SPV_KHR_bfloat16"
	float16Bits                = 16
)

// BFloat16 is a kernel with cooperative matrices whose elements are bfloat16 in place of float16. The kernel may convert elements
// from and to float32, move them and multiply matrices of them; of constants it may have 0 only, which is the same in both.
func BFloat16(code []byte) []byte {
	words := wordsOf(code)
	out := append([]uint32{}, words[:spirvHeader]...)
	put := func(in instruction) { out = append(out, in.words...) }
	half, extended := uint32(0), false
	for _, in := range instructions(words) {
		if in.op != opCapability && !extended {
			text := make([]byte, (len(bfloat16Extension)/4+1)*4) // a zero ends it
			copy(text, bfloat16Extension)
			put(newInstruction(opExtension, wordsOf(text)...))
			extended = true
		}
		switch {
		case in.op == opCapability && in.words[1] == capabilityFloat16:
			put(newInstruction(opCapability, capabilityBFloat16))
			put(newInstruction(opCapability, capabilityBFloat16Matrices))
		case in.op == opTypeFloat && in.words[2] == float16Bits:
			half = in.words[1]
			put(newInstruction(opTypeFloat, half, float16Bits, bfloat16Encoding))
		case in.op == opConstant && in.words[1] == half && in.words[3] != 0:
			panic("a kernel with cooperative matrices has a constant of float16 that is not 0")
		default:
			put(in)
		}
	}
	return bytesOf(out)
}
