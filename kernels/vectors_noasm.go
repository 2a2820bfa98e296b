//go:build !amd64

package kernels

const (
	vectors   = false
	lanes     = 1
	noVectors = "kernels: there are no vectors here"
)
