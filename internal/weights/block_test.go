package weights

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// write makes a file of the given bytes.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// since is what the books gained, in the fields that only grow or that are held now.
func since(before Stats) Stats {
	now := Snapshot()
	return Stats{
		Mapped: now.Mapped - before.Mapped, Heap: now.Heap - before.Heap,
		Blocks:          now.Blocks - before.Blocks,
		CopiedUnaligned: now.CopiedUnaligned - before.CopiedUnaligned,
		CopiedUnmapped:  now.CopiedUnmapped - before.CopiedUnmapped,
	}
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got, _ := recover().(string); !strings.Contains(got, want) {
			t.Errorf("panic %q, want it to say %q", got, want)
		}
	}()
	f()
}

func TestBlocksOutliveTheClosedFile(t *testing.T) {
	before := Snapshot()
	f := open(t, write(t, "w", []byte("0123456789")))
	a, err := f.Block(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.Block(0, 10)
	if err != nil {
		t.Fatal(err)
	}
	a.Retain() // a tied weight
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal("second Close:", err)
	}
	if _, err := f.Block(0, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Block of a closed file: %v", err)
	}
	mustPanic(t, "after Close", func() { f.Bytes() })

	a.Drop()
	b.Drop()
	if got, err := a.Bytes(); err != nil || string(got) != "234" {
		t.Errorf("a = %q, %v", got, err)
	}
	if got := since(before); got.Mapped != 10 || got.Blocks != 1 {
		t.Errorf("one use left: %+v", got)
	}
	a.Drop()
	if got := since(before); got != (Stats{}) {
		t.Errorf("all dropped: %+v", got)
	}
}

func TestMisuseOfADroppedBlockPanics(t *testing.T) {
	f := open(t, write(t, "w", []byte("0123456789")))
	for name, make := range map[string]func() *Block{
		"mapped": func() *Block { b, _ := f.Block(1, 4); return b },
		"heap":   func() *Block { return Heap([]byte("abcd")) },
	} {
		b := make()
		b.Drop()
		mustPanic(t, "Drop of 4 "+name+" bytes", b.Drop)
		mustPanic(t, "Retain of 4 "+name, b.Retain)
		mustPanic(t, "after its last Drop", func() { b.Bytes() })
		mustPanic(t, "after its last Drop", func() { b.Aligned(4) })
		mustPanic(t, "after its last Drop", func() { b.ReadAt(nil, 0) })
		mustPanic(t, "after its last Drop", b.ReleasePages)
	}
	mustPanic(t, "alignment 3", func() { Heap(nil).Aligned(3) })
}

