// Package host starts the service of a memopt binary from a Go program, as any host of go-plugin does.
//
//	h, err := host.Start(exec.Command("memopt", "serve"), 64<<20)
//	defer h.Close()
//	reply, err := h.Plan(ctx, &pb.Question{Model: "model.onnx"})
package host

import (
	"context"
	"errors"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"memopt/plugin"
	"memopt/plugin/pb"
)

// name is the name of the service's only plugin.
const name = "memopt"

// Connect starts a service and connects to it, with mutual TLS or without. The caller kills the
// client, even after an error.
func Connect(cmd *exec.Cmd, mtls bool) (*goplugin.Client, pb.MemOptClient, error) {
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake,
		Plugins:          goplugin.PluginSet{name: side{}},
		Cmd:              cmd,
		AutoMTLS:         mtls,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
	})
	protocol, err := client.Client()
	if err != nil {
		return client, nil, err
	}
	raw, err := protocol.Dispense(name)
	if err != nil {
		return client, nil, err
	}
	return client, raw.(pb.MemOptClient), nil
}

// side is go-plugin's side of a host.
type side struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (side) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return errors.New("not a server") }

func (side) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return pb.NewMemOptClient(conn), nil
}
