package whole_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"memopt/memopt/whole"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, want := range []string{"first", "second, longer"} {
		if err := whole.Bytes(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
}

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

func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "f")
	if err := whole.Bytes(path, nil); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
	// A folder cannot be replaced by a file.
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := whole.Bytes(filepath.Join(dir, "d"), nil); err == nil {
		t.Fatal("a folder was replaced")
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Fatalf("%d files are left", len(files))
	}
}

// New files get the rights that the user's other files get.
func TestRights(t *testing.T) {
	dir := t.TempDir()
	if err := whole.Bytes(filepath.Join(dir, "ours"), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "theirs"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	ours, _ := os.Stat(filepath.Join(dir, "ours"))
	theirs, _ := os.Stat(filepath.Join(dir, "theirs"))
	if ours.Mode() != theirs.Mode() {
		t.Fatalf("rights %v, a plain new file has %v", ours.Mode(), theirs.Mode())
	}
}
