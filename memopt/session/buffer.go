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

	"memopt/memopt/arena"
	"memopt/memopt/graph"
	"memopt/planner"
)

// Buffer is memory that inputs are read from and outputs written to where it is: of a device, or the host's own.
type Buffer interface {
	Len() int64
	Bytes() []byte // where the processor sees it, or nil
	Imported() bool
	ReadAt(to []byte, at int64) error
	WriteAt(from []byte, at int64) error
	Retain()
	Drop() // the last gives the memory back
}

// DeviceMemory is what buffers are made of.
type DeviceMemory interface {
	// Need is what a schedule takes for its values, and for inputs that are copied to the device, where others are bound.
	Need(s *planner.Schedule, places Places) (arena, inputs int64, err error)
	NewBuffer(bytes int64) (Buffer, error) // of zeros
	// Import has the device see the host's memory where it is, until the buffer is dropped.
	Import(host []byte) (Buffer, error)
	// ImportAlignment is what address and size of that are multiples of; 0: the device imports none.
	ImportAlignment() int64
	Unified() bool // it is the machine's own memory
	Close()
}

// Place is an offset into a buffer.
type Place struct {
	Buffer Buffer
	At     int64
}

// Places are those of inputs and outputs, by the names of their values in the graph.
type Places struct{ Inputs, Outputs map[string]Place }

// key tells places from others, as long as the buffers are there.
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

// within is an error if a place has not so many bytes.
func (p Place) within(bytes int64) error {
	if p.Buffer == nil {
		return fmt.Errorf("it is bound to no buffer")
	}
	if n := p.Buffer.Len(); p.At < 0 || p.At > n || bytes > n-p.At {
		return fmt.Errorf("it takes %d bytes, and the buffer of %d bytes has %d from %d on", bytes, n, max(n-max(p.At, 0), 0), p.At)
	}
	return nil
}

// counted is a buffer that is on a session's account, and knows how often it is used.
type counted struct {
	Buffer
	mu    sync.Mutex
	users int
	pins  map[*Session]int // of those, patterns of sessions
	gone  func()
}

func (b *counted) Retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users++
}

// Drop ends a use. Where only patterns are left that have it, they go, too: those of a session that is not running now, and
// of others before they run next.
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

// pinned is how many patterns have it. The lock is held.
func (b *counted) pinned() (n int) {
	for _, k := range b.pins {
		n += k
	}
	return n
}

// pin adds the use of a pattern.
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

// pinned reports whether nobody but patterns has the buffer.
func pinned(b Buffer) bool {
	c, is := b.(*counted)
	if !is {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pinned() == c.users
}

// Base is the device's own buffer behind one of a session's.
func Base(b Buffer) Buffer {
	if c, is := b.(*counted); is {
		return c.Buffer
	}
	return b
}

// onHost reports whether a buffer is the processor's alone, from which a device with memory of its own is fed as ever.
func onHost(b Buffer) bool {
	_, is := Base(b).(*hostBuffer)
	return is
}

// Unified says that the session's device has no memory but the machine's own.
func (s *Session) Unified() bool { return s.device == nil || s.device.Unified() }

// NewBuffer has memory on the session's device, of zeros, on the session's account until it is dropped. It may outlive the
// session, and be bound in others of the device.
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
	var b Buffer
	var err error
	if m := s.device; m != nil {
		b, err = m.NewBuffer(bytes)
	} else {
		b, err = newHostBuffer(memory{s}, bytes)
	}
	if err != nil {
		s.account.Give(ownBuffers, bytes)
		return nil, err
	}
	account := s.account
	return &counted{Buffer: b, users: 1, gone: func() { account.Give(ownBuffers, bytes) }}, nil
}

// takeBuffer has a buffer on the account, for which patterns that are not in use make room.
func (s *Session) takeBuffer(bytes int64) error {
	return s.withRoom(0, func() error { return s.account.Take(ownBuffers, bytes) })
}

// withRoom has something taken, for which patterns of a device make room that were used last the longest ago, but for so many
// of the others.
func (s *Session) withRoom(keep int, take func() error) error {
	for {
		err := take()
		var short *arena.OutOfMemory
		if s.options.Device == nil || s.patterns.len() <= keep || !errors.As(err, &short) {
			return err
		}
		s.patterns.remove(s.patterns.order.Back())
	}
}

// BufferBytes is what a buffer for so many bytes takes: of the host's memory, whole units of what the device imports.
func (s *Session) BufferBytes(r Room, bytes int64) int64 {
	if s.device == nil || r != OnHost {
		return bytes
	}
	unit := max(s.device.ImportAlignment(), 1)
	return max((bytes+unit-1)/unit*unit, unit)
}

// NewHostBuffer is NewBuffer of the host's own memory, which the session's device sees where it is. Its bytes are a multiple
// of what the device imports.
func (s *Session) NewHostBuffer(bytes int64) (Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return s.newHostBuffer(bytes)
}

func (s *Session) newHostBuffer(bytes int64) (Buffer, error) {
	m := s.device
	if m == nil {
		return s.newBuffer(bytes)
	}
	unit := m.ImportAlignment()
	if unit == 0 {
		_, err := m.Import(nil) // which says so
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

// Import has the session's device read and write memory of the host's where it is. On a device with memory of its own
// address and size are multiples of ImportAlignment; the memory is not Go's and outlives the buffer.
func (s *Session) Import(host []byte) (Buffer, error) {
	m := s.device
	if m == nil {
		return &hostBuffer{bytes: host, users: 1}, nil
	}
	b, err := m.Import(host)
	if err != nil {
		return nil, err
	}
	return &counted{Buffer: b, users: 1, gone: func() {}}, nil
}

// ImportAlignment is what address and size of imported memory are multiples of; 0 says that the device imports none.
func (s *Session) ImportAlignment() int64 {
	if m := s.device; m != nil {
		return m.ImportAlignment()
	}
	return 1
}

// mostImports is how many stretches of memory a session keeps imported.
const mostImports = 64

// Seen is where the session's device sees memory of the host's: the whole units of what it imports are taken in which that
// lies, which must be mapped as they are until the session is closed. It is for devices that share the machine's memory;
// others have it copied faster than they read it from there, and ok is false.
func (s *Session) Seen(host []byte) (p Place, ok bool) {
	if s.device == nil || !s.device.Unified() || len(host) == 0 {
		return p, false
	}
	unit := uintptr(s.device.ImportAlignment())
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
		b, _ = s.Import(around) // nil: the driver does not take it, which it need not be asked again
		s.imports.put(key, b)
	}
	return Place{b, int64(skip)}, b != nil
}

// tidy drops patterns whose buffers nobody but patterns has any more.
func (s *Session) tidy() {
	for e := s.patterns.order.Front(); e != nil; {
		next, dead := e.Next(), false
		e.Value.(*entry[*pattern]).value.places.each(func(b Buffer) { dead = dead || pinned(b) })
		if dead {
			s.patterns.remove(e)
		}
		e = next
	}
}

// Tidy lets go of what the session keeps of buffers that nobody else has any more.
func (s *Session) Tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.tidy()
	}
}

// hostBuffer is a buffer of the processor.
type hostBuffer struct {
	bytes []byte
	mu    sync.Mutex
	users int
	free  func([]byte) // nil where the memory is somebody else's
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

// bytesOf is what a tensor takes.
func bytesOf(x *graph.Tensor) int64 { return int64(x.Len()) * x.Type.Size() }
