package plugin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// watchProcess calls gone within milliseconds after the process ends, by a pidfd. PR_SET_PDEATHSIG
// would not do: it fires when the thread that started this process ends, even if its process lives.
func watchProcess(pid int, gone func()) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		gone()
		return
	}
	if err != nil { // kernel before 5.3, or a sandbox
		pollProcess(pid, gone)
		return
	}
	go func() {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if n > 0 {
				gone()
				return
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				pollProcess(pid, gone)
				return
			}
		}
	}()
}
