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

// Probe is a hash of the number of bytes and of a few of them, which costs no more for many than for few. Equal bytes have
// equal probes; others may.
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

// Store holds what programs of one process have in common, by a hash of its contents: who comes second takes what is
// there. It is gone with the last use. The zero value is an empty store.
type Store[T any] struct {
	mu   sync.Mutex
	held map[Sum][]*Shared[T]
}

// Shared is a use of something in a store.
type Shared[T any] struct {
	Value T
	Bytes int64
	store *Store[T]
	sum   Sum
	users int
	free  func(T)
}

// Hold adds a use of what has the hash and, if same is given, passes it; else it makes it. free is called with the last
// use. made says that it was not there.
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

// Users is how many hold it.
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
		panic("weights: what is shared is dropped once too often")
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

// StoreStats are what a store holds now.
type StoreStats struct {
	Blocks int   `json:"blocks"`
	Bytes  int64 `json:"bytes"`  // there are
	Shared int64 `json:"shared"` // there would be more, if every use had its own
}

// Stats are the store's now.
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
