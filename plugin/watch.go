//go:build unix

package plugin

import (
	"io"
	"os"
	"strconv"
	"time"
)

// parentVariable holds the process ID of a host that also connects a pipe to our standard input.
const parentVariable = "MEMOPT_PARENT_PID"

// watchHost calls gone, possibly more than once, when the process that started this one has ended
// for any reason.
//
// It watches the parent and the process named by parentVariable. They are the same, unless there is
// a wrapper between them, or the host ended before this process looked: then only the name tells. A
// closed standard input means the same, but is not sufficient, as a forked worker of the host may
// hold the pipe open for hours.
func watchHost(gone func()) {
	watchProcess(os.Getppid(), gone)
	named, err := strconv.Atoi(os.Getenv(parentVariable))
	if err != nil || named <= 0 {
		return
	}
	if named != os.Getppid() {
		watchProcess(named, gone)
	}
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			gone()
		}()
	}
}

// pollProcess is watchProcess for systems that cannot wait for a process which is not a child.
func pollProcess(pid int, gone func()) {
	parent := os.Getppid()
	go func() {
		for os.Getppid() == parent && alive(pid) {
			time.Sleep(250 * time.Millisecond)
		}
		gone()
	}()
}
