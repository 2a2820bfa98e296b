//go:build unix

package plugin

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// arenaVariable names the descriptor of the host's arena.
const arenaVariable = "MEMOPT_ARENA_FD"

// arena is the host's memory file, which holds tensors. The host grows it and decides what lies
// where; this process allocates nothing in it.
type arena struct {
	fd     int // -1: the host has none
	mu     sync.Mutex
	blocks []block
}

// block is a mapped part of the file. It is never unmapped, as slices of it were handed out.
type block struct {
	offset int64
	bytes  []byte
}

// openArena opens the descriptor named in the environment. A file that could be shrunk is refused,
// because reading behind its end would kill this process.
func openArena() (*arena, error) {
	text := os.Getenv(arenaVariable)
	if text == "" {
		return &arena{fd: -1}, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 3 {
		return nil, refusal(fmt.Sprintf("%s is %q, not a descriptor that was passed on", arenaVariable, text))
	}
	unix.CloseOnExec(fd)
	if err := sealed(fd); err != nil {
		return nil, refusal(fmt.Sprintf("%s: descriptor %d: %v", arenaVariable, fd, err))
	}
	return &arena{fd: fd}, nil
}

// bytes is a span of the arena. Spans are checked against the current size of the file.
func (a *arena) bytes(offset, n int64) ([]byte, error) {
	switch {
	case a.fd < 0:
		return nil, refusal("the host has no arena")
	case offset < 0 || n < 0 || offset > maxArena-n:
		return nil, refusal(fmt.Sprintf("span of %d bytes at %d is out of range", n, offset))
	case n == 0:
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.blocks {
		if in := offset - b.offset; in >= 0 && in+n <= int64(len(b.bytes)) {
			return b.bytes[in : in+n : in+n], nil
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(a.fd, &stat); err != nil {
		return nil, err
	}
	if offset+n > stat.Size {
		return nil, refusal(fmt.Sprintf("span of %d bytes at %d ends behind the arena's %d bytes", n, offset, stat.Size))
	}
	// Map from the end of the mapped blocks, or, if the span begins before it, from there: some
	// pages are then mapped twice.
	from := a.end()
	if offset < from {
		from = offset - offset%int64(os.Getpagesize())
	}
	mapped, err := unix.Mmap(a.fd, from, int(stat.Size-from), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of the arena: %w", stat.Size-from, err)
	}
	a.blocks = append(a.blocks, block{from, mapped})
	in := offset - from
	return mapped[in : in+n : in+n], nil
}

func (a *arena) end() (end int64) {
	for _, b := range a.blocks {
		end = max(end, b.offset+int64(len(b.bytes)))
	}
	return end &^ int64(os.Getpagesize()-1)
}

// maxArena is more memory than any machine has.
const maxArena = 1 << 46
