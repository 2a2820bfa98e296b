//go:build unix

package cpu

import "golang.org/x/sys/unix"

// block is n zero bytes, or an error if there are none to be had. They lie outside
// the Go heap: as a part of it they would count as what lives, and the collector
// would let as much garbage pile up beside them.
func block(n int) ([]byte, error) {
	if n == 0 {
		return []byte{}, nil
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// giveBack ends a block. Nothing may look at it any more.
func giveBack(b []byte) {
	if len(b) > 0 {
		_ = unix.Munmap(b) // fails for what is no mapping, which a block is
	}
}
