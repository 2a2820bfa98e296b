package graph

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"memopt/internal/golden"
)

// cases runs a file of cases, each of them
//
//	== name
//	input
//	----
//	output
//
// and compares what f makes of the input with the output.
func cases(t *testing.T, path string, f func(t *testing.T, input string) string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split("\n"+string(src), "\n== ")
	out := strings.TrimPrefix(parts[0], "\n")
	for _, part := range parts[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		input, want, ok := strings.Cut(rest+"\n", "----\n")
		if !ok && !golden.Updating() {
			t.Errorf("%s: case %q has no line ----", path, name)
		}
		want = strings.TrimSuffix(want, "\n")
		var got string
		t.Run(name, func(t *testing.T) {
			got = strings.TrimSuffix(f(t, input), "\n")
			if got != strings.TrimSuffix(want, "\n") && !golden.Updating() {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
		if out != "" {
			out += "\n"
		}
		out += fmt.Sprintf("== %s\n%s----\n%s\n", name, input, got)
	}
	if golden.Updating() {
		golden.File(t, path, out)
	}
}

// parse reads a graph that has to be right.
func parse(t testing.TB, src string) *Graph {
	t.Helper()
	g, err := Parse(testLibrary, src)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return g
}
