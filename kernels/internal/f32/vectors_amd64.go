package f32

import "golang.org/x/sys/cpu"

// vectors says whether this CPU has one of the kinds of vectors that rowgen
// writes loops for, lanes how many elements the best of them holds.
var vectors, lanes = cpu.X86.HasAVX2 && cpu.X86.HasFMA, lanesOf(cpu.X86.HasAVX512F)

// setVectors is those of a level.
func setVectors(level string) { vectors, lanes = level != "go", lanesOf(level == "avx512") }

func lanesOf(avx512 bool) int {
	if avx512 {
		return 16
	}
	return 8
}
