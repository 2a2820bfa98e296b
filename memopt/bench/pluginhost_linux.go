package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"memopt/plugin"
	"memopt/plugin/pb"
)

// host is a Go program that has a service, as go-plugin makes them, and an arena.
type host struct {
	pb.MemOptClient
	bytes  []byte // of the arena
	plugin *goplugin.Client
}

// startHost starts the service of a binary, with an arena of n bytes that are all there.
func startHost(binary string, n int64) (h *host, err error) {
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
	h = &host{}
	if h.bytes, err = unix.Mmap(int(file.Fd()), 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "serve")
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = append(os.Environ(), "MEMOPT_ARENA_FD=3")
	h.plugin = goplugin.NewClient(&goplugin.ClientConfig{HandshakeConfig: plugin.Handshake, Plugins: goplugin.PluginSet{"memopt": client{}},
		Cmd: cmd, AutoMTLS: true, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger()})
	var raw any
	protocol, err := h.plugin.Client()
	if err == nil {
		raw, err = protocol.Dispense("memopt")
	}
	if err != nil {
		h.close()
		return nil, err
	}
	h.MemOptClient = raw.(pb.MemOptClient)
	return h, nil
}

func (h *host) close() {
	h.plugin.Kill()
	_ = unix.Munmap(h.bytes) // fails for what is no mapping, which it is
}

// client is go-plugin's side of a host.
type client struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (client) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return errors.New("not a server") }

func (client) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return pb.NewMemOptClient(conn), nil
}
