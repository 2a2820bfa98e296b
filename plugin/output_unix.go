//go:build unix && !linux

package plugin

import "golang.org/x/sys/unix"

// redirect makes the descriptor `to` write where `from` writes.
func redirect(from, to int) error {
	if err := unix.Dup2(from, to); err != nil {
		return err
	}
	unix.CloseOnExec(to)
	return nil
}
