// Package blocktest has what tests of large weights share: a block that takes no room, and what the process itself takes.
package blocktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/internal/weights"
)

// Blank is n bytes of weights in a file without blocks on the disk.
func Blank(t testing.TB, n int64) *weights.Block {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blank")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
	f, err := weights.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // the mapping lives on
	b, err := f.Block(0, n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Anonymous is the process's own memory, pages of files left out. The test is skipped where the system does not tell.
func Anonymous(t testing.TB) (n int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Skip("no RssAnon in /proc/self/status")
	return 0
}
