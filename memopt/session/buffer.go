package session

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/internal/schedule"
)

// Buffer is memory of a device or the host that inputs are read from and outputs are written to in
// place.
type Buffer interface {
	Len() int64
	Bytes() []byte // nil: the processor cannot address it
	Imported() bool
	ReadAt(to []byte, at int64) error
	WriteAt(from []byte, at int64) error
	Retain()
	Drop() // the last use frees the memory
}

// Buffers makes buffers.
type Buffers interface {
	NewBuffer(bytes int64) (Buffer, error) // of zeros
	// Import lets the device access the host's memory in place, until the buffer is dropped.
	Import(host []byte) (Buffer, error)
	// ImportAlignment is the alignment of address and size of imported memory; 0: the device cannot
	// import.
	ImportAlignment() int64
	Unified() bool // the device uses the machine's own memory
}

// DeviceMemory is the memory of a device.
type DeviceMemory interface {
	Buffers
	// Need is the bytes of a schedule's values, and of inputs that are copied to the device, if
	// others are bound to places.
	Need(s *schedule.Schedule, places Places) (arena, inputs int64, err error)
	Close()
}

// Place is an offset into a buffer.
type Place struct {
	Buffer Buffer
	At     int64
}

// Places is the places of inputs and outputs, by names of values in the graph.
type Places struct{ Inputs, Outputs map[string]Place }

// key is unique among places whose buffers exist.
func (p Places) key() string {
	var b strings.Builder
	for i, all := range []map[string]Place{p.Inputs, p.Outputs} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, " %d%q@%p+%d", i, name, all[name].Buffer, all[name].At)
		}
	}
	return b.String()
}

func (p Places) each(do func(Buffer)) {
	for _, all := range []map[string]Place{p.Inputs, p.Outputs} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			do(all[name].Buffer)
		}
	}
}

// within returns an error if a place has fewer than the given bytes.
func (p Place) within(bytes int64) error {
	if p.Buffer == nil {
		return fmt.Errorf("it is not bound to a buffer")
	}
	if n := p.Buffer.Len(); p.At < 0 || p.At > n || bytes > n-p.At {
		return fmt.Errorf("it takes %d bytes, but the buffer of %d bytes has %d from offset %d", bytes, n, max(n-max(p.At, 0), 0), p.At)
	}
	return nil
}

// counted is a buffer on a session's account, with a count of its uses.
type counted struct {
	Buffer
	mu    sync.Mutex
	users int
	pins  map[*Session]int // uses by patterns, by session
	gone  func()
}

func (b *counted) Retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users++
}

// Drop ends a use. If only patterns still use the buffer, they are dropped, too: at once in
// sessions that are not running, in others before their next run.
func (b *counted) Drop() {
	b.mu.Lock()
	b.users--
	left := b.users
	var idle []*Session
	if left > 0 && left == b.pinned() {
		idle = slices.Collect(maps.Keys(b.pins))
	}
	b.mu.Unlock()
	if left == 0 {
		b.Buffer.Drop()
		b.gone()
	}
	if left < 0 {
		panic("session: a buffer is dropped once too often")
	}
	for _, s := range idle {
		if s.mu.TryLock() {
			s.tidy()
			s.mu.Unlock()
		}
	}
}

// pinned is the number of uses by patterns. The lock is held.
func (b *counted) pinned() (n int) {
	for _, k := range b.pins {
		n += k
	}
	return n
}

// pin adds a use by a pattern.
func (s *Session) pin(b Buffer) {
	if c, is := b.(*counted); is {
		c.mu.Lock()
		if c.pins == nil {
			c.pins = map[*Session]int{}
		}
		c.pins[s]++
		c.mu.Unlock()
	}
	b.Retain()
}

func (s *Session) unpin(b Buffer) {
	if c, is := b.(*counted); is {
		c.mu.Lock()
		if c.pins[s]--; c.pins[s] == 0 {
			delete(c.pins, s)
		}
		c.mu.Unlock()
	}
	b.Drop()
}

