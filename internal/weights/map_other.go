//go:build !unix

package weights

import (
	"errors"
	"os"
)

// openNonblock is only known to unix.
const openNonblock = 0

// mapFile fails, and the caller reads the file into the heap and counts it.
func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// outOfSpace is unknown on this system.
func outOfSpace(error) bool { return false }

// mapZeros fails, and the caller allocates the zeros and counts them.
func mapZeros(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// unmap does nothing.
func unmap([]byte) error { return nil }

// dropPages does nothing.
func dropPages([]byte) {}
