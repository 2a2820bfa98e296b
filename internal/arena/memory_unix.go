//go:build unix

package arena

import (
	"math"

	"golang.org/x/sys/unix"
)

// pages is n zero bytes.
func pages(n int64) ([]byte, error) {
	switch {
	case n == 0:
		return []byte{}, nil
	case n < 0 || n > math.MaxInt:
		return nil, unix.ENOMEM
	}
	return unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

func unmap(b []byte) {
	if len(b) > 0 {
		_ = unix.Munmap(b) // cannot fail: b is a mapping
	}
}
