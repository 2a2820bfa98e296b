// Package echo is a service for tests of the transport: the real Serve with a front that plans
// nothing. Its answer repeats the request; some names of models cause a fault.
package echo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"memopt/plugin"
)

// Run is the command line `serve [--gencert]`; it returns the exit code.
func Run(args []string, stdout, stderr io.Writer) int {
	var err error
	switch strings.Join(args, " ") {
	case "serve":
		err = plugin.Serve(echo{})
	case "serve --gencert":
		err = plugin.WriteClientCert(stdout)
	default:
		err = exitError{2, "usage: testserver serve [--gencert]"}
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	if e, ok := err.(interface{ ExitCode() int }); ok {
		return e.ExitCode()
	}
	return 1
}

type echo struct{}

func (echo) Info(context.Context) (plugin.Info, error) {
	return plugin.Info{
		Version:  "0.0.0-test",
		Features: []string{"echo"},
		Devices:  []plugin.Device{{Name: "none", Kind: "cpu", Memory: 1 << 30}},
	}, nil
}

// exitError is an error of the front with its exit code.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return e.text }
func (e exitError) ExitCode() int { return e.code }

// refusedError is an error about a budget that cannot be met.
type refusedError struct {
	exitError
	refusal string
}

func (e refusedError) Refusal() string { return e.refusal }

// faults maps names of models to their faults.
var faults = map[string]func(context.Context, plugin.Question) error{
	"cannot.onnx": func(context.Context, plugin.Question) error {
		return refusedError{exitError{1, "no plan fits 1 GiB: the floor is 1.5 GiB, held by node \"loss\""},
			`{"format": "memopt.refusal/1", "want": 1, "best": 3, "fixed": 4, "floor": {"peak": 2, "node": "é"}, "changes": [{"setting": "budget=7", "settings": {"budget": "7"}, "share": 0.5}]}`}
	},
	"bad.onnx": func(context.Context, plugin.Question) error {
		return exitError{2, "bad.onnx: not a model: wire type 7 at byte 0"}
	},
	"long.onnx": func(context.Context, plugin.Question) error {
		return exitError{2, strings.Repeat("node \"é\": operator not known\n", 5000)}
	},
	"other.onnx": func(context.Context, plugin.Question) error { return fmt.Errorf("disk \xff full") },
	"panic.onnx": func(context.Context, plugin.Question) error { panic("broken invariant") },
	"crash.onnx": func(ctx context.Context, _ plugin.Question) error {
		go func() { panic("nobody recovers this") }()
		<-ctx.Done()
		return nil
	},
	"exit.onnx": func(context.Context, plugin.Question) error { os.Exit(3); return nil },
	"slow.onnx": func(ctx context.Context, _ plugin.Question) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return nil
		}
	},
	"busy.onnx": func(context.Context, plugin.Question) error {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		}
		return nil
	},
	"memory.onnx": func(context.Context, plugin.Question) error {
		held := [][]byte{}
		for range 1 << 10 { // under a limit far below these 64 GiB
			held = append(held, make([]byte, 64<<20))
		}
		return fmt.Errorf("%d pieces fit", len(held))
	},
	"print.onnx": func(context.Context, plugin.Question) error {
		for i := range 5000 {
			fmt.Println("a line on standard output", i)
			fmt.Fprintln(os.Stderr, "a line on standard error", i)
		}
		return nil
	},
}

func (echo) Plan(ctx context.Context, r plugin.Question) (plugin.Answer, error) {
	r.Progress("repeating "+filepath.Base(r.Model), 0.5)
	if fault, ok := faults[filepath.Base(r.Model)]; ok {
		if err := fault(ctx, r); err != nil {
			return plugin.Answer{}, err
		}
	}
	var dims map[string]int64
	if text := r.Settings["dims"]; text != "" {
		if err := json.Unmarshal([]byte(text), &dims); err != nil {
			return plugin.Answer{}, err
		}
	}
	size := int64(1)
	for _, n := range dims {
		size *= n
	}
	text, err := json.Marshal(map[string]any{
		"format":   "memopt.plan/1",
		"model":    map[string]any{"path": r.Model, "kind": "training", "nodes": 3},
		"dims":     dims,
		"request":  r,
		"baseline": map[string]any{"peak": 4 * size, "stashed": 3 * size},
		"result":   map[string]any{"peak": 2 * size, "arena": 2 * size, "overhead": 0.25, "recomputed_nodes": 1},
		"floor":    map[string]any{"peak": size, "node": "loss"},
		"clusters": []map[string]any{{"id": "Gelu+", "on": true}, {"id": "Softmax+", "on": false}},
		"warnings": []string{"this plan is an echo"},
	})
	if err != nil {
		return plugin.Answer{}, err
	}
	return plugin.Answer{
		JSON:     string(text),
		Text:     fmt.Sprintf("echo of %s: peak %d\n", filepath.Base(r.Model), 2*size),
		Warnings: []string{"this plan is an echo, whatever level says"},
	}, nil
}

func (echo) Frontier(_ context.Context, r plugin.Question) (plugin.Answer, error) {
	return repeat("frontier", r)
}

func (echo) MaxBatch(_ context.Context, r plugin.Question) (plugin.Answer, error) {
	return repeat("maxbatch", r)
}

func (echo) Explain(_ context.Context, r plugin.Question) (plugin.Answer, error) {
	return repeat("explain", r)
}

// repeat answers with the question.
func repeat(name string, r plugin.Question) (plugin.Answer, error) {
	text, err := json.Marshal(map[string]any{"format": "memopt." + name + "/1", "question": r})
	return plugin.Answer{JSON: string(text), Text: name + " " + r.Model, Warnings: []string{"this answer is an echo"}}, err
}

func (echo) Check(_ context.Context, r plugin.Question) (plugin.Answer, error) {
	return plugin.Answer{}, exitError{2, "nothing to check " + r.Plan + " with"}
}

func (echo) Quantize(_ context.Context, r plugin.Question) (plugin.Answer, error) {
	return plugin.Answer{}, exitError{2, "nothing to quantize " + r.Plan + " with"}
}

func (echo) Load(_ context.Context, r plugin.Question) (plugin.Answer, error) {
	return plugin.Answer{}, exitError{2, "nothing to load " + r.Plan + " with"}
}

func (echo) Stats(context.Context) (plugin.Answer, error) { return plugin.Answer{JSON: "{}"}, nil }

func (echo) Open(context.Context, plugin.OpenRequest) (plugin.Opened, error) {
	return plugin.Opened{}, exitError{2, "the echo holds no sessions"}
}
