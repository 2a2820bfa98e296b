package plugin

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"
)

// Handshake is what a go-plugin host must agree on. The cookie tells a host from a person who runs
// `memopt serve`; the protocol version changes when old hosts cannot talk to the new service.
var Handshake = goplugin.HandshakeConfig{
	ProtocolVersion:  3,
	MagicCookieKey:   "MEMOPT_PLUGIN_COOKIE",
	MagicCookieValue: "keep-shrink-or-compute-again",
}

// readHandshake reads go-plugin's handshake line and puts the server certificate into field 6, which go-plugin leaves empty
// for a TLSProvider. It returns the line for the host and the address of the socket.
func readHandshake(from io.Reader, certDER []byte) (line, address string, err error) {
	line, err = bufio.NewReader(from).ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("no handshake line: %w", err)
	}
	fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
	if len(fields) != 6 || fields[2] != "unix" || fields[5] != "" {
		panic(fmt.Sprintf("plugin: go-plugin's handshake line has a new form: %q", line))
	}
	fields[5] = base64.RawStdEncoding.EncodeToString(certDER)
	return strings.Join(fields, "|") + "\n", fields[3], nil
}
