package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"
)

// TestAnything: commands with random flags, values and files never panic; they
// end with an exit code of ours, and where that is not 0 the last line on
// standard error, and no other but warnings, says why.
func TestAnything(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, line := range []string{
		"new mlp -o m.onnx --width 8 --inputs 4 --classes 3 --layers 1 --data m.npz --samples 8",
		"plan m.onnx --dims batch=2 -o p.json", "train m.onnx --dims batch=2 --dump d.npz", "train m.onnx --dims batch=2 --save s.safetensors"} {
		var out, err bytes.Buffer
		if run(append([]string{"memopt"}, strings.Fields(line)...), &out, &err) != 0 {
			t.Fatalf("%s: %s", line, err.String())
		}
	}
	values := []string{"", "0", "-1", "x", "nan", "1e30", "2", "0.5", "50%", "1GiB", "batch=2", "batch=2,seq=3", "fc1.*", "loss", "adamw", "sgd",
		"recompute-all", "m.onnx", "m.npz", "d.npz", "p.json", "s.safetensors", ".", "nowhere/x", "out", ",", "{", "\xff", "json", "graph", "debug"}
	files := []string{"m.onnx", "p.json", "m.npz", "mlp", "none", ".", "", "m.onnx"}
	rapid.Check(t, func(t *rapid.T) {
		command := rapid.SampledFrom(commands).Draw(t, "command")
		if command == serveCommand {
			return
		}
		args := []string{"memopt", command.Name}
		for range rapid.IntRange(0, 2).Draw(t, "files") {
			args = append(args, rapid.SampledFrom(files).Draw(t, "file"))
		}
		if rapid.Bool().Draw(t, "dims") && command != newCommand {
			args = append(args, "--dims", "batch=2")
		}
		for range rapid.IntRange(0, 3).Draw(t, "flags") {
			flag := rapid.SampledFrom(command.Flags).Draw(t, "flag")
			args = append(args, "--"+rapid.SampledFrom(flag.Names()).Draw(t, "name"))
			if _, is := flag.(*cli.BoolFlag); !is {
				args = append(args, rapid.SampledFrom(values).Draw(t, "value"))
			}
		}
		var stdout, stderr bytes.Buffer
		code := run(args, &stdout, &stderr)
		said := 0
		for line := range strings.Lines(stderr.String()) {
			if !strings.HasPrefix(line, "memopt: warning: ") && !strings.HasPrefix(line, "time=") {
				said++
			}
		}
		if command == packCommand {
			return // whose figures are on standard error
		}
		if code < 0 || code > 2 || (code == 0) != (said == 0) || said > 1 {
			t.Fatalf("%q: exit code %d, and on standard error\n%s", args, code, stderr.String())
		}
	})
}
