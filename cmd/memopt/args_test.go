package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestOrder(t *testing.T) {
	for _, test := range []struct{ args, want, err string }{
		{args: "", want: ""},
		{args: "plan m.onnx", want: "plan -- m.onnx"},
		{args: "plan m.onnx --budget 60% -q", want: "plan --budget=60% -q -- m.onnx"},
		{args: "plan --budget=60% m.onnx -o=p", want: "plan --budget=60% --o=p -- m.onnx"},
		{args: "plan -budget 5 -- --budget", want: "plan --budget=5 -- --budget"},
		{args: "plan - --level 1", want: "plan --level=1 -- -"},
		{args: "plan --dims a=1 m --dims=b=2", want: "plan --dims=a=1,b=2 -- m"},
		{args: "plan --budget 1 m --budget 2", want: "plan --budget=1 --budget=2 -- m"},
		{args: "plan --budget --level", want: "plan --budget=--level --"},
		{args: "plan --budget", err: "--budget needs a value"},
		{args: "plan ---budget 1", err: "has no flag ---budget"},
		{args: "plan m --help -o", err: "-o needs a value"},
		{args: "plan m --help --level 1", want: "plan --help"},
		{args: "plan m -- -h", want: "plan -- m -h"},
		{args: "-h plan", want: "-h"},
		{args: "--version", want: "--version"},
		{args: "help plan", want: "help plan"},
		{args: "help nonsense", err: "no command is called"},
		{args: "-x plan", err: "-x is not a command"},
		{args: "-- plan m", err: "-- is not a command"},
		{args: "trian m", err: `did you mean "train"?`},
		{args: "plan m --emmit x", err: "did you mean --emit?"},
	} {
		got, err := order(append([]string{"memopt"}, strings.Fields(test.args)...))
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q: error %v, want %q", test.args, err, test.err)
			}
		case err != nil:
			t.Errorf("%q: %v", test.args, err)
		case strings.Join(got[1:], " ") != test.want:
			t.Errorf("%q is ordered as %q, want %q", test.args, strings.Join(got[1:], " "), test.want)
		}
	}
}

// FuzzOrder: whatever is typed, ordering keeps the arguments that are no flags
// in their order, changes nothing when done twice, and never panics; and a
// command that takes no arguments reports a mistake once, on standard error.
func FuzzOrder(f *testing.F) {
	for _, s := range []string{"plan m.onnx --budget 60%", "train\x00-q\x00--\x00--lr", "new gpt --layers=", "version --format json", "config x --", "help", "version --format=\x00-q=x", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := append([]string{"memopt"}, strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == 0 })...)
		once, err := order(args)
		if err == nil {
			twice, err := order(once)
			if err != nil || !slices.Equal(once, twice) {
				t.Fatalf("%q is ordered as %q, then as %q (%v)", args, once, twice, err)
			}
		}
		if len(args) < 2 || args[1] != "version" && args[1] != "help" {
			return
		}
		var stdout, stderr bytes.Buffer
		code := run(args, &stdout, &stderr)
		if (code == 0) != (stderr.Len() == 0) || code != 0 && strings.Count(stderr.String(), "memopt") == 0 {
			t.Fatalf("%q: exit code %d with %q", args, code, stderr.String())
		}
	})
}
