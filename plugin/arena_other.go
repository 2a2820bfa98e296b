//go:build !unix

package plugin

// arena is nothing where there are no memory files to share: the service does not run there (serve_other.go).
type arena struct{}

func (*arena) bytes(int64, int64) ([]byte, error) { return nil, refusal("the host has no arena") }
