//go:build unix

package plugin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// alive tells whether the process exists; one that we may not signal does.
func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
