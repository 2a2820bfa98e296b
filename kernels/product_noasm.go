//go:build !amd64

package kernels

func fastTiles() []tile { return nil }
