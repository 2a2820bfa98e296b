// Package plugin is the front door over hashicorp/go-plugin: a gRPC service that a trainer starts, talks to and outlives.
//
// # The line
//
//	trainer (Python or Go)                      service (`memopt serve`)
//	  client certificate P-256 ── environment ──▶ refuses without it
//	  folder 0700              ── environment ──▶ refuses one that is not private; its socket goes there
//	  ◀── stdout: 1|2|unix|FOLDER/plugin123|grpc|base64(server certificate DER) ──
//	  Info, Plan               ── TLS 1.3, both ends verified ──▶ Front
//	  Shutdown, or its death   ──▶ the service is gone, its socket and folder too
//
// Serve is all of it; Front is what it serves, given by the caller, so that this package plans nothing itself. The
// messages are proto/memopt.proto; the Python side is python/memopt.
//
// # What differs from stock go-plugin, and why
//
// Certificate: go-plugin's own is ECDSA P-521, which the TLS library inside the Python registry's grpcio cannot verify.
// Ours is P-256, given through TLSProvider; go-plugin then leaves field 6 of its handshake line empty, so Serve reads
// the line from a pipe and puts the certificate in. A stock Go host with AutoMTLS notices no difference.
//
// No certificate, no service: stock go-plugin serves in plain text when PLUGIN_CLIENT_CERT is missing.
//
// Output: go-plugin turns os.Stdout and os.Stderr into pipes for its stdio service, and a host that does not read that
// service hangs us after 64 KiB of prints. From the first call on both go to the real standard error instead.
//
// Death: go-plugin never notices that its host was killed. Here the host's death (a pidfd on Linux, a poll elsewhere)
// ends the process at once. A host should set MEMOPT_PARENT_PID to its own process id: it closes the gap between
// the start of this process and its first look at its parent, and promises that standard input is a pipe held by the host.
//
// Panics in a call become INTERNAL for that call; the service lives on.
//
// # For other hosts
//
// Environment: MEMOPT_PLUGIN_COOKIE (Handshake), PLUGIN_PROTOCOL_VERSIONS=2, PLUGIN_CLIENT_CERT (PEM; WriteClientCert
// makes a pair), PLUGIN_UNIX_SOCKET_DIR (without it the service makes a private folder itself). TLS server name:
// localhost. Processes of the same user are not kept out: they could trace the trainer anyway.
package plugin
