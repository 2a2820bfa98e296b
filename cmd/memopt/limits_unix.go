//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"memopt/memopt"
)

// What the program needs to start: descriptors for the Go runtime, which ends in a
// trace without them, and files; and address space, of which the runtime takes
// pieces of 64 MiB.
const (
	leastFiles = 8
	leastSpace = 384 << 20
)

// fitLimits makes errors of what limits of the shell would end the program with,
// and refuses limits too low to begin.
func fitLimits() error {
	// A pipe that nobody reads and a file that becomes too large are errors of
	// writing then.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)
	if err := roomForFiles(); err != nil {
		return err
	}
	room, limited := memopt.AddressSpace()
	if !limited {
		return nil
	}
	if room < leastSpace {
		return fmt.Errorf("the limit of address space (ulimit -v) leaves %d MiB; memopt needs %d MiB to start, and more for models", room>>20, leastSpace>>20)
	}
	// Collect garbage before the limit is reached: an allocation beyond it ends a
	// Go program, and says where all goroutines are unless it is told not to.
	debug.SetMemoryLimit(room * 3 / 4)
	if os.Getenv(traceback) == "" {
		if self, err := os.Executable(); err == nil {
			return syscall.Exec(self, os.Args, append(os.Environ(), traceback+"=none"))
		}
	}
	return nil
}

const traceback = "GOTRACEBACK"

// roomForFiles opens files without the runtime's help.
func roomForFiles() error {
	var open []int
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for range leastFiles {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			return fmt.Errorf("the limit of open files (ulimit -n) leaves %d; memopt needs %d", len(open), leastFiles)
		}
		if err != nil {
			return nil
		}
		open = append(open, fd)
	}
	return nil
}

// unread is whether nobody can read what is written to a pipe.
func unread(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLERR != 0
}
