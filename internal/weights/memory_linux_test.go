package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// resident reads one line of this process's status, in bytes.
func resident(t *testing.T, field string) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, field+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Skip("no " + field + " in /proc/self/status")
	return 0
}

// filePages counts clean pages of files, wherever the file system keeps them.
func filePages(t *testing.T) int64 { return resident(t, "RssFile") + resident(t, "RssShmem") }

// sum touches every page.
func sum(b []byte) (total int) {
	for i := 0; i < len(b); i += 512 {
		total += int(b[i])
	}
	return total
}

const MiB = 1 << 20

// A file of 300 MiB is mapped and read to the end: the memory that only this
// process can use stays as it was, and its pages go when they are released.
func TestMappedFileIsNotAnonymousMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 300*MiB); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	anon, pages := resident(t, "RssAnon"), filePages(t)
	f := open(t, path)
	b, err := f.Block(1, f.Size()-2)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Drop()
	if grown := filePages(t) - pages; grown > 16*MiB {
		t.Errorf("opening read %d MiB", grown/MiB)
	}
	view, err := b.Bytes()
	if err != nil || sum(view) != 0 {
		t.Fatal(err)
	}
	if grown := filePages(t) - pages; grown < 200*MiB {
		t.Errorf("the pages of the file are not where they are expected: %d MiB", grown/MiB)
	}
	if grown := resident(t, "RssAnon") - anon; grown > 8*MiB {
		t.Errorf("reading a mapped file took %d MiB of anonymous memory", grown/MiB)
	}
	b.ReleasePages()
	if grown := filePages(t) - pages; grown > 16*MiB {
		t.Errorf("%d MiB of pages stayed after ReleasePages", grown/MiB)
	}
	if view[5] != 0 {
		t.Error("the bytes changed with the release of their pages")
	}
}

// A pipe without a writer blocks whoever opens it, for ever.
func TestPipeIsRefusedAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	done := make(chan error, 2)
	go func() {
		_, err := OpenFile(pipe)
		done <- err
		_, err = ExternalPath(filepath.Join(filepath.Dir(pipe), "m.onnx"), "pipe")
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "is a pipe, need a regular file") {
				t.Errorf("error %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("hangs on a pipe")
		}
	}
}

// Files of the kernel's own file systems cannot be mapped, and lie about their
// size: they claim a page and hold a line.
func TestShortFileIsAnError(t *testing.T) {
	const path = "/sys/kernel/mm/transparent_hugepage/enabled"
	if info, err := os.Stat(path); err != nil || info.Size() != 4096 {
		t.Skip("no", path)
	}
	before := Snapshot()
	if _, err := OpenFile(path); err == nil || !strings.HasSuffix(err.Error(), " of 4096 bytes") {
		t.Error(err)
	}
	if d := since(before); d != (Stats{}) {
		t.Errorf("books after an error: %+v", d)
	}
}

func TestNotFiles(t *testing.T) {
	for path, want := range map[string]string{
		t.TempDir():                          "is a folder, need a regular file",
		"/dev/zero":                          "is a device, need a regular file",
		filepath.Join(t.TempDir(), "absent"): "no such file or directory",
	} {
		if _, err := OpenFile(path); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
