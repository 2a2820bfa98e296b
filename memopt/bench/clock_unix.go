//go:build unix

package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime is the CPU time of all threads of this process so far.
func processTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
