package session

import (
	"fmt"
	"sync"
)

// Room is where a session allocates memory for an output.
type Room uint8

// The rooms.
const (
	Kept     Room = iota // in the session's memory, until the next run
	OnDevice             // in a buffer of the device
	OnHost               // in a buffer in host memory, which the device writes to directly
)

// Slot is a buffer for an output of any shape, which a session allocates when it runs, and again if
// the size does not fit.
type Slot struct {
	Room   Room
	mu     sync.Mutex
	buffer Buffer
}

// Buffer is the slot's buffer, nil before a run.
func (o *Slot) Buffer() Buffer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer
}

// Drop frees the buffer.
func (o *Slot) Drop() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buffer != nil {
		o.buffer.Drop()
		o.buffer = nil
	}
}

// pageBytes is the slack that a buffer may always have.
const pageBytes = 64 << 10

// place is where a run writes n bytes. The session's lock is held.
func (o *Slot) place(s *Session, n int64) (Place, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.buffer; b != nil && (b.Len() < n || b.Len() > 2*n+pageBytes) { // too small, or much too large
		b.Drop()
		o.buffer = nil
		s.tidy()
	}
	if o.buffer == nil {
		make := s.newBuffer
		if o.Room == OnHost {
			make = s.newHostBuffer
		}
		b, err := make(n)
		if err != nil {
			return Place{}, err
		}
		o.buffer = b
	}
	return Place{Buffer: o.buffer}, nil
}

// Slots is buffers by IDs that a host chooses, for all its sessions.
type Slots struct {
	mu sync.Mutex
	by map[uint64]*Slot
}

// Make finds or creates the slot of an ID.
func (a *Slots) Make(id uint64) (s *Slot, made bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s = a.by[id]; s == nil {
		if a.by == nil {
			a.by = map[uint64]*Slot{}
		}
		s, made = &Slot{Room: OnDevice}, true
		a.by[id] = s
	}
	return s, made
}

// Find is the buffer of an ID that a run has written to.
func (a *Slots) Find(id uint64) (Buffer, error) {
	a.mu.Lock()
	s := a.by[id]
	a.mu.Unlock()
	if s != nil {
		if b := s.Buffer(); b != nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("there is no buffer %d", id)
}

// Drop frees buffers, ignoring unknown IDs.
func (a *Slots) Drop(ids ...uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		a.by[id].Drop()
		delete(a.by, id)
	}
}
