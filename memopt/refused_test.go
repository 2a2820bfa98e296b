package memopt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"memopt/configs"
	"memopt/internal/arena"
	"memopt/internal/loader"
	"memopt/memopt/exit"
	"memopt/memopt/forward"
	"memopt/memopt/held"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/load"
	"memopt/memopt/phases"
	"memopt/memopt/session"
	"memopt/memopt/training"
)

// refusing has the n-th request for memory from now on refused, from 0 on; met tells whether it came.
func refusing(n int) (met func() bool, end func()) {
	left := n
	arena.Fault(func(int64) error {
		if left--; left == -1 {
			return fmt.Errorf("refused for a test: %w", syscall.ENOMEM)
		}
		return nil
	})
	return func() bool { return left < 0 }, func() { arena.Fault(nil) }
}

// TestRefused: whichever request for memory the system refuses, every path gives the error with its exit code, gives back
// what it took, and serves the next request, with the same numbers.
func TestRefused(t *testing.T) {
	path := written(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 32, Vocab: 100, Positions: 16})
	c := configs.Default()
	c.Dims, c.Device = map[string]int64{"batch": 2, "seq": 16}, "cpu"
	train := func(recorded bool) func() (string, error) {
		return func() (string, error) {
			var o training.Options
			if recorded {
				p, err := phases.New(c.Device)
				if err != nil {
					t.Fatal(err)
				}
				o.Phases = p
			}
			m, err := Open(path, c)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			p, err := m.Plan()
			if err != nil {
				t.Fatal(err)
			}
			o.Steps, o.LR = 2, 1e-3
			r, err := Run(m, p, o)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(r.Losses), nil
		}
	}
	load := func(mode loader.Mode) func() (string, error) {
		return func() (string, error) {
			l, err := load.Run(context.Background(), path, c, mode, 0)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(l.DeviceMeasured), nil
		}
	}
	run := func(pattern bool, strategy string, off bool) func() (string, error) {
		return func() (string, error) {
			c := c
			c.MemoryPattern, c.ArenaStrategy, c.CPUArena, c.InitialChunk = pattern, strategy, !off, 256
			s, err := forward.Open(context.Background(), session.Model{Path: path}, c, "")
			if err != nil {
				return "", err
			}
			defer s.Close()
			r, err := forward.Run(context.Background(), s, c, forward.Running{Repeat: 2})
			if err != nil {
				arena.Fault(nil) // the same session serves the next request
				again, wrong := forward.Run(context.Background(), s, c, forward.Running{Repeat: 2})
				if wrong != nil {
					return "", errors.Join(errors.New("the next request is refused"), wrong)
				}
				return fmt.Sprintf("%x", again.Outputs[0].Bytes), err
			}
			return fmt.Sprintf("%x", r.Outputs[0].Bytes), nil
		}
	}
	step := func() (string, error) {
		h, err := held.Open(context.Background(), path, c, held.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		host := &host{t: t, Session: h}
		var losses []float64
		var first error
		for i := range 3 {
			dims := map[string]int64{"batch": int64(2 + i), "seq": 16} // each has a plan of its own
			host.bind(dims)
			host.feed(nil, uint64(i))
			s, err := h.Step(context.Background(), held.StepOf{Binding: host.b.ID, LR: 1e-3})
			if err != nil {
				if first != nil {
					return "", errors.Join(errors.New("the next request is refused"), err)
				}
				first = err
				s, err = h.Step(context.Background(), held.StepOf{Binding: host.b.ID, LR: 1e-3})
				if err != nil {
					return "", errors.Join(errors.New("the next request is refused"), err)
				}
			}
			losses = append(losses, s.Loss)
		}
		return fmt.Sprint(losses), first
	}
	for name, do := range map[string]func() (string, error){
		"train": train(false), "train in phases": train(true), "step": step,
		"streamed": load(loader.Streamed), "lazy": load(loader.Lazy), "eager": load(loader.Eager), "inplace": load(loader.InPlace),
		"run": run(true, "planned", false), "run without patterns": run(false, "kNextPowerOfTwo", false), "run without an arena": run(false, "kSameAsRequested", true),
	} {
		t.Run(name, func(t *testing.T) {
			want, err := do()
			if err != nil {
				t.Fatal(err)
			}
			before, refused := arena.Mapped(), 0
			all := []int{0, 1, 2, 3, 5, 8, 21}
			if strings.HasPrefix(name, "train") || name == "step" { // where each error takes planning
				all = []int{1, 3, 6}
			}
			for _, n := range all {
				met, end := refusing(n)
				got, err := do()
				end()
				if now := arena.Mapped(); now != before {
					t.Fatalf("request %d refused: %d bytes are left", n, now-before)
				}
				if !met() {
					break
				}
				refused++
				if err == nil && got == want {
					continue // the memory was had in another way
				}
				if err == nil || exit.Code(err) != exit.CodeCannot || !strings.Contains(err.Error(), "refused for a test") || strings.Contains(err.Error(), "the next request") {
					t.Fatalf("request %d refused: %v, exit code %d", n, err, exit.Code(err))
				}
				if got != "" && got != want {
					t.Fatalf("request %d refused: the next one gives %s, not %s", n, got, want)
				}
			}
			if refused == 0 {
				t.Error("no request for memory was refused")
			}
			if got, err := do(); err != nil || got != want {
				t.Errorf("afterwards: %v, %s and not %s", err, got, want)
			}
		})
	}
}
