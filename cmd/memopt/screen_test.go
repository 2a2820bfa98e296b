package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// said is what a command writes on standard output and standard error, and its exit code.
func said(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = run(append([]string{"memopt"}, args...), &out, &err)
	return out.String(), err.String(), code
}

// TestWidth: whatever a command says fits 80 columns, and without a terminal nothing
// steers one. What other programs read is not broken: JSON, CSV, graphs, commands to type.
func TestWidth(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", "80")
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "")
	lines := `
new mlp -o mlp.onnx --width 32 --inputs 16 --classes 4 --data mlp.npz --samples 16
new gpt -o gpt.onnx --layers 2 --width 16 --heads 2 --vocab 40 --data gpt.npz --samples 8 --seq 16
new resnet -o resnet.onnx --width 4 --image 8 --classes 3
new llama -o llama.onnx --layers 1 --width 16 --heads 2 --vocab 40
plan mlp.onnx --dims batch=4 -o mlp.plan.json
plan gpt.onnx --dims batch=4,seq=16 --budget 60% --show passes,clusters,lives,arena,chains,formulas -o gpt.plan.json
plan gpt.onnx --dims batch=4,seq=16 --activation-budget 50% -o low.plan.json
plan gpt.onnx --dims batch=4,seq=16 --level 1
plan gpt.onnx --dims batch=4,seq=16 --lossy bf16
plan gpt.onnx --dims batch=4,seq=16 --config Gleu+:1:-1
plan gpt.onnx --dims batch=4,seq=16 --budget 1KiB
plan gpt.onnx --dims batch=4,seq=16 --budget 60
plan gpt.onnx --dims batch=4,seq=16 --max-overhead 1% --strategy recompute-all
plan resnet.onnx --dims batch=2 --budget 80%
plan llama.onnx --dims batch=2,seq=16 --budget 80%
plan gpt.onnx
plan gpt.plan.json
plan nowhere/none.onnx
plan --help
frontier gpt.onnx --dims batch=4,seq=16
frontier mlp.onnx --dims batch=4 --budget 1GiB
maxbatch gpt.onnx --dims seq=16 --budget 600KiB
maxbatch gpt.onnx --dims seq=16 --budget 10KiB
train mlp.onnx --dims batch=4 --data mlp.npz --steps 3 --save s.safetensors
train gpt.onnx --dims batch=4,seq=16 --budget 60% --steps 2 --lossy bf16
train gpt.onnx --dims batch=4,seq=16 --dump d.npz
train gpt.onnx --dims batch=4,seq=16 --check d.npz
train gpt.onnx --dims batch=4,seq=16 --against cpu
train mlp.onnx --dims batch=4 --check d.npz
check gpt.plan.json gpt.onnx
check gpt.onnx gpt.plan.json
explain gpt.plan.json
explain low.plan.json
explain gpt.onnx
explain gpt.plan.json --node transformer.h.0.ln_1
explain gpt.plan.json --node transformer.h.0.ln_9
diff gpt.plan.json low.plan.json
export gpt.plan.json --to pytorch -o policy.json
export gpt.plan.json --to ort -o ort.json
export gpt.plan.json
optimize gpt.onnx -o clean.onnx
ops
devices
doctor
config --config {"budget":"1GiB","flash_attention":"on","trainable":["transformer.h.0.mlp.c_fc.weight","transformer.h.1.mlp.c_fc.weight"]}
bench vulkan --device cpu
bench nothing
pln
`
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		checkWidth(t, strings.Fields(line)...)
	}
	for _, c := range commands {
		checkWidth(t, c.Name, "--help")
	}
	checkWidth(t, "--help")
}

func checkWidth(t *testing.T, args ...string) {
	t.Helper()
	stdout, stderr, _ := said(args...)
	for line := range strings.Lines(stdout + stderr) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "\x1b") {
			t.Errorf("%s: steers a terminal where there is none: %q", strings.Join(args, " "), line)
		}
		if utf8.RuneCountInString(line) > 80 && !unbreakable(line) {
			t.Errorf("%s: %d columns:\n%s", strings.Join(args, " "), utf8.RuneCountInString(line), line)
		}
	}
}

