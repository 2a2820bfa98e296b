package arena

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Account is the bytes that a session holds, by owner, and their limit.
type Account struct {
	mu    sync.Mutex
	limit int64 // 0: none
	held  map[string]int64
	total int64
	high  int64
	// arenas is the arenas on the account, which know the owners of their chunks.
	arenas []*Arena
	watch  Watch
}

// Watch is called for memory that is taken or (below zero) given back: the bytes requested, and the
// bytes taken from the system. For an arena the former are chunks and the latter regions.
type Watch func(owner string, requested, granted int64)

// NewAccount makes an account with a limit in bytes; 0: none.
func NewAccount(limit int64) *Account {
	return &Account{limit: max(limit, 0), held: map[string]int64{}}
}

// Watch sets the function to call from now on; it must not use the account.
func (a *Account) Watch(w Watch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watch = w
}

// Note calls the watch for bytes that do not change the account.
func (a *Account) Note(owner string, requested, granted int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(owner, requested, granted)
}

// note is Note. The lock is held.
func (a *Account) note(owner string, requested, granted int64) {
	if a.watch != nil {
		a.watch(owner, requested, granted)
	}
}

// moved calls the watch for bytes that were taken or given back. The lock is held.
func (a *Account) moved(owner string, n int64) {
	if slices.ContainsFunc(a.arenas, func(r *Arena) bool { return r.options.Name == owner }) {
		a.note(owner, 0, n) // regions; chunks are noted when they are allocated
		return
	}
	a.note(owner, n, n)
}

// Take enters n bytes of an owner, or returns an error if the limit does not allow them.
func (a *Account) Take(owner string, n int64) error {
	if err := a.take(owner, n); err != nil {
		return err
	}
	return nil
}

// take is Take with a typed error.
func (a *Account) take(owner string, n int64) *OutOfMemory {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n < 0 || n > a.room() {
		return &OutOfMemory{Requested: n, For: owner, Reserved: a.total, Limit: a.limit, Largest: a.largest()}
	}
	a.held[owner] += n
	a.total += n
	a.high = max(a.high, a.total)
	a.moved(owner, n)
	return nil
}

// Short is the error about memory that the account allows, but the system does not have.
func (a *Account) Short(owner string, n int64, cause error) *OutOfMemory {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &OutOfMemory{Requested: n, For: owner, InUse: a.total, Reserved: a.total, Limit: a.limit, Largest: a.largest(), Cause: cause}
}

// Give removes n bytes of an owner.
func (a *Account) Give(owner string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[owner] -= n; a.held[owner] < 0 {
		panic(fmt.Sprintf("arena: owner %q gives back more than it took", owner))
	}
	if a.held[owner] == 0 {
		delete(a.held, owner)
	}
	a.total -= n
	a.moved(owner, -n)
}

// most is more bytes than any machine has, yet sums of a few do not overflow.
const most = 1 << 62

// room is the bytes that the limit leaves. The lock is held.
func (a *Account) room() int64 {
	if a.limit == 0 {
		return most - a.total
	}
	return max(a.limit-a.total, 0)
}

// Room is the bytes that the limit leaves.
func (a *Account) Room() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room()
}

// Limit is the account's limit; 0: none.
func (a *Account) Limit() int64 { return a.limit }

// Held is the bytes held now, and the most so far.
func (a *Account) Held() (now, high int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total, a.high
}

// Owners is the bytes held now, by owner.
func (a *Account) Owners() map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.held)
}

// Owned is bytes and their owner.
type Owned struct {
	Owner string
	Bytes int64
}

// largest is the three owners that hold most; an arena counts by the owners of its chunks. The lock
// is held.
func (a *Account) largest() []Owned {
	by := maps.Clone(a.held)
	for _, r := range a.arenas {
		delete(by, r.options.Name)
		for owner, n := range r.owners() {
			by[owner] += n
		}
	}
	var all []Owned
	for owner, n := range by {
		all = append(all, Owned{owner, n})
	}
	slices.SortFunc(all, func(x, y Owned) int { return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), strings.Compare(x.Owner, y.Owner)) })
	return all[:min(len(all), 3)]
}

// OutOfMemory is the error of a request that cannot be met, with the state of the memory.
type OutOfMemory struct {
	Requested int64
	For       string
	InUse     int64 // bytes of the arena's chunks
	Reserved  int64 // all bytes held
	Hole      int64 // largest free chunk of the arena
	Limit     int64 // 0: none, the system has no more
	Largest   []Owned
	Cause     error // the system's; nil: the limit is exceeded
}

// Error is all of it on one line.
func (e *OutOfMemory) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "out of memory: %d bytes requested for %s, %d in use, %d reserved, the largest hole is %d", e.Requested, e.For, e.InUse, e.Reserved, e.Hole)
	if e.Limit > 0 {
		fmt.Fprintf(&b, ", the limit is %d", e.Limit)
	}
	for i, o := range e.Largest {
		if i == 0 {
			b.WriteString("; most is held by")
		} else {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s (%d)", o.Owner, o.Bytes)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Unwrap returns the system's error.
func (e *OutOfMemory) Unwrap() error { return e.Cause }

// ExitCode is that of a request that cannot be met.
func (e *OutOfMemory) ExitCode() int { return 1 }
