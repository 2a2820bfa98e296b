package arena

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Account is what a session holds, by owner, and the limit of all of it.
type Account struct {
	mu    sync.Mutex
	limit int64 // 0: none
	held  map[string]int64
	total int64
	high  int64
	// arenas say who holds their chunks.
	arenas []*Arena
	watch  Watch
}

// Watch is told of bytes that come and, below zero, go: those that somebody asked for, and those taken of the system for
// them. Of an arena these are its chunks, and its regions.
type Watch func(owner string, requested, granted int64)

// NewAccount has a limit in bytes; 0 is none.
func NewAccount(limit int64) *Account {
	return &Account{limit: max(limit, 0), held: map[string]int64{}}
}

// Watch has all that comes and goes from now on be told; what is told must not ask the account.
func (a *Account) Watch(w Watch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watch = w
}

// Note tells of bytes whose number on the account stays as it is.
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

// moved tells of bytes that were taken or given. The lock is held.
func (a *Account) moved(owner string, n int64) {
	if slices.ContainsFunc(a.arenas, func(r *Arena) bool { return r.options.Name == owner }) {
		a.note(owner, 0, n) // what is asked of an arena are chunks
		return
	}
	a.note(owner, n, n)
}

// Take enters n bytes of an owner's, or refuses them.
func (a *Account) Take(owner string, n int64) error {
	if err := a.take(owner, n); err != nil {
		return err
	}
	return nil
}

// take is Take with the error's own type.
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

// Short is the error of memory that the account allows and that cannot be had.
func (a *Account) Short(owner string, n int64, cause error) *OutOfMemory {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &OutOfMemory{Requested: n, For: owner, InUse: a.total, Reserved: a.total, Limit: a.limit, Largest: a.largest(), Cause: cause}
}

// Give takes n bytes of an owner's out again.
func (a *Account) Give(owner string, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[owner] -= n; a.held[owner] < 0 {
		panic(fmt.Sprintf("arena: %q gives back more than it took", owner))
	}
	if a.held[owner] == 0 {
		delete(a.held, owner)
	}
	a.total -= n
	a.moved(owner, -n)
}

// most is more bytes than any machine has, and far from where sums of them end.
const most = 1 << 62

// room is how many more bytes there may be. The lock is held.
func (a *Account) room() int64 {
	if a.limit == 0 {
		return most - a.total
	}
	return max(a.limit-a.total, 0)
}

// Room is how many more bytes there may be.
func (a *Account) Room() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room()
}

// Limit is the account's; 0 is none.
func (a *Account) Limit() int64 { return a.limit }

// Held is what is held now and was held at most.
func (a *Account) Held() (now, high int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total, a.high
}

// Owners is what each holds now.
func (a *Account) Owners() map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.held)
}

// Owned is bytes and whose they are.
type Owned struct {
	Owner string
	Bytes int64
}

// largest are the three owners who hold most; an arena's are those of its chunks. The lock is held.
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

// OutOfMemory says what could not be had, and what is in the way.
type OutOfMemory struct {
	Requested int64
	For       string
	InUse     int64 // of the arena's chunks
	Reserved  int64 // all that is held
	Hole      int64 // the largest in the arena
	Limit     int64 // 0: none, the system has no more
	Largest   []Owned
	Cause     error // the system's; nil where the limit refused
}

// Error tells all of it on one line.
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

// Unwrap is the system's error.
func (e *OutOfMemory) Unwrap() error { return e.Cause }

// ExitCode is that of a request that cannot be met.
func (e *OutOfMemory) ExitCode() int { return 1 }
