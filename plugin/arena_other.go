//go:build !unix

package plugin

// arena is empty: the service does not run on systems without memory files to share
// (serve_other.go).
type arena struct{}

func (*arena) bytes(int64, int64) ([]byte, error) { return nil, refusal("the host has no arena") }
