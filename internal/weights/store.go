package weights

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// Sum is a hash of contents.
type Sum [sha256.Size]byte

// SumOf is the hash of bytes.
func SumOf(b []byte) Sum { return sha256.Sum256(b) }

// Probe is a hash of the length and of a sample of the bytes, in constant time. Equal bytes have equal probes, and
// different bytes may.
func Probe(b []byte) Sum {
	const pieces, piece = 4, 256
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	if len(b) <= pieces*piece {
		h.Write(b)
	} else {
		for i := range pieces {
			at := i * ((len(b) - piece) / (pieces - 1))
			h.Write(b[at : at+piece])
		}
	}
	return Sum(h.Sum(nil))
}

// Store shares things between the programs of a process, by a hash of their contents. A thing is freed with its last
// use. The zero value is an empty store.
type Store[T any] struct {
	mu   sync.Mutex
	held map[Sum][]*Shared[T]
}

// Shared is a thing in a store.
type Shared[T any] struct {
	Value T
	Bytes int64
	store *Store[T]
	sum   Sum
	users int
	free  func(T)
}

// Hold adds a use of the thing that has the hash and the size and passes same, if not nil, or else makes it. made
// says that it was made. free is called at the last Drop.
func (s *Store[T]) Hold(sum Sum, bytes int64, same func(T) bool, make func() (T, error), free func(T)) (x *Shared[T], made bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.held[sum] {
		if x.Bytes == bytes && (same == nil || same(x.Value)) {
			x.users++
			return x, false, nil
		}
	}
	v, err := make()
	if err != nil {
		return nil, false, err
	}
	x = &Shared[T]{Value: v, Bytes: bytes, store: s, sum: sum, users: 1, free: free}
	if s.held == nil {
		s.held = map[Sum][]*Shared[T]{}
	}
	s.held[sum] = append(s.held[sum], x)
	return x, true, nil
}

// Users is the number of uses.
func (x *Shared[T]) Users() int {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	return x.users
}

// Drop ends a use.
func (x *Shared[T]) Drop() {
	s := x.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.users--; x.users > 0 {
		return
	}
	if x.users < 0 {
		panic("weights: Shared dropped more often than held")
	}
	list := s.held[x.sum]
	for i, o := range list {
		if o == x {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if s.held[x.sum] = list; len(list) == 0 {
		delete(s.held, x.sum)
	}
	if x.free != nil {
		x.free(x.Value)
	}
}

// StoreStats describes the current contents of a store.
type StoreStats struct {
	Blocks int   `json:"blocks"`
	Bytes  int64 `json:"bytes"`
	Shared int64 `json:"shared"` // bytes saved by sharing
}

// Stats returns the store's statistics.
func (s *Store[T]) Stats() (t StoreStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.held {
		for _, x := range list {
			t.Blocks++
			t.Bytes += x.Bytes
			t.Shared += int64(x.users-1) * x.Bytes
		}
	}
	return t
}
