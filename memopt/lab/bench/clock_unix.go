//go:build unix

package bench

import (
	"os"
	"runtime"
	"syscall"
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

// mostMemory is the peak memory of a process.
func mostMemory(s *os.ProcessState) int64 {
	u, is := s.SysUsage().(*syscall.Rusage)
	switch {
	case !is:
		return 0
	case runtime.GOOS == "darwin":
		return int64(u.Maxrss)
	default:
		return int64(u.Maxrss) << 10
	}
}
