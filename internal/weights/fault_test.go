//go:build unix

package weights

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"memopt/internal/stop"
)

// pagesOf writes a file of some pages of the byte 1.
func pagesOf(t *testing.T, pages int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.bin")
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, pages*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // further than the steps of file times
	return path
}

// readGuarded sums up a file's bytes.
func readGuarded(b []byte) (n int, err error) {
	defer Guard(&err)()
	return added(b), nil
}

// TestFault: a page that is gone is an error that names the file, on this goroutine
// alone, and other panics stay what they are.
func TestFault(t *testing.T) {
	path := pagesOf(t, 4)
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := readGuarded(f.Bytes()); err != nil || f.Unchanged() != nil {
		t.Fatalf("before any change: %v, %v", err, f.Unchanged())
	}
	if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if _, err := readGuarded(f.Bytes()); !errors.As(err, &changed) || changed.Path != path || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("a file cut off: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a mistake of ours became an error")
		}
	}()
	_ = func() (err error) {
		defer Guard(&err)()
		var none *File
		return errors.New(none.name)
	}()
}

// TestUnchanged: what happens to a file in use is found at the end, whatever it is.
func TestUnchanged(t *testing.T) {
	page := int64(os.Getpagesize())
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"emptied":     {func(p string) error { return os.Truncate(p, 0) }, "it had"},
		"half a page": {func(p string) error { return os.Truncate(p, 2*page-page/2) }, "it had"},
		"grown":       {func(p string) error { return os.Truncate(p, 3*page) }, "it had"},
		"rewritten": {func(p string) error {
			return os.WriteFile(p, bytes.Repeat([]byte{2}, int(2*page)), 0o600)
		}, "written to"},
		"one byte": {func(p string) error {
			h, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err == nil {
				_, err = h.WriteAt([]byte{2}, 7)
				h.Close()
			}
			return err
		}, "written to"},
		"replaced": {func(p string) error {
			if err := os.WriteFile(p+".new", bytes.Repeat([]byte{1}, int(2*page)), 0o600); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		}, "took its place"},
		"removed": {os.Remove, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			path := pagesOf(t, 2)
			f, err := OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b, err := f.Block(0, page)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Drop()
			if err := b.Unchanged(); err != nil {
				t.Fatal(err)
			}
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			if err := b.Unchanged(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if err := Heap([]byte{1}).Unchanged(); err != nil {
		t.Error(err)
	}
}

// TestUnchangedBackdated: a file time that is set back hides nothing.
func TestUnchangedBackdated(t *testing.T) {
	path := pagesOf(t, 1)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if changeTime(info).IsZero() {
		t.Skip("this system does not tell when an inode changed")
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(path, bytes.Repeat([]byte{3}, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := f.Unchanged(); err == nil {
		t.Error("rewritten, and its time set back: nothing was found")
	}
}

// TestUnguarded: bytes that a File or a Block hands out cannot end the process, on any
// goroutine and without any Guard, and the panic tells its file also after that was closed.
func TestUnguarded(t *testing.T) {
	page := int64(os.Getpagesize())
	for name, read := range map[string]func(f *File, b *Block){
		"file":  func(f *File, _ *Block) { added(f.Bytes()) },
		"block": func(_ *File, b *Block) { added(must(b.Bytes())) },
		"aligned": func(_ *File, b *Block) {
			all, _, err := b.Aligned(1)
			added(must(all, err))
		},
		"another goroutine": func(f *File, _ *Block) {
			all := f.Bytes()
			stop.Go(func() { added(all) })()
		},
		"after a guard": func(f *File, _ *Block) {
			all := f.Bytes()
			func() (err error) {
				defer Guard(&err)()
				return nil
			}()
			added(all)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := pagesOf(t, 3)
			found := make(chan error, 1)
			go func() { // nothing was set on this goroutine
				defer func() { found <- Fault(recover()) }()
				f, err := OpenFile(path)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				b, err := f.Block(0, 3*page)
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Drop()
				if err := os.Truncate(path, page); err != nil {
					t.Error(err)
				}
				read(f, b)
			}()
			var changed *ChangedError
			if err := <-found; !errors.As(err, &changed) || changed.Path != path || changed.ExitCode() != 2 {
				t.Errorf("the fault is %v", err)
			}
		})
	}
}

// TestCopiesOfWhatIsGone: a function that copies pages that are gone returns an error.
func TestCopiesOfWhatIsGone(t *testing.T) {
	path := pagesOf(t, 3)
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Block(1, f.Size()-1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Drop()
	if err := os.Truncate(path, 1); err != nil {
		t.Fatal(err)
	}
	var changed *ChangedError
	if _, err := b.ReadAt(make([]byte, b.Len()), 0); !errors.As(err, &changed) {
		t.Errorf("a copy of all: %v", err)
	}
	if _, err := b.ReadAt(make([]byte, 10), b.Len()-10); !errors.As(err, &changed) {
		t.Errorf("a copy of the end: %v", err)
	}
	if _, _, err := b.Aligned(64); !errors.As(err, &changed) {
		t.Errorf("an aligned copy: %v", err)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// added reads all bytes, also where nobody wants the sum.
//
//go:noinline
func added(b []byte) (n int) {
	for _, x := range b {
		n += int(x)
	}
	return n
}
