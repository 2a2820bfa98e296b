//go:build !linux

package bench

import (
	"errors"

	"memopt/plugin/pb"
)

// host is a program that has a service and an arena.
type host struct {
	pb.MemOptClient
	bytes []byte
}

func startHost(string, int64) (*host, error) {
	return nil, errors.New("the service is measured on Linux, where its arena is a memory file")
}

func (h *host) close() {}
