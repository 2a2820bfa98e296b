package memopt

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"memopt/internal/stop"
	"memopt/internal/stop/stoptest"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
	"memopt/planner/planfile"
)

// counted is a context that ends when it was looked at so many times.
type counted struct {
	context.Context
	looks, most atomic.Int64
	ended       atomic.Int64 // processor time when it did
	last, gap   atomic.Int64 // processor time at the last look, and the most between two, if it is clocked
	clocked     bool
}

func newCounted(most int64) *counted {
	c := &counted{Context: context.Background()}
	c.most.Store(most)
	return c
}

func (c *counted) Err() error {
	if c.looks.Add(1) <= c.most.Load() {
		if c.clocked {
			now := int64(processorTime())
			if gap := now - c.last.Swap(now); gap > c.gap.Load() {
				c.gap.Store(gap)
			}
		}
		return nil
	}
	c.ended.CompareAndSwap(0, int64(processorTime()))
	return context.Canceled
}

// processorTime is what this process has used so far. Other processes do not count in it.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestStops: whatever a model is asked for ends soon after its context does, at
// whatever moment that is: with the context's error, no goroutine, and no file.
func TestStops(t *testing.T) {
	const (
		forever = 1 << 62
		soon    = 200 * time.Millisecond
	)
	long := 120 // layers
	if testing.Short() {
		long = 30
	}
	for _, c := range []struct {
		name   string
		spec   zoo.Spec
		fields map[string]string
		ask    func(m *step.Model) error
	}{
		{"plan", zoo.Spec{Family: "gpt", Layers: 2, Width: 32}, map[string]string{"activation_budget": "70%"}, makesPlan},
		{"plan of a convolution net", zoo.Spec{Family: "resnet", Layers: 2, Width: 8, Image: 16}, map[string]string{"activation_budget": "70%"}, makesPlan},
		{"limit of cost", zoo.Spec{Family: "gpt", Layers: 2, Width: 32}, map[string]string{"max_overhead": "10%"}, makesPlan},
		{"refusal", zoo.Spec{Family: "gpt", Layers: 2, Width: 32}, map[string]string{"activation_budget": "20KiB"}, makesPlan},
		{"rounding", zoo.Spec{Family: "gpt", Layers: 2, Width: 32}, map[string]string{"activation_budget": "70%", "lossy": "bf16"}, makesPlan},
		{"frontier", zoo.Spec{Family: "gpt", Layers: 2, Width: 32}, map[string]string{}, func(m *step.Model) error { _, err := m.Frontier(); return err }},
		{"largest batch", zoo.Spec{Family: "gpt", Layers: 2, Width: 32}, map[string]string{"budget": "32MiB"},
			func(m *step.Model) error { _, err := m.Largest("batch"); return err }},
		{"long program", zoo.Spec{Family: "gpt", Layers: long, Width: 16, Heads: 1, Vocab: 64}, map[string]string{"activation_budget": "40%"}, makesPlan},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := madeGPT(t, c.spec)
			cfg := settingsFor(t, c.fields)
			cfg.Dims = map[string]int64{"batch": 4, "seq": 16}
			if c.spec.Family == "resnet" {
				cfg.Dims = map[string]int64{"batch": 4}
			}
			ask := func(ctx context.Context) error {
				m, err := OpenContext(ctx, path, cfg)
				if err != nil {
					return err
				}
				defer m.Close()
				return c.ask(m)
			}
			whole := newCounted(forever)
			whole.clocked = true
			whole.last.Store(int64(processorTime()))
			unmet := ask(whole)
			if wants := c.name == "refusal"; (unmet != nil) != wants {
				t.Fatal(unmet)
			}
			if gap := time.Duration(whole.gap.Load()); gap > soon {
				t.Errorf("%v pass between two looks", gap)
			}
			before := runtime.NumGoroutine()
			all, times := whole.looks.Load(), int64(12)
			for k := range times {
				ctx := newCounted(all * k / times)
				err := ask(ctx)
				took := processorTime() - time.Duration(ctx.ended.Load())
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("ended at look %d of %d: %v", ctx.most.Load(), all, err)
				}
				if took > soon {
					t.Errorf("ended at look %d of %d: it took another %v", ctx.most.Load(), all, took)
				}
			}
			stoptest.Ended(t, before)
		})
	}
}

func makesPlan(m *step.Model) error {
	p, err := m.Plan()
	if err != nil {
		return err
	}
	_, err = stop.When(m.Ctx, func() (*planfile.File, error) { return planfile.Of(p, m.Path), nil })
	return err
}
