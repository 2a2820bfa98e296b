// Package plugin is the front door over hashicorp/go-plugin: a gRPC service that a trainer starts, talks to and outlives.
//
// # The line
//
//	trainer (Python or Go)                      service (`memopt serve`)
//	  client certificate P-256 ── environment ──▶ refuses without it
//	  folder 0700              ── environment ──▶ refuses one that is not private; its socket goes there
//	  ◀── stdout: 1|2|unix|FOLDER/plugin123|grpc|base64(server certificate DER) ──
//	  Info, Plan               ── TLS 1.3, both ends verified ──▶ Front
//	  Shutdown, or its death   ──▶ the service ends, and removes its socket and folder
//
// Serve runs the service; the caller gives the Front that it serves, so this package plans nothing
// itself. The messages are proto/memopt.proto; the Python side is python/memopt.
package plugin