// unbreakable is whether the last word of a line, a name or a path, would be too long on
// a line of its own, or stands behind nothing but a label.
func unbreakable(line string) bool {
	label := len(line) - len(strings.TrimLeft(line, " "))
	last := strings.LastIndex(line, " ") + 1
	return last <= label || last <= 24 || utf8.RuneCountInString(line[last:])+label > 80
}

// TestColours: bold where it is asked for, and nothing else.
func TestColours(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		bold bool
	}{
		{map[string]string{}, false},
		{map[string]string{"CLICOLOR_FORCE": "1"}, true},
		{map[string]string{"CLICOLOR_FORCE": "0"}, false},
		{map[string]string{"CLICOLOR_FORCE": "1", "TERM": "dumb"}, true},
		{map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, false},
	} {
		for _, name := range []string{"NO_COLOR", "CLICOLOR_FORCE", "TERM"} {
			t.Setenv(name, test.env[name])
		}
		stdout, _, _ := said("ops", "--help")
		if got := strings.Contains(stdout, "\x1b[1mFlags\x1b[0m\n"); got != test.bold {
			t.Errorf("%v: bold is %v in\n%q", test.env, got, stdout)
		}
		_, stderr, _ := said("plan", "none.onnx")
		if want := map[bool]string{true: "\x1b[1mmemopt:\x1b[0m none.onnx: no such file\n", false: "memopt: none.onnx: no such file\n"}[test.bold]; stderr != want {
			t.Errorf("%v: the error is %q, want %q", test.env, stderr, want)
		}
	}
}

// TestColumns: the flag goes before the environment; text for programs has a width of its own.
func TestColumns(t *testing.T) {
	longest := func(args ...string) (n int) {
		stdout, _, code := said(args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d", args, code)
		}
		for line := range strings.Lines(stdout) {
			n = max(n, utf8.RuneCountInString(line)-1)
		}
		return n
	}
	t.Setenv("COLUMNS", "")
	if n := longest("ops"); n > 100 || n < 90 {
		t.Errorf("without a terminal lines have up to %d columns", n)
	}
	t.Setenv("COLUMNS", "72")
	if n := longest("ops"); n > 72 || n < 62 {
		t.Errorf("in 72 columns lines have up to %d", n)
	}
	if n := longest("ops", "--columns", "120"); n > 120 || n < 110 {
		t.Errorf("in 120 columns lines have up to %d", n)
	}
	if n := longest("ops", "--columns", "0"); n < 200 {
		t.Errorf("without a limit lines have up to %d columns", n)
	}
	if _, stderr, code := said("ops", "--columns", "7"); code != 2 || !strings.Contains(stderr, "--columns is 40 or more") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestExamples: what help texts show can be typed.
func TestExamples(t *testing.T) {
	for _, c := range commands {
		if c.UsageText == "" || c.Category == "" {
			t.Errorf("%s has no example, or no group", c.Name)
		}
		for line := range strings.Lines(c.UsageText) {
			words := strings.Fields(strings.NewReplacer("source <(", "", ")", "").Replace(line))
			for i, w := range words {
				if w == ">" || w == "#" {
					words = words[:i]
					break
				}
			}
			if _, err := order(words); err != nil || words[0] != "memopt" || words[1] != c.Name {
				t.Errorf("%s: %q: %v", c.Name, line, err)
			}
		}
	}
}

// TestOutputFlags: every command has them, last in its help.
func TestOutputFlags(t *testing.T) {
	for _, c := range commands {
		stdout, _, _ := said(c.Name, "--help")
		_, tail, _ := strings.Cut(stdout, "\n"+outputTitle+"\n")
		for _, name := range outputFlags {
			if !strings.Contains(tail, "--"+name) {
				t.Errorf("%s --help: no --%s under %s", c.Name, name, outputTitle)
			}
		}
	}
}
