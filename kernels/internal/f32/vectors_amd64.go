package f32

import "golang.org/x/sys/cpu"

// vectors tells whether this CPU supports loops of rowgen; lanes is the number of floats in its
// widest supported register.
var vectors, lanes = cpu.X86.HasAVX2 && cpu.X86.HasFMA, lanesOf(cpu.X86.HasAVX512F)

// setVectors sets vectors and lanes for a level.
func setVectors(level string) { vectors, lanes = level != "go", lanesOf(level == "avx512") }

func lanesOf(avx512 bool) int {
	if avx512 {
		return 16
	}
	return 8
}
