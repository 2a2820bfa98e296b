//go:build !linux

package host

import (
	"errors"
	"os/exec"

	"memopt/plugin/pb"
)

// Host is a running service, and the arena that it shares with this program.
type Host struct {
	pb.MemOptClient
	Arena []byte
}

// Start is implemented on Linux only, where an arena is a memory file.
func Start(*exec.Cmd, int64) (*Host, error) {
	return nil, errors.New("a Go host with an arena is for Linux, where the arena is a memory file")
}

// Pid is the service's process ID.
func (h *Host) Pid() int { return 0 }

// Close ends the service.
func (h *Host) Close() {}
