//go:build unix

package plugin

import (
	"io"
	"os"
	"strconv"
	"time"
)

// parentVariable holds the process id of a host that also promises a pipe on our standard input.
const parentVariable = "MEMOPT_PARENT_PID"

// watchHost calls gone when the process that started this one has ended, however it ended. More than one call may come.
//
// Watched are the parent and the process that parentVariable names. They are the same, unless a wrapper stands between
// them, or the host died before this process looked: then the name still tells. Standard input closing means the same,
// but is no substitute: a forked worker of the host may hold the pipe open for hours.
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
