package kernels

// lowerLevels are those below the best, the best of them first.
func lowerLevels() (list []level) {
	if vectors && lanes == 16 {
		list = append(list, level{"AVX2", func() { lanes = 8; only("avx2") }})
	}
	if vectors {
		list = append(list, level{"Go", func() { vectors = false; only("go") }})
	}
	return list
}

// holdLevel gives what brings the present level back.
func holdLevel() func() {
	v, l, t := vectors, lanes, tiles
	return func() { vectors, lanes, tiles = v, l, t }
}
