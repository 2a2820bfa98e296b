package f32

import "slices"

// Levels lists the supported instruction sets of this machine, best first: "avx512", "avx2", "go".
func Levels() (names []string) {
	for _, t := range tiles {
		names = append(names, t.name)
	}
	return names
}

// UseLevel restricts this package to a level of Levels, and returns a function that restores the
// current one. It is for tests, and must not be called while anything runs.
func UseLevel(name string) (restore func()) {
	was := tiles
	tiles = tiles[slices.IndexFunc(tiles, func(t tile) bool { return t.name == name }):]
	setVectors(name)
	return func() {
		tiles = was
		setVectors(was[0].name)
	}
}
