package host

import (
	"errors"
	"os"
	"os/exec"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"memopt/plugin/pb"
)

// Host is a running service, and the arena that it shares with this program.
type Host struct {
	pb.MemOptClient
	Arena  []byte
	client *goplugin.Client
	cmd    *exec.Cmd
}

// Start starts a service with an arena of n bytes, all allocated.
func Start(cmd *exec.Cmd, n int64) (h *Host, err error) {
	fd, err := unix.MemfdCreate("arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "arena")
	defer file.Close()
	_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	if err = errors.Join(err, file.Truncate(n)); err != nil {
		return nil, err
	}
	h = &Host{cmd: cmd}
	if h.Arena, err = unix.Mmap(int(file.Fd()), 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = append(os.Environ(), "MEMOPT_ARENA_FD=3")
	if h.client, h.MemOptClient, err = Connect(cmd, true); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Pid is the service's process ID.
func (h *Host) Pid() int { return h.cmd.Process.Pid }

// Close ends the service.
func (h *Host) Close() {
	h.client.Kill()
	_ = unix.Munmap(h.Arena) // cannot fail: Arena is a mapping, or empty
}
