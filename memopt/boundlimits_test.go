package memopt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/graph"
	"memopt/memopt/forward"
	"memopt/memopt/session"
)

// TestManyShapes: over a thousand steps of 64 shapes memory is bounded by the patterns that are kept: after the first pass over
// the shapes no more is held at most than before, but for buffers of outputs, which stay as large as the largest.
func TestManyShapes(t *testing.T) {
	for _, room := range []session.Room{session.Kept, session.OnDevice} {
		onBoth(t, func(t *testing.T, device string) { manyShapes(t, device, room) })
	}
}

func manyShapes(t *testing.T, device string, room session.Room) {
	const width = 16
	c := configs.Default()
	c.Device, c.MaxPatterns = device, 4
	s, err := forward.Open(context.Background(), session.Model{Path: squares(t, width, 1, 1)}, c, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := s.NewBinding()
	for _, name := range []string{"y", "z"} {
		if err := b.Output(name, room); err != nil {
			t.Fatal(err)
		}
	}
	most := int64(0)
	steps := 1000
	if room == session.OnDevice {
		steps = 300
	}
	for step := range steps {
		rows := 1 + step*37%64
		if err := b.Host("x", fillWith(graph.NewTensor(graph.Float32, rows, width), 1), session.AtRun); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Run(context.Background(), session.RunOptions{}); err != nil {
			t.Fatalf("step %d, %d rows: %v", step, rows, err)
		}
		stats := s.Stats()
		switch {
		case stats.Patterns.Kept > 4:
			t.Fatalf("step %d: %d patterns are kept", step, stats.Patterns.Kept)
		case step < 64:
			if most = stats.HeldMost; room == session.OnDevice {
				most += 64 * (width + 1) * 4
			}
		case stats.HeldMost > most:
			t.Fatalf("step %d: %d bytes were held, and %d in the first pass over the shapes: %v", step, stats.HeldMost, most, stats.Owners)
		}
	}
	b.ClearInputs()
	b.ClearOutputs()
	if held := s.Stats().Owners["buffers"]; held != 0 {
		t.Errorf("%d bytes of buffers are held at the end", held)
	}
}

// TestForwardLimits: with a limit of one byte, below the weights, of what a run needs and of one byte less, on all strategies:
// what does not fit says so and whose memory it is, what fits runs, and the next request is served. Numbers as large as they
// come do not wrap around.
func TestForwardLimits(t *testing.T) {
	onBoth(t, func(t *testing.T, device string) {
		path := squares(t, 32, 2, 1)
		openOn(t, device, path) // so that the device stays open
		in := func(rows int) map[string]*graph.Tensor {
			return map[string]*graph.Tensor{"x": fillWith(graph.NewTensor(graph.Float32, rows, 32), 1)}
		}
		for _, strategy := range arena.Strategies() {
			// with opens and runs under a limit; initial is of the first chunk.
			with := func(limit, initial int64, rows ...int) (errs []error, most int64) {
				c := configs.Default()
				c.Device, c.MemoryLimit, c.ArenaStrategy, c.InitialChunk = device, limit, strategy, initial
				s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
				if err != nil {
					return []error{err}, 0
				}
				defer func() {
					if err := s.Close(); err != nil {
						t.Errorf("%s, limit %d: %v", strategy, limit, err)
					}
				}()
				for _, n := range rows {
					_, err := s.Run(context.Background(), in(n), nil, session.RunOptions{})
					errs = append(errs, err)
					if held := s.Stats().HeldMost; limit > 0 && held > limit {
						t.Errorf("%s: %d bytes were held with a limit of %d", strategy, held, limit)
					}
				}
				return errs, s.Stats().HeldMost
			}
			refused := func(what string, err error) {
				t.Helper()
				var short *arena.OutOfMemory
				if !errors.As(err, &short) {
					t.Errorf("%s, %s: %v", strategy, what, err)
				} else if short.Requested <= 0 || short.Limit <= 0 || short.For == "" {
					t.Errorf("%s, %s: %+v", strategy, what, short)
				}
			}
			errs, high := with(0, 1, 40)
			if errs[0] != nil {
				t.Fatal(errs[0])
			}
			fits := func(limit int64) bool { errs, _ := with(limit, 1, 40); return errs[len(errs)-1] == nil }
			low := int64(1)
			for low < high {
				if mid := (low + high) / 2; fits(mid) {
					high = mid
				} else {
					low = mid + 1
				}
			}
			need := low
			errs, most := with(need, 1, 40, 40, 1, 40)
			for i, err := range errs {
				if err != nil {
					t.Errorf("%s: run %d with the need of %d: %v", strategy, i, need, err)
				}
			}
			if most > need {
				t.Errorf("%s: %d bytes of %d", strategy, most, need)
			}
			errs, _ = with(need-1, 1, 40, 1, 40, 1)
			if len(errs) == 1 {
				refused("a byte less", errs[0])
			} else {
				for i, err := range errs {
					if i%2 == 0 {
						refused("a byte less", err)
					} else if err != nil {
						t.Errorf("%s: the next request is not served: %v", strategy, err)
					}
				}
			}
			for _, limit := range []int64{1, 2, 4096} { // below the weights
				errs, _ := with(limit, 1, 1, 1)
				for _, err := range errs {
					refused(fmt.Sprint("a limit of ", limit), err)
				}
			}
			for _, limit := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 62} {
				for _, initial := range []int64{1, 1 << 20} {
					if errs, _ := with(limit, initial, 3, 40); errors.Join(errs...) != nil {
						t.Errorf("%s, a limit of %d: %v", strategy, limit, errors.Join(errs...))
					}
				}
			}
			if errs, _ := with(need, math.MaxInt64, 40); errs[0] != nil { // the first chunk is what the limit leaves
				t.Errorf("%s, a first chunk as large as numbers are: %v", strategy, errs[0])
			}
		}
	})
}
