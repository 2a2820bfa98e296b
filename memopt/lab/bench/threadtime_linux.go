package bench

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs a function and returns its thread's CPU time.
func onThread(f func() error) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}
	begin := now()
	err := f()
	return now() - begin, err
}
