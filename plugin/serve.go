//go:build unix

package plugin

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
)

// Serve serves front to the host that started this process, until the host shuts it down or ends.
// It takes over standard output, the default logger and the PLUGIN_* environment variables, so it
// should be the last call of a process. An error with `ExitCode() int` of 2 says why it did not
// start: by hand, without a certificate, or in a folder that is not private.
func Serve(front Front) error {
	if os.Getenv(Handshake.MagicCookieKey) != Handshake.MagicCookieValue {
		return byHand
	}
	arena, err := openArena()
	if err != nil {
		return err
	}
	tlsConfig, certDER, err := serverTLS(os.Getenv("PLUGIN_CLIENT_CERT"))
	if err != nil {
		return err
	}
	folder, own, err := socketFolder(os.Getenv(goplugin.EnvUnixSocketDir))
	if err != nil {
		return err
	}
	os.Setenv(goplugin.EnvUnixSocketDir, folder)
	os.Unsetenv(goplugin.EnvUnixSocketGroup) // would open the socket to a group
	os.Unsetenv("PLUGIN_MULTIPLEX_GRPC")     // would speak yamux, which a plain gRPC host cannot

	logger := newLogger()
	slog.SetDefault(logger)
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()

	// Writing a log line to a dead host must not end this process before it has cleaned up, and
	// Ctrl-C is for the trainer. go-plugin handles both, but only after its handshake line.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGINT)
	socket := make(chan string, 1) // its address, once there is one
	leave := func(code int, removeFolder bool) {
		select {
		case address := <-socket:
			os.Remove(address)
		case <-time.After(200 * time.Millisecond): // go-plugin prints its line sooner
		}
		if removeFolder {
			removeFolderOf(folder)
		}
		os.Exit(code)
	}
	watchHost(func() { leave(0, true) })
	onTerminate(func() { leave(128+int(syscall.SIGTERM), own) })

	from, to, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("handshake pipe: %w", err)
	}
	os.Stdout = to
	handshake := make(chan error, 1)
	go func() {
		line, address, err := readHandshake(from, certDER)
		if err == nil {
			socket <- address
			_, err = stdout.WriteString(line)
		}
		if err == nil {
			// C libraries print to descriptor 1, from which the host reads a single line.
			err = redirect(int(stderr.Fd()), int(stdout.Fd()))
		}
		handshake <- err
	}()

	var failure atomic.Value
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake,
		TLSProvider:     func() (*tls.Config, error) { return tlsConfig, nil },
		Plugins:         goplugin.PluginSet{serviceName: adapter{front: front, arena: arena}},
		GRPCServer:      newServer(sync.OnceFunc(func() { printToStderr(stderr) }), logger),
		Logger:          hclogTo(logger, func(text string) { failure.Store(text) }),
	})
	to.Close()
	err = <-handshake
	if own {
		os.Remove(folder)
	}
	if why, ok := failure.Load().(string); err != nil && ok {
		return fmt.Errorf("not started: %s", why)
	}
	return err
}

// printToStderr redirects further prints to the real standard error. By then go-plugin has pointed
// os.Stdout and os.Stderr at pipes that block unless the host uses its stdio service. Other
// goroutines use these variables, so their descriptors are replaced instead.
func printToStderr(stderr *os.File) {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if err := redirect(int(stderr.Fd()), int(f.Fd())); err != nil {
			slog.Error("prints stay in go-plugin's pipe", "error", err)
		}
	}
}

// onTerminate runs leave on SIGTERM, which would leave the socket's file behind.
func onTerminate(leave func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	go func() {
		<-c
		leave()
	}()
}
