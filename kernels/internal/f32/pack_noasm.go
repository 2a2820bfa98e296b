//go:build !amd64

package f32

func copySeen(_, _ []float32, _ []sight, _, _, _ int) { panic(noVectors) }

func copyPairs(_, _ []float32, _ []sight, _, _ int) { panic(noVectors) }

func turnAll(_, _ []float32, _ *turning, _, _ int) { panic(noVectors) }

func turnSeen(_, _ []float32, _ *turning, _, _ int, _ []uint64, _ int) { panic(noVectors) }

func turnPairs(_, _ []float32, _ *turning, _, _ int, _ []uint64, _ int) { panic(noVectors) }

func turnSome(_, _ []float32, _ *turning, _, _, _, _ int) { panic(noVectors) }