// pinned reports whether only patterns use the buffer.
func pinned(b Buffer) bool {
	c, is := b.(*counted)
	if !is {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pinned() == c.users
}

// Base is the device's buffer behind a session's.
func Base(b Buffer) Buffer {
	if c, is := b.(*counted); is {
		return c.Buffer
	}
	return b
}

// onHost reports whether a buffer is in the process's memory, from which a device copies inputs as
// usual.
func onHost(b Buffer) bool {
	_, is := Base(b).(*hostBuffer)
	return is
}

// Unified reports whether the session's device uses the machine's own memory.
func (s *Session) Unified() bool { return s.buffers().Unified() }

// buffers makes buffers for inputs and outputs; those of a dry run are in the process's memory, too.
func (s *Session) buffers() Buffers {
	if s.device == nil {
		return hostBuffers{memory{s}}
	}
	return s.device
}

// NewBuffer allocates a buffer of zeros on the session's device. It is on the session's account
// until it is dropped; it may outlive the session, and be bound in other sessions on the device.
func (s *Session) NewBuffer(bytes int64) (Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return s.newBuffer(bytes)
}

func (s *Session) newBuffer(bytes int64) (Buffer, error) {
	if bytes < 0 {
		return nil, fmt.Errorf("a buffer of %d bytes", bytes)
	}
	if err := s.takeBuffer(bytes); err != nil {
		return nil, err
	}
	b, err := s.buffers().NewBuffer(bytes)
	if err != nil {
		s.account.Give(ownBuffers, bytes)
		return nil, err
	}
	account := s.account
	return &counted{Buffer: b, users: 1, gone: func() { account.Give(ownBuffers, bytes) }}, nil
}

// takeBuffer enters a buffer on the account. Unused patterns are dropped if needed.
func (s *Session) takeBuffer(bytes int64) error {
	return s.withRoom(0, func() error { return s.account.Take(ownBuffers, bytes) })
}

// withRoom calls take; while it fails for memory on a device, the least recently used patterns are
// dropped, except for keep ones.
func (s *Session) withRoom(keep int, take func() error) error {
	for {
		err := take()
		var short *arena.OutOfMemory
		if !errors.As(err, &short) || !s.evict(keep) {
			return err
		}
	}
}

// BufferBytes is the bytes of a buffer for n bytes: in host memory, rounded up for importing.
func (s *Session) BufferBytes(r Room, bytes int64) int64 {
	unit := s.ImportAlignment()
	if unit <= 1 || r != OnHost {
		return bytes
	}
	return max((bytes+unit-1)/unit*unit, unit)
}

// NewHostBuffer is NewBuffer in the host's memory, which the session's device accesses in place.
// Its size is rounded up for importing.
func (s *Session) NewHostBuffer(bytes int64) (Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return s.newHostBuffer(bytes)
}

func (s *Session) newHostBuffer(bytes int64) (Buffer, error) {
	if s.anywhere() {
		return s.newBuffer(bytes)
	}
	m := s.buffers()
	unit := m.ImportAlignment()
	if unit == 0 {
		_, err := m.Import(nil) // returns the error
		return nil, err
	}
	if bytes < 0 || bytes > math.MaxInt64-unit {
		return nil, fmt.Errorf("a buffer of %d bytes", bytes)
	}
	bytes = s.BufferBytes(OnHost, bytes)
	if err := s.takeBuffer(bytes); err != nil {
		return nil, err
	}
	account := s.account
	host, err := memory{s}.Take(bytes)
	if err == nil {
		var b Buffer
		if b, err = m.Import(host); err == nil {
			return &counted{Buffer: b, users: 1, gone: func() {
				arena.Unmap(host)
				account.Give(ownBuffers, bytes)
			}}, nil
		}
		arena.Unmap(host)
	}
	account.Give(ownBuffers, bytes)
	return nil, err
}

// Import lets the session's device access memory of the host in place. On a device with its own
// memory, address and size are multiples of ImportAlignment; the memory must not be Go's, and must
// outlive the buffer.
func (s *Session) Import(host []byte) (Buffer, error) {
	b, err := s.buffers().Import(host)
	if err != nil {
		return nil, err
	}
	return &counted{Buffer: b, users: 1, gone: func() {}}, nil
}

// ImportAlignment is the alignment of imported memory; 0: the device cannot import.
func (s *Session) ImportAlignment() int64 { return s.buffers().ImportAlignment() }

// anywhere reports whether any memory of the process is a buffer already, so that nothing has to be copied or imported.
func (s *Session) anywhere() bool { return s.ImportAlignment() == 1 }

// mostImports is the number of memory ranges that a session keeps imported.
const mostImports = 64

// Seen is the device's place for memory of the host: the aligned range around it is imported, and
// must stay mapped until the session is closed. ok is false for devices with their own memory,
// which copy it faster than they would read it in place.
func (s *Session) Seen(host []byte) (p Place, ok bool) {
	if s.anywhere() || !s.Unified() || len(host) == 0 {
		return p, false
	}
	unit := uintptr(s.ImportAlignment())
	if unit == 0 {
		return p, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return p, false
	}
	at := unsafe.Pointer(unsafe.SliceData(host))
	skip := uintptr(at) % unit
	n := (skip + uintptr(len(host)) + unit - 1) / unit * unit
	around := unsafe.Slice((*byte)(unsafe.Add(at, -int(skip))), n)
	key := fmt.Sprintf("%p %d", unsafe.SliceData(around), n)
	b, known := s.imports.get(key)
	if !known {
		b, _ = s.Import(around) // nil: the driver refused; do not try again
		s.imports.put(key, b)
	}
	return Place{b, int64(skip)}, b != nil
}

// tidy drops patterns with buffers that only patterns use.
func (s *Session) tidy() {
	s.patterns.removeIf(func(t *pattern) (dead bool) {
		t.places.each(func(b Buffer) { dead = dead || pinned(b) })
		return dead
	})
}

// Tidy drops what the session keeps for buffers that have no other user.
func (s *Session) Tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tidy()
	}
}

