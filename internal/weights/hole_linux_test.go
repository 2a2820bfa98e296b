package weights

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestHole: a file that was given a size and no bytes is zeros, and reading it takes nothing of its file system.
func TestHole(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "memopt-test-") // where reading a hole would allocate it
	if err != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	const size = 64 << 20
	for name, written := range map[string]string{"hole": "", "not quite": "x"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if written != "" {
			want = int(written[0])
		}
		if got := added(f.Bytes()); got != want || f.Size() != size {
			t.Errorf("%s: %d bytes that add up to %d, not %d", name, f.Size(), got, want)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if blocks := info.Sys().(*syscall.Stat_t).Blocks; written == "" && blocks != 0 {
			t.Errorf("reading it took %d blocks", blocks)
		}
		if err := f.Unchanged(); err != nil {
			t.Error(err)
		}
		f.Close()
	}
}
