//go:build unix

package arena

import (
	"math"

	"golang.org/x/sys/unix"
)

// Map is n zero bytes outside the Go heap, or an error if there are none to be had. As a part of the heap they would
// count as what lives, and the collector would let as much garbage pile up beside them.
func Map(n int64) ([]byte, error) {
	switch {
	case n == 0:
		return []byte{}, nil
	case n < 0 || n > math.MaxInt:
		return nil, unix.ENOMEM
	}
	return unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// Unmap ends them. Nothing may look at them any more.
func Unmap(b []byte) {
	if len(b) > 0 {
		_ = unix.Munmap(b) // fails for what is no mapping, which these are
	}
}
