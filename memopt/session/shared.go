package session

import (
	"sync"

	"memopt/internal/arena"
)

// Arenas is the arenas that sessions share, by name.
type Arenas struct {
	mu sync.Mutex
	by map[string]*sharedArena
}

type sharedArena struct {
	arena *arena.Arena
	users int
}

// Use is the arena of a name: that of open sessions, or a new one with these options and this
// limit. The returned function must be called when the session is closed; the last call closes the
// arena.
func (a *Arenas) Use(name string, limit int64, o Options) (*arena.Arena, func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		a.by = map[string]*sharedArena{}
	}
	s := a.by[name]
	if s == nil {
		o.Arena.Account, o.Arena.Memory = arena.NewAccount(limit), memory{&Session{options: o}}
		o.Arena.Account.Watch(o.Watch.Count)
		s = &sharedArena{arena: arena.New(o.Arena)}
		a.by[name] = s
	}
	s.users++
	return s.arena, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s.users--; s.users > 0 {
			return nil
		}
		delete(a.by, name)
		return s.arena.Close()
	}
}
