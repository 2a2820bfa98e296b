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

// arena is the memory file of the host's in which tensors travel. The host grows it and says what lies where; nothing is
// allocated here.
type arena struct {
	fd     int // -1 where the host has none
	mu     sync.Mutex
	blocks []block
}

// block is a stretch of the file that is mapped. A stretch stays where it is: what was handed out lies in it.
type block struct {
	offset int64
	bytes  []byte
}

// openArena takes the descriptor that the environment names. A file that its maker could shrink is refused: to read
// behind its end would end this process.
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

// bytes is a stretch of the arena. What a host asks for is checked against the file as it is.
func (a *arena) bytes(offset, n int64) ([]byte, error) {
	switch {
	case a.fd < 0:
		return nil, refusal("the host has no arena")
	case offset < 0 || n < 0 || offset > maxArena-n:
		return nil, refusal(fmt.Sprintf("span of %d bytes at %d is outside any arena", n, offset))
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
	// The new stretch begins where the mapped ones end, unless the span does not: then it is mapped a second time.
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

// maxArena is more than any machine has.
const maxArena = 1 << 46
