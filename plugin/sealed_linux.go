package plugin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// sealed returns an error if the descriptor's file could be shrunk.
func sealed(fd int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return errors.New("not a memory file of memfd_create")
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return errors.New("not sealed with F_SEAL_SHRINK")
	}
	return nil
}
