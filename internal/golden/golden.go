// Package golden runs tests that are text in and text out: files of cases that
// a reviewer reads as a diff. A case is comment lines, the input, ----, and the
// output; an empty line stands between cases. File is for one text that is a
// whole file. With -update the outputs are written as they came out.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected output under testdata")

// Updating reports whether expected output is to be written, for tests that
// have a way of their own to do so.
func Updating() bool { return *update }

// Files runs the files of a pattern, each as a test of its own.
func Files(t *testing.T, pattern string, run func(t *testing.T, input string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			Cases(t, path, func(input string) string { return run(t, input) })
		})
	}
}

// Cases runs one file of cases.
func Cases(t *testing.T, path string, run func(input string) string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for c := range strings.SplitSeq(strings.TrimSpace(string(src)), "\n\n") {
		input, _, ok := strings.Cut(c+"\n", "\n----\n")
		if !ok {
			t.Fatalf("%s: a case without ----:\n%s", path, c)
		}
		result := strings.TrimSpace(run(input))
		if result != "" {
			result += "\n"
		}
		got.WriteString(input + "\n----\n" + result + "\n")
	}
	File(t, path, strings.TrimSpace(got.String())+"\n")
}

// File compares a text with a file.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-update accepts this):\n%s", path, diff)
	}
}
