package f32

import "golang.org/x/sys/cpu"

// The instruction sets of this CPU. The assembly for AVX-512 stands on that for AVX2: who lacks the
// latter, or runs with GODEBUG=cpu.avx2=off, has neither.
var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F
)

// vectors tells whether this CPU supports loops of rowgen; lanes is the number of floats in its
// widest supported register.
var vectors, lanes = hasAVX2, lanesOf(hasAVX512)

// setVectors sets vectors and lanes for a level.
func setVectors(level string) { vectors, lanes = level != "go", lanesOf(level == "avx512") }

func lanesOf(avx512 bool) int {
	if avx512 {
		return 16
	}
	return 8
}
