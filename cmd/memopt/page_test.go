package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"memopt/configs"
	"memopt/plugin"
)

// TestServicePage: the service writes the command line's page, but for the
// command, which was none.
func TestServicePage(t *testing.T) {
	alone(t, smallMLP, "plan m.onnx --dims batch=2 --html a.html")
	if _, err := (front{}).Plan(t.Context(), plugin.Question{Model: "m.onnx", Settings: with("batch=2"), HTML: "b.html", Caller: plugin.Caller{Environment: map[string]string{}}}); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want := strings.Replace(read("a.html"), "<pre><code>memopt plan m.onnx --dims batch=2</code></pre>", "", 1)
	if got := strings.Replace(read("b.html"), `<td class="soft mono">dims</td>`, `<td class="soft mono">--dims</td>`, 1); got != want {
		t.Errorf("the service's page is\n%s\nthe command line's\n%s", got, want)
	}
	if _, err := (front{}).Plan(t.Context(), plugin.Question{Model: "m.onnx", Settings: with(`{"batch=2,other": 2}`)}); err == nil || !strings.Contains(err.Error(), "characters that a dim") {
		t.Errorf("a dim with the size of another in its name: %v", err)
	}
	if _, err := (front{}).Plan(t.Context(), plugin.Question{Model: "m.onnx", Settings: with("batch=2"), HTML: "none/b.html"}); err == nil {
		t.Error("a page in no folder is no error")
	}
}

// TestQuote: a shell that people type into reads a quoted word as it was; $'…' is not
// known to the smallest ones.
func TestQuote(t *testing.T) {
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash to ask")
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune("a'\"\\ $`*~#&;|<>(){}[]!?\t\n=é%-"))), 20, 20).Draw(t, "words")
		line := "printf '%s\\001'"
		for _, w := range words {
			line += " " + configs.ShellWord(w)
		}
		out, err := exec.Command(sh, "-c", line).Output()
		if got, want := string(out), strings.Join(words, "\x01")+"\x01"; err != nil || got != want {
			t.Fatalf("%s is %q: %v", line, got, err)
		}
	})
}