// hostBuffers makes buffers in the process's memory.
type hostBuffers struct{ arena.Memory }

func (m hostBuffers) NewBuffer(bytes int64) (Buffer, error) { return newHostBuffer(m.Memory, bytes) }
func (m hostBuffers) Import(host []byte) (Buffer, error) {
	return &hostBuffer{bytes: host, users: 1}, nil
}
func (m hostBuffers) ImportAlignment() int64 { return 1 }
func (m hostBuffers) Unified() bool          { return true }

// hostBuffer is a buffer in the process's memory.
type hostBuffer struct {
	bytes []byte
	mu    sync.Mutex
	users int
	free  func([]byte) // nil: the memory is the caller's
}

func newHostBuffer(m arena.Memory, bytes int64) (Buffer, error) {
	if bytes == 0 {
		return &hostBuffer{users: 1, bytes: []byte{}}, nil
	}
	b, err := m.Take(bytes)
	if err != nil {
		return nil, err
	}
	return &hostBuffer{bytes: b, users: 1, free: func(b []byte) { m.Give(b, bytes) }}, nil
}

func (b *hostBuffer) Len() int64     { return int64(len(b.bytes)) }
func (b *hostBuffer) Bytes() []byte  { return b.bytes }
func (b *hostBuffer) Imported() bool { return b.free == nil }

func (b *hostBuffer) ReadAt(to []byte, at int64) error {
	if err := (Place{b, at}).within(int64(len(to))); err != nil {
		return err
	}
	copy(to, b.bytes[at:])
	return nil
}

func (b *hostBuffer) WriteAt(from []byte, at int64) error {
	if err := (Place{b, at}).within(int64(len(from))); err != nil {
		return err
	}
	copy(b.bytes[at:], from)
	return nil
}

func (b *hostBuffer) Retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users++
}

func (b *hostBuffer) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users--; b.users == 0 && b.free != nil {
		b.free(b.bytes)
		b.bytes = nil
	}
}

// bytesOf is the bytes of a tensor.
func bytesOf(x *graph.Tensor) int64 { return int64(x.Len()) * x.Type.Size() }
