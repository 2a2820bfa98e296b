package session

import (
	"sync"

	"memopt/internal/arena"
	"memopt/internal/graph"
)

// Stage is a stage of a session's work.
type Stage uint8

// The stages, in the order of a session's first run on the processor. On a device with its own
// memory weights are uploaded after planning.
const (
	OpenStage     Stage = iota // the model's file is read
	OptimizeStage              // passes over the graph
	WeighStage                 // weights are loaded
	PlanStage                  // values are placed
	OutputStage                // buffers of bound outputs are allocated
	BindStage                  // memory of values is allocated
	RunStage
	CloseStage
)

// Watch is functions that are called for stages and memory of a session; nil ones are not.
type Watch struct {
	// Begin is called when a stage begins, with the bytes that the session should hold at its end,
	// and at most during it.
	Begin func(s Stage, end, most int64)
	// Count is called for memory that is taken or (below zero) freed.
	Count arena.Watch
	// Arena is called with the session's arena.
	Arena func(*arena.Arena)
}

// Owners in Watch.Count besides those of the account. A device counts under its own: weights,
// activations, staging, and other for memory that no plan counts.
const (
	OwnBuffers = ownBuffers
	OwnHost    = "host" // host memory of a session on a device: copies of weights, and results
)

// ledger is the sum of all calls of Watch.Count, which is reversed when the session is closed.
type ledger struct {
	mu sync.Mutex
	by map[string][2]int64
}

// watched connects the account to the watch.
func (s *Session) watched() {
	count := s.options.Watch.Count
	if count == nil {
		return
	}
	s.reported.by = map[string][2]int64{}
	s.account.Watch(func(owner string, requested, granted int64) {
		if owner = s.told(owner); owner == "" {
			return
		}
		s.reported.mu.Lock()
		n := s.reported.by[owner]
		s.reported.by[owner] = [2]int64{n[0] + requested, n[1] + granted}
		s.reported.mu.Unlock()
		count(owner, requested, granted)
	})
}

// unreport reverses what is left.
func (s *Session) unreport() {
	s.account.Watch(nil)
	s.reported.mu.Lock()
	defer s.reported.mu.Unlock()
	for owner, n := range s.reported.by {
		s.options.Watch.Count(owner, -n[0], -n[1])
	}
	s.reported.by = nil
}

// begin reports a stage. takes is the bytes that the session takes in it besides those that it
// holds: stay until after it, and pass during it. It is not called where nobody watches; nil takes
// nothing.
func (s *Session) begin(stage Stage, takes func() (stay, pass int64)) {
	begin := s.options.Watch.Begin
	if begin == nil {
		return
	}
	held, pass := s.holds(), int64(0)
	if takes != nil {
		stay, more := takes()
		held, pass = held+stay, more
	}
	begin(stage, held, held+pass)
}

// holds is the session's bytes of its device's memory.
func (s *Session) holds() (n int64) {
	for owner, bytes := range s.account.Owners() {
		switch {
		case owner == s.options.Arena.Name: // its chunks are counted under other owners
		case s.ofDevice(owner):
			n += bytes
		}
	}
	if s.unshare != nil { // results are on the shared arena's account
		for _, k := range s.kept {
			n += k.c.Size()
		}
	}
	return n
}

// weighs is the bytes of a graph's weights that the session does not have yet.
func (s *Session) weighs(p *program) (n int64) {
	for _, v := range p.g.Values {
		if v.Kind == graph.Computed || v.Kind == graph.Input || v.Data == nil {
			continue
		}
		k, number := v.Bytes().Const()
		if _, is := s.weights[keyOfWeight(v, k)]; number && !is {
			n += k
		}
	}
	return n
}

// grows is the bytes that slots for outputs will grow by.
func (s *Session) grows(t *pattern, fetches []Fetch) (more int64) {
	for k, f := range fetches {
		if f.Slot == nil {
			continue
		}
		n := t.bytes(k)
		if b := f.Slot.Buffer(); b == nil || b.Len() < n {
			more += s.BufferBytes(f.Slot.Room, n)
		}
	}
	return more
}
