package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"memopt/internal/stop/stoptest"
	"memopt/internal/weights"
	"memopt/plugin"
)

// lookedAt is a context that ends when it was looked at so many times.
type lookedAt struct {
	context.Context
	looks, most atomic.Int64
}

func (c *lookedAt) Err() error {
	if c.looks.Add(1) > c.most.Load() {
		return context.Canceled
	}
	return nil
}

// TestServiceGivesUp: a request whose host gives it up, at whatever moment, leaves no file,
// whole or in part, no mapping and no goroutine; and files of a later one stay.
func TestServiceGivesUp(t *testing.T) {
	alone(t, "new gpt -o m.onnx --layers 2 --width 32 --heads 2 --vocab 64")
	if err := os.Mkdir("out", 0o777); err != nil {
		t.Fatal(err)
	}
	r := plugin.Question{Model: "m.onnx", SaveTo: "out/p.json", Emit: "out/e.onnx", HTML: "out/p.html", Show: stageNames(),
		Settings: with("batch=2,seq=16", "activation_budget", "85%", "config", `{"save_onnx_path": "out"}`)}
	there := func() (all string) {
		entries, err := os.ReadDir("out")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, _ := os.ReadFile("out/" + e.Name())
			all += fmt.Sprintf("%s %d\n", e.Name(), len(data))
		}
		return all
	}
	whole := &lookedAt{Context: t.Context()}
	whole.most.Store(1 << 62)
	if _, err := (front{}).Plan(whole, r); err != nil {
		t.Fatal(err)
	}
	later := there()
	// What two runs look at differs a little: some of it is done at the same time.
	all, step := whole.looks.Load(), int64(1)
	goroutines, mapped := runtime.NumGoroutine(), weights.Snapshot().Mapped
	given := 0
	for most := all - all/100; most > 0; most, step = most-step, step+step/8+1 {
		for _, before := range []string{"", later} {
			if before == "" {
				if err := errors.Join(os.RemoveAll("out"), os.Mkdir("out", 0o777)); err != nil {
					t.Fatal(err)
				}
			}
			ctx := &lookedAt{Context: t.Context()}
			ctx.most.Store(most)
			if _, err := (front{}).Plan(ctx, r); !errors.Is(err, context.Canceled) {
				t.Fatalf("given up at look %d of %d: error %v", most, all, err)
			}
			given++
			if is := there(); is != before {
				t.Fatalf("given up at look %d of %d, it left\n%s, not\n%s", most, all, is, before)
			}
			if before == "" {
				if _, err := (front{}).Plan(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if given < 40 {
		t.Errorf("only %d calls were given up", given)
	}
	stoptest.Ended(t, goroutines)
	if n := weights.Snapshot().Mapped; n != mapped {
		t.Errorf("%d bytes are mapped, %d before", n, mapped)
	}
}
