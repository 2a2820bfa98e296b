package weights

import (
	"os"

	"golang.org/x/sys/unix"
)

// isHole reports whether no byte of a file was ever written.
func isHole(h *os.File) bool {
	_, err := unix.Seek(int(h.Fd()), 0, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return true
	}
	_, _ = unix.Seek(int(h.Fd()), 0, unix.SEEK_SET)
	return false
}
