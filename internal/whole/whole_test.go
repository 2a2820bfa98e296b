package whole_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"memopt/internal/whole"
)

// A write that fails half way leaves the old file and nothing else.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := whole.Bytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := whole.Write(path, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		return broken
	})
	if err != broken {
		t.Fatalf("error %v, want that of the writer", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Fatalf("the file holds %d bytes of the new", len(got))
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Fatalf("%d files are left", len(files))
	}
}