func TestBlockRange(t *testing.T) {
	f := open(t, write(t, "w", make([]byte, 100)))
	for _, c := range []struct {
		off, length int64
		ok          bool
	}{
		{0, 100, true}, {100, 0, true}, {99, 1, true}, {0, 0, true},
		{0, 101, false}, {100, 1, false}, {101, 0, false},
		{-1, 1, false}, {1, -1, false}, {-1, -1, false},
		{1 << 62, 1 << 62, false}, {1<<63 - 1, 1, false}, {1, 1<<63 - 1, false}, {-1 << 63, -1 << 63, false},
	} {
		b, err := f.Block(c.off, c.length)
		if (err == nil) != c.ok {
			t.Errorf("Block(%d, %d): %v", c.off, c.length, err)
		}
		if err == nil {
			b.Drop()
		}
	}
	_, err := f.Block(96, 8)
	want := f.Name() + ": 8 bytes at offset 96 do not fit into its 100 bytes"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestEmptyFile(t *testing.T) {
	f := open(t, write(t, "w", nil))
	b, err := f.Block(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Drop()
	if got, err := b.Bytes(); err != nil || len(got) != 0 || f.Size() != 0 || len(f.Bytes()) != 0 {
		t.Errorf("got %v, %v, size %d", got, err, f.Size())
	}
	b.ReleasePages()
	if _, err := b.ReadAt(nil, 0); err != nil {
		t.Error(err)
	}
}

// Where a file cannot be mapped its bytes are read, and the books say so.
func TestUnmappableFileIsReadAndCounted(t *testing.T) {
	before := Snapshot()
	f, err := openFile(write(t, "w", []byte("0123456789")), func(*os.File, int) ([]byte, error) {
		return nil, errors.ErrUnsupported
	})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := f.Block(4, 3)
	f.Close()
	if got, err := b.Bytes(); err != nil || string(got) != "456" || b.Kind() != KindHeap {
		t.Errorf("%q, %v, %s", got, err, b.Kind())
	}
	b.ReleasePages() // dropping pages of the heap would lose them
	if got, _ := b.Bytes(); string(got) != "456" {
		t.Errorf("after ReleasePages: %q", got)
	}
	if d := since(before); d.Heap != 10 || d.Mapped != 0 || d.CopiedUnmapped != 10 {
		t.Errorf("books: %+v", d)
	}
	b.Drop()
	if d := since(before); d.Heap != 0 || d.Blocks != 0 {
		t.Errorf("after the last drop: %+v", d)
	}
}

func TestAlignedCopiesOnceAndCounts(t *testing.T) {
	before := Snapshot()
	f := open(t, write(t, "w", []byte("0123456789abcdef0123456789abcdef")))
	whole, _ := f.Block(0, 32)
	odd, _ := f.Block(1, 8)
	if got, in, err := whole.Aligned(4096); err != nil || !in || &got[0] != &f.Bytes()[0] {
		t.Errorf("the start of a mapping was copied: %v %v", in, err)
	}
	got, in, err := odd.Aligned(8)
	if err != nil || in || string(got) != "12345678" || !isAligned(got, 8) {
		t.Errorf("Aligned(8) = %q, %v, %v", got, in, err)
	}
	again, _, _ := odd.Aligned(4)
	if &again[0] != &got[0] {
		t.Error("copied twice for a weaker alignment")
	}
	if _, in, _ := odd.Aligned(1); !in {
		t.Error("bytes have no alignment to miss")
	}
	if d := since(before); d.CopiedUnaligned != 8 || d.Heap < 8 || d.Heap > 16 || d.Mapped != 32 {
		t.Errorf("books: %+v", d)
	}
	strict, in, err := odd.Aligned(1 << 20) // more than a heap block has by chance
	if err != nil || in || string(strict) != "12345678" || !isAligned(strict, 1<<20) {
		t.Errorf("Aligned(1 MiB) = %q, %v, %v", strict, in, err)
	}
	whole.Drop()
	odd.Drop()
	f.Close()
	if d := since(before); d.Heap != 0 || d.Mapped != 0 {
		t.Errorf("after the last drop: %+v", d)
	}
}

func TestReading(t *testing.T) {
	f := open(t, write(t, "w", []byte("..hello.")))
	mapped, _ := f.Block(2, 5)
	for _, c := range []struct {
		b    *Block
		want string
	}{
		{mapped, "hello"},
		{Heap([]byte("hello")), "hello"},
	} {
		dst := bytes.Repeat([]byte{'x'}, 5)
		if _, err := c.b.ReadAt(dst, 0); err != nil || string(dst) != c.want {
			t.Errorf("%s: ReadAt %q, %v", c.b.Kind(), dst, err)
		}
		if got, err := c.b.Bytes(); err != nil || string(got) != c.want {
			t.Errorf("%s: Bytes %q, %v", c.b.Kind(), got, err)
		}
		// io.SectionReader and ReadAll hold ReadAt to its contract at the end.
		if got, err := io.ReadAll(io.NewSectionReader(c.b, 1, 100)); err != nil || string(got) != c.want[1:] {
			t.Errorf("%s: read %q, %v", c.b.Kind(), got, err)
		}
		if _, err := c.b.ReadAt(dst, -1); err == nil {
			t.Errorf("%s: read at -1", c.b.Kind())
		}
		c.b.ReleasePages()
		if got, err := c.b.Bytes(); err != nil || string(got) != c.want {
			t.Errorf("%s after ReleasePages: %q, %v", c.b.Kind(), got, err)
		}
		c.b.Drop()
	}
}

func TestUsesAreCountedAcrossGoroutines(t *testing.T) {
	before := Snapshot()
	f := open(t, write(t, "w", []byte("0123456789")))
	b, _ := f.Block(3, 4)
	f.Close()
	var wg sync.WaitGroup
	for range 8 {
		b.Retain()
		wg.Go(func() {
			for range 200 {
				b.Retain()
				if got, _, err := b.Aligned(16); err != nil || string(got) != "3456" {
					t.Errorf("%q, %v", got, err)
				}
				b.Drop()
			}
			b.Drop()
		})
	}
	b.Drop()
	wg.Wait()
	if d := since(before); d.Blocks != 0 || d.Mapped != 0 || d.Heap != 0 || d.CopiedUnaligned != 4 {
		t.Errorf("books: %+v", d)
	}
}
