package session

import (
	"memopt/internal/arena"
	"memopt/internal/loader"
	"memopt/internal/weights"
	"memopt/kernels"
)

// Stats is a session's memory, and counts of its runs.
type Stats struct {
	Format   string           `json:"format"`
	Device   string           `json:"device"`
	Limit    int64            `json:"limit"` // 0: none
	Held     int64            `json:"held"`
	HeldMost int64            `json:"held_most"`
	Owners   map[string]int64 `json:"owners"`
	Weights  Weights          `json:"weights"`
	Arena    arena.Stats      `json:"arena"`
	Patterns Patterns         `json:"patterns"`
	// Load is what loading the weights took, on a device that has its own memory, or on the processor where they are read
	// in place.
	Load *loader.Report `json:"load,omitempty"`
	Runs uint64         `json:"runs"`
	// CopiedIn and CopiedOut are the bytes copied by all runs.
	CopiedIn  int64 `json:"copied_in"`
	CopiedOut int64 `json:"copied_out"`
	// Shared is the work space that operators of this process share.
	Shared int64 `json:"shared_work_space"`
}

// Weights is the bytes of weights by where they are.
type Weights struct {
	Mapped int64 `json:"mapped"` // in the model's files
	Copied int64 `json:"copied"` // in memory: small, or not aligned in the file
	Host   int64 `json:"host"`   // given by the caller, and shared
	Folded int64 `json:"folded"` // computed from others
	// Unaligned is the part of Copied that is not aligned in its file, Shared the bytes shared with
	// other sessions, Unmapped the bytes (of this process) whose file could not be mapped.
	Unaligned int64 `json:"unaligned"`
	Shared    int64 `json:"shared"`
	Unmapped  int64 `json:"unmapped"`
}

// Patterns is the state of the cache of patterns.
type Patterns struct {
	Kept     int   `json:"kept"`
	Most     int   `json:"most"`
	Hits     int64 `json:"hits"`
	Misses   int64 `json:"misses"`
	Dropped  int64 `json:"dropped"`
	Fallback int64 `json:"fallback_bytes"` // allocated value by value
}

// Stats returns the current statistics.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, high := s.account.Held()
	folded := int64(0)
	if s.first != nil {
		folded = s.first.owned
	}
	a := s.arena.Stats()
	s.countBlocks(&a)
	return Stats{
		Load:   s.loading(),
		Format: "memopt.stats/1", Device: s.Device(), Limit: s.account.Limit(), Held: now, HeldMost: high, Owners: s.account.Owners(),
		Weights:  Weights{s.mappedBytes, s.copiedBytes, s.hostBytes, folded, s.unalignedBytes, s.sharedBytes(), weights.Snapshot().CopiedUnmapped},
		Arena:    a,
		Patterns: Patterns{s.patterns.len(), s.patterns.most, s.stats.hits, s.stats.misses, s.patterns.dropped, s.stats.fallback},
		Runs:     s.runs, CopiedIn: s.stats.copiedIn, CopiedOut: s.stats.copiedOut, Shared: kernels.Workspace(),
	}
}

// loading is the load of the latest device that has loaded weights. On the processor weights are read when the model is
// opened, and the activations are those of the last run.
func (s *Session) loading() (l *loader.Report) {
	if s.direct && s.options.Load == loader.InPlace && s.runs > 0 {
		of := loader.Sizes{W: s.promised.Weights, A: s.promised.Values}
		for _, w := range s.weights {
			of.Largest = max(of.Largest, int64(len(w.Bytes)))
		}
		return &loader.Report{Mode: loader.InPlace, Formula: loader.InPlace.Formula(), W: of.W, Largest: of.Largest, A: of.A,
			Promised: loader.InPlace.High(of), Measured: s.measured.Weights + s.measured.Values}
	}
	for t := range s.patterns.all {
		if d, is := t.device.(interface{ Loading() *loader.Report }); is && l == nil {
			l = d.Loading()
		}
	}
	return l
}

// countBlocks adds memory on the device.
func (s *Session) countBlocks(a *arena.Stats) {
	seen := map[*block]bool{nil: true}
	for t := range s.patterns.all {
		if t.block == nil {
			return // it works in the arena
		}
		if !seen[t.block] {
			a.TotalAllocated += t.block.bytes
			seen[t.block] = true
		}
		a.TotalAllocated += t.inputs
	}
	a.MaxTotalAllocated = max(a.MaxTotalAllocated, a.TotalAllocated)
	a.NumArenaExtensions += s.extensions
}

// sharedBytes is the bytes of weights shared with other sessions, in memory or on the device.
func (s *Session) sharedBytes() (n int64) {
	lists := [][]*weights.Shared[contents]{s.held}
	if s.first != nil {
		lists = append(lists, s.first.held)
	}
	for _, list := range lists {
		for _, h := range list {
			if h.Users() > 1 {
				n += h.Bytes
			}
		}
	}
	seen := map[*program]bool{}
	for t := range s.patterns.all {
		if d, is := t.device.(interface{ SharedWeights() int64 }); is && !seen[t.p] {
			n += d.SharedWeights()
			seen[t.p] = true
		}
	}
	return n
}

// HeldWeights is the memory of weights of all sessions of this process.
func HeldWeights() weights.StoreStats { return held.Stats() }
