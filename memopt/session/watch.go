package session

import (
	"sync"

	"memopt/memopt/arena"
	"memopt/memopt/graph"
)

// Stage is what a session is about to do.
type Stage uint8

// The stages, in the order of a session's first run on the processor. A device with memory of its own has its weights
// once a plan is made for it.
const (
	OpenStage     Stage = iota // the model's file is read
	OptimizeStage              // passes over the graph
	WeighStage                 // weights come to where the program reads them
	PlanStage                  // values get their places
	OutputStage                // outputs that are bound get their buffers
	BindStage                  // values get their memory
	RunStage
	CloseStage
)

// Watch is told of what a session does, and of the memory that it takes for that. What is nil is not told.
type Watch struct {
	// Begin is where a stage begins. By the end of it the session is to hold so many bytes, and so many at most while it goes on.
	Begin func(s Stage, end, most int64)
	// Count is told of memory that comes and, below zero, goes.
	Count arena.Watch
	// Arena is told which one the session has.
	Arena func(*arena.Arena)
}

// Owners that Watch.Count tells of, beside those of the account. Of a device owners are the device's: weights, activations and
// staging, and other for what no plan counts.
const (
	OwnBuffers = ownBuffers
	OwnHost    = "host" // what lies in the host's memory beside a device's: weights that the device has too, and results
)

// ledger is what a session has told its watch, which is taken back when it is closed.
type ledger struct {
	mu sync.Mutex
	by map[string][2]int64
}

// watched has the account tell the watch what it takes.
func (s *Session) watched() {
	count := s.options.Watch.Count
	if count == nil {
		return
	}
	s.told.by = map[string][2]int64{}
	s.account.Watch(func(owner string, requested, granted int64) {
		if s.options.Device != nil {
			switch owner {
			case ownDevice, ownLoaded:
				return // the device tells of these
			case ownWeights, ownComputed, ownResults, ownModel:
				owner = OwnHost
			}
		}
		s.told.mu.Lock()
		n := s.told.by[owner]
		s.told.by[owner] = [2]int64{n[0] + requested, n[1] + granted}
		s.told.mu.Unlock()
		count(owner, requested, granted)
	})
}

// untold takes back what is left.
func (s *Session) untold() {
	s.account.Watch(nil)
	s.told.mu.Lock()
	defer s.told.mu.Unlock()
	for owner, n := range s.told.by {
		s.options.Watch.Count(owner, -n[0], -n[1])
	}
	s.told.by = nil
}

// begin tells of a stage in which the session takes so many bytes beside what it holds: those that stay, and others.
func (s *Session) begin(stage Stage, stay, pass int64) {
	if begin := s.options.Watch.Begin; begin != nil {
		held := s.holds()
		begin(stage, held+stay, held+stay+pass)
	}
}

// holds is what the session has of its device's memory, by the account.
func (s *Session) holds() (n int64) {
	for owner, bytes := range s.account.Owners() {
		switch {
		case owner == s.options.Arena.Name: // what lies in it
		case s.options.Device == nil || owner == ownDevice || owner == ownLoaded || owner == ownBuffers: // else the host's
			n += bytes
		}
	}
	if s.unshare != nil && s.options.Device == nil { // results are on the account of the arena that is shared
		for _, k := range s.kept {
			n += k.c.Size()
		}
	}
	return n
}

// weighs is what the numbers of a graph take in memory or in the model's file, but for those that the session has.
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

// takes is what a run takes: for outputs, which stay, and for all else.
func (x *execution) takes() (stay, pass int64) {
	t := x.t
	if stay = x.s.grows(t, x.fetches); t.device != nil {
		return stay, 0
	}
	for k, f := range x.fetches {
		if !f.buffered() && f.Place == nil {
			stay += t.bytes(t.results[k])
		}
	}
	for _, v := range t.p.g.Inputs {
		if t.tensors[v.ID] != nil && !isAligned(x.in[v.Name].Bytes, v.Type) {
			pass += t.bytes(v)
		}
	}
	if pass += t.height; !x.s.options.Pattern {
		pass += t.bound
	}
	return stay, pass
}

// grows is how many bytes more slots for outputs have once the outputs are there.
func (s *Session) grows(t *pattern, fetches []Fetch) (more int64) {
	for k, f := range fetches {
		if f.Slot == nil {
			continue
		}
		n := t.bytes(t.results[k])
		if b := f.Slot.Buffer(); b == nil || b.Len() < n {
			more += s.BufferBytes(f.Slot.Room, n)
		}
	}
	return more
}
