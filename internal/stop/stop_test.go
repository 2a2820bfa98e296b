package stop_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"memopt/internal/stop"
	"memopt/internal/stop/stoptest"
)

// endless works until its context ends.
func endless(ctx context.Context) {
	for {
		stop.Poll(ctx)
		runtime.Gosched()
	}
}

func TestWhen(t *testing.T) {
	fault := errors.New("fault")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		work   func(context.Context) (int, error)
		result int
		err    error
	}{
		{"done", context.Background(), func(context.Context) (int, error) { return 1, nil }, 1, nil},
		{"no context", nil, func(ctx context.Context) (int, error) { stop.Poll(ctx); return 1, nil }, 1, nil},
		{"fault", context.Background(), func(context.Context) (int, error) { return 1, fault }, 0, fault},
		{"ended at a poll", ended, func(ctx context.Context) (int, error) { endless(ctx); return 1, nil }, 0, context.Canceled},
		{"ended without one", ended, func(context.Context) (int, error) { return 1, nil }, 0, context.Canceled},
		{"ended before the fault", ended, func(context.Context) (int, error) { return 1, fault }, 0, context.Canceled},
		{"within another", ended, func(ctx context.Context) (int, error) {
			return stop.When(ctx, func() (int, error) { endless(ctx); return 1, nil })
		}, 0, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := stop.When(c.ctx, func() (int, error) { return c.work(c.ctx) })
			if result != c.result || err != c.err {
				t.Errorf("%d, %v; want %d, %v", result, err, c.result, c.err)
			}
		})
	}
}

// TestAll: when the context ends, so does everything that was begun, before When returns.
func TestAll(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	var working atomic.Int32
	work := func() {
		working.Add(1)
		defer working.Add(-1)
		endless(ctx)
	}
	_, err := stop.When(ctx, func() (int, error) {
		wait := stop.Go(work)
		defer wait()
		stop.All(work, work, func() {})
		return 1, nil
	})
	if err != context.DeadlineExceeded {
		t.Error(err)
	}
	if n := working.Load(); n != 0 {
		t.Errorf("%d still work", n)
	}
	stoptest.Ended(t, before)
}

// TestFaults: a bug on another goroutine is its caller's, with its own stack.
func TestFaults(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "bug") || !strings.Contains(text, "aFault") {
			t.Errorf("panic %q", text)
		}
	}()
	stop.All(func() {}, aFault)
}

func aFault() { panic("bug") }
