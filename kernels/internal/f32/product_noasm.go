//go:build !amd64

package f32

func fastTiles() []tile { return nil }

func turn8(_, _ []float32, _, _, _ int) { panic(noVectors) }

func copyRows8(_, _ []float32, _, _, _, _ int) { panic(noVectors) }
