package spill_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"memopt/internal/spill"
)

// TestDiskFull: a file that the disk has no room for is refused when it is made, with its size and folder.
func TestDiskFull(t *testing.T) {
	folder := t.TempDir()
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		t.Fatal(err)
	}
	_, err := spill.Open(folder, (int64(s.Blocks)+1<<20)*s.Bsize)
	if err == nil || !strings.Contains(err.Error(), "in folder "+folder+": ") || !strings.Contains(err.Error(), "no space left on device") && !strings.Contains(err.Error(), "file too large") {
		t.Fatal(err)
	}
}

// TestPagesDropped: the cache holds no pages of what was written and read.
func TestPagesDropped(t *testing.T) {
	f, err := spill.Open(t.TempDir(), 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.InMemory() {
		t.Skip("the folder of tests is in memory")
	}
	b := make([]byte, 8<<20)
	for i := range b {
		b[i] = byte(i)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if n := spill.Cached(f); n > 64 {
		t.Errorf("%d pages of %d are in the cache", n, len(b)/os.Getpagesize())
	}
}

// TestKilled: a process that is killed leaves no bytes behind.
func TestKilled(t *testing.T) {
	if folder := os.Getenv("MEMOPT_SPILL_TEST"); folder != "" {
		f, err := spill.Open(folder, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, 64<<20), 0); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	folder := t.TempDir()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(me, []string{me, "-test.run=^TestKilled$"}, &os.ProcAttr{Env: append(os.Environ(), "MEMOPT_SPILL_TEST="+folder), Files: []*os.File{nil, os.Stdout, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if s, is := state.Sys().(syscall.WaitStatus); !is || s.Signal() != syscall.SIGKILL {
		t.Fatalf("it ended by itself: %v", state)
	}
	names, err := os.ReadDir(folder)
	if err != nil || len(names) > 0 {
		t.Errorf("%v is left, %v", names, err)
	}
}
