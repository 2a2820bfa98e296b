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

	"memopt/memopt/machine"
)

// What the program needs to start: file descriptors for the Go runtime, which panics without them,
// and for files; and address space, which the runtime reserves in blocks of 64 MiB.
const (
	leastFiles = 8
	leastSpace = 384 << 20
)

// fitLimits turns signals about limits into errors, and refuses limits of the shell too low to run
// with.
func fitLimits() error {
	// Writing to a closed pipe or beyond the limit of file sizes then returns an error.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)
	if err := roomForFiles(); err != nil {
		return err
	}
	room, limited := machine.AddressSpace()
	if !limited {
		return nil
	}
	if room < leastSpace {
		return fmt.Errorf("the limit of address space (ulimit -v) leaves %d MiB; memopt needs %d MiB to start, and more for models", room>>20, leastSpace>>20)
	}
	// Collect garbage before the limit is reached: an allocation beyond it ends a Go program, with
	// a dump of all goroutines unless GOTRACEBACK turns that off.
	debug.SetMemoryLimit(room * 3 / 4)
	if os.Getenv(traceback) == "" {
		if self, err := os.Executable(); err == nil {
			return syscall.Exec(self, os.Args, append(os.Environ(), traceback+"=none"))
		}
	}
	return nil
}

const traceback = "GOTRACEBACK"

// roomForFiles checks the limit of open files by opening some without Go's runtime.
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

// unread reports whether f is a pipe whose reader has closed it.
func unread(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLERR != 0
}
