package loader

import "memopt/internal/arena"

// Host is a device whose memory is the process's own.
type Host struct{}

// NewHost makes one.
func NewHost() Host { return Host{} }

// hostMemory is a mapping outside Go's heap, which is returned to the system at once.
type hostMemory []byte

// InHost is memory of the process that its owner frees, as a place for weights.
func InHost(b []byte) Memory { return hostMemory(b) }

// Bytes is the block's memory.
func (m hostMemory) Bytes() []byte { return m }

// Granted is the block's size.
func (m hostMemory) Granted() int64 { return int64(len(m)) }

// Free unmaps the block.
func (m hostMemory) Free() { arena.Unmap(m) }

// Name returns "cpu".
func (Host) Name() string { return "cpu" }

// Unified returns true.
func (Host) Unified() bool { return true }

// Take maps memory.
func (Host) Take(n int64) (Memory, error) {
	b, err := arena.Map(n)
	return hostMemory(b), err
}

// Stage maps memory.
func (h Host) Stage(n int64) (Memory, error) { return h.Take(n) }

// Copy copies bytes.
func (Host) Copy(moves []Move) error {
	for _, m := range moves {
		copy(m.To.Bytes()[m.ToAt:m.ToAt+m.Bytes], m.From.Bytes()[m.FromAt:m.FromAt+m.Bytes])
	}
	return nil
}

// Driver returns false: there is no driver.
func (Host) Driver() (usage, budget int64, ok bool) { return 0, 0, false }

// Close does nothing.
func (Host) Close() error { return nil }
