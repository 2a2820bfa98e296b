package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"memopt/memopt/exit"
	"memopt/plugin"
)

// changes are what another process may do to a file while it is read.
var changes = map[string]func(path string, was []byte) error{
	"emptied":  func(path string, _ []byte) error { return os.Truncate(path, 0) },
	"one page": func(path string, _ []byte) error { return os.Truncate(path, 4096) },
	"halved":   func(path string, was []byte) error { return os.Truncate(path, int64(len(was)/2)) },
	"rewritten": func(path string, was []byte) error {
		return os.WriteFile(path, bytes.Repeat([]byte{7}, len(was)), 0o666)
	},
	"replaced": func(path string, was []byte) error {
		if err := os.WriteFile(path+".next", was, 0o666); err != nil {
			return err
		}
		return os.Rename(path+".next", path)
	},
}

// TestFilesThatChange: whatever happens to a file at whatever time, a command ends with
// what it makes of the file as it was, or with one line that names the file, exit code 2
// and nothing written. It never ends by a signal.
func TestFilesThatChange(t *testing.T) {
	alone(t, "new gpt -o m.onnx --layers 1 --width 128 --vocab 1024 --positions 32 --data d.npz --samples 64 --seq 16")
	withExternalData(t, "m.onnx", "e.onnx")
	const dims = " --dims batch=2,seq=16"
	for _, c := range []struct{ command, file string }{
		{"plan m.onnx -o out.json --emit out.onnx" + dims, "m.onnx"},
		{"plan e.onnx -o out.json --emit out.onnx" + dims, "e.onnx.data"},
		{"optimize m.onnx -o out.onnx", "m.onnx"},
		{"optimize e.onnx -o out.onnx", "e.onnx.data"},
		{"train e.onnx --steps 2 --data d.npz --save out.safetensors" + dims, "e.onnx.data"},
		{"train m.onnx --steps 2 --save out.safetensors" + dims, "m.onnx"},
		{"train m.onnx --data d.npz --dump out.npz" + dims, "m.onnx"},
		{"check p.json m.onnx", "m.onnx"},
		{"frontier m.onnx" + dims, "m.onnx"},
		{"maxbatch m.onnx --dims seq=16 --budget 64MiB", "m.onnx"},
		{"quantize m.onnx -o out.onnx", "m.onnx"},
		{"quantize e.onnx -o out.onnx --per-channel", "e.onnx.data"},
		{"quantize e.onnx -o out.onnx --fold-transposes --external-data", "e.onnx"},
		{"run e.onnx" + dims, "e.onnx.data"},
		{"run m.onnx" + dims, "m.onnx"},
		{"load e.onnx --mode eager" + dims, "e.onnx.data"},
		{"load m.onnx --mode streamed" + dims, "m.onnx"},
		{"leaks m.onnx --cycles 8" + dims, "m.onnx"},
		{"leaks e.onnx --cycles 8" + dims, "e.onnx.data"},
	} {
		t.Run(c.command, func(t *testing.T) {
			if strings.HasPrefix(c.command, "check") {
				quietly(t, "plan m.onnx -o p.json"+dims)
			}
			was, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			failed := 0
			for range 5 { // where others keep the processors busy, a round may change the file too late
				begin := time.Now()
				quietly(t, c.command)
				whole := time.Since(begin)
				for name, change := range changes {
					for _, percent := range []int{5, 30, 60} {
						for _, out := range []string{"out.json", "out.onnx", "out.onnx.data", "out.npz", "out.safetensors"} {
							os.Remove(out)
						}
						var over sync.WaitGroup
						over.Go(func() {
							time.Sleep(whole * time.Duration(percent) / 100)
							if err := change(c.file, was); err != nil {
								t.Error(err)
							}
						})
						var out, msg bytes.Buffer
						code := run(strings.Fields("memopt "+c.command+" --quiet"), &out, &msg)
						over.Wait()
						if code != 0 {
							failed++
							named := strings.Contains(msg.String(), filepath.Base(c.file)) && strings.Count(msg.String(), "\n") == 1
							if code != 2 || !named {
								t.Errorf("%s after %d %% of its time: code %d: %s", name, percent, code, msg.String())
							}
							if left, _ := filepath.Glob("out*"); strings.HasPrefix(c.command, "optimize") && len(left) > 0 {
								t.Errorf("%s: it failed and wrote %s", name, left)
							}
						}
						if left, _ := filepath.Glob(".out*"); len(left) > 0 {
							t.Errorf("%s: temporary files are left: %s", name, left)
						}
						if err := os.WriteFile(c.file, was, 0o666); err != nil {
							t.Fatal(err)
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
				if failed > 0 {
					return
				}
			}
			t.Errorf("no change was ever noticed")
		})
	}
}

// quietly runs a command that has to work.
func quietly(t *testing.T, line string) {
	t.Helper()
	var out, err bytes.Buffer
	if run(append(strings.Fields("memopt "+line), "--quiet"), &out, &err) != 0 {
		t.Fatalf("%s: %s", line, err.String())
	}
}

// TestServiceOutlivesFilesThatChange: a call whose file is cut off fails with an error
// that names it, and calls on other files go on meanwhile.
func TestServiceOutlivesFilesThatChange(t *testing.T) {
	alone(t, "new mlp -o a.onnx --width 512 --inputs 512 --layers 4", "new mlp -o b.onnx --width 64 --layers 2")
	was, err := os.ReadFile("a.onnx")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(model string, quantize bool) error {
		if quantize {
			_, err := front{}.Quantize(context.Background(), plugin.Question{Model: model, SaveTo: "q.onnx", Caller: plugin.Caller{Environment: map[string]string{}}})
			return err
		}
		_, err := front{}.Plan(context.Background(), plugin.Question{Model: model, Settings: with("batch=8"), Emit: model + ".out", Caller: plugin.Caller{Environment: map[string]string{}}})
		return err
	}
	stop := make(chan bool)
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := ask("b.onnx", false); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	failed := 0
	for i := range 30 {
		var cut sync.WaitGroup
		cut.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			if err := os.Truncate("a.onnx", int64(4096*(i%3))); err != nil {
				t.Error(err)
			}
		})
		if err := ask("a.onnx", i%2 == 1); err != nil {
			failed++
			if exit.Code(err) != 2 || !strings.Contains(err.Error(), "a.onnx") {
				t.Errorf("code %d: %v", exit.Code(err), err)
			}
			if _, coded := err.(interface{ ExitCode() int }); !coded {
				t.Errorf("%v has no code: hosts would not know what to do", err)
			}
		}
		cut.Wait()
		if err := os.WriteFile("a.onnx", was, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	others.Wait()
	if failed == 0 {
		t.Error("no call met the change")
	}
	if maps := mapped(t); strings.Contains(maps, "a.onnx") {
		t.Error(fmt.Sprint("the service still maps a file whose calls are over:\n", maps))
	}
}

// mapped lists what this process maps.
func mapped(t *testing.T) string {
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "" // not everywhere
	}
	return string(data)
}
