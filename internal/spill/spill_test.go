package spill_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"memopt/internal/spill"
)

// TestFile: what was written comes back, and no name of it is in the folder at any time.
func TestFile(t *testing.T) {
	folder := t.TempDir()
	f, err := spill.Open(folder, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first, second := bytes.Repeat([]byte{1}, 5000), bytes.Repeat([]byte{2}, 70001)
	for at, b := range map[int64][]byte{64: first, 300032: second} {
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[int64][]byte{64: first, 300032: second} {
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, at); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d: %v", at, err)
		}
	}
	names, err := os.ReadDir(folder)
	if err != nil || len(names) > 0 {
		t.Fatalf("%v, %v", names, err)
	}
}

// TestNoFolder: a folder that is not there is named with what was to be kept there.
func TestNoFolder(t *testing.T) {
	folder := t.TempDir() + "/gone"
	_, err := spill.Open(folder, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "1.0 MiB (1048576 bytes) in folder "+folder+": no such file or directory") {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := spill.Open(folder, 1<<20); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Fatal(err)
	}
}
