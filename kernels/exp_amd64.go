package kernels

import "golang.org/x/sys/cpu"

// expAVX2 is exp32 of n elements, n a multiple of 8.
//
//go:noescape
func expAVX2(y, x *float32, n int)

var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// expRow is y = eˣ. The last few elements pass through the same instructions
// as the others, so that no element's bits depend on its place.
func expRow(y, x []float32) {
	y = y[:len(x)]
	if !vectors {
		for i, v := range x {
			y[i] = exp32(v)
		}
		return
	}
	full := len(x) &^ 7
	if full > 0 {
		expAVX2(&y[0], &x[0], full)
	}
	if full < len(x) {
		var rest [8]float32
		copy(rest[:], x[full:])
		expAVX2(&rest[0], &rest[0], 8)
		copy(y[full:], rest[:])
	}
}
