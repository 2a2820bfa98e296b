package f32

import "slices"

// Levels are the kinds of instructions that loops and products are written for and
// this machine has, best first: "avx512", "avx2", "go".
func Levels() (names []string) {
	for _, t := range tiles {
		names = append(names, t.name)
	}
	return names
}

// UseLevel holds everything to a level that Levels names, as a lesser machine would run
// it, and gives what brings the present one back. Tests call it, while nothing runs.
func UseLevel(name string) (restore func()) {
	was := tiles
	tiles = tiles[slices.IndexFunc(tiles, func(t tile) bool { return t.name == name }):]
	setVectors(name)
	return func() {
		tiles = was
		setVectors(was[0].name)
	}
}
