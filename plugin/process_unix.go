//go:build unix

package plugin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// alive reports whether a process exists, also one that this process may not signal.
func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
