//go:build !amd64

package f32

const (
	vectors   = false
	lanes     = 1
	noVectors = "f32: there are no vectors here"
)

func setVectors(string) {}
