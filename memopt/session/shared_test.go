package session_test

import (
	"context"
	"sync"
	"testing"

	"memopt/internal/arena"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/session"
)

// TestSharedArena: sessions that share an arena run concurrently within one limit, and the last one
// to be closed frees it.
func TestSharedArena(t *testing.T) {
	path := zooModel(t, "mlp")
	g, err := zoo.New(zoo.Spec{Family: "mlp", Seed: 1}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	var arenas session.Arenas
	const limit = 1 << 20
	options := session.Options{Arena: arena.Options{Strategy: arena.SameAsRequested}}
	options.Share = func() (*arena.Arena, func() error) { return arenas.Use("one", limit, options) }
	var sessions []*session.Session
	for range 3 {
		s, err := session.Open(context.Background(), session.Model{Path: path}, options)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
	}
	in := feed(t, g, map[string]int64{"batch": 4}, 1)
	var wait sync.WaitGroup
	for _, s := range sessions {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 20 {
				if _, err := s.Run(context.Background(), in, nil, session.RunOptions{}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wait.Wait()
	shared, done := arenas.Use("one", limit, options)
	if s := shared.Stats(); s.NumAllocs == 0 || s.MaxTotalAllocated > limit || s.Limit != limit {
		t.Errorf("stats %+v", s)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	for _, s := range sessions {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if s := shared.Stats(); s.InUse != 0 || s.TotalAllocated != 0 {
		t.Errorf("after the last session %+v", s)
	}
	other, done := arenas.Use("one", 0, options)
	if other == shared {
		t.Error("an arena that ended is used again")
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}
