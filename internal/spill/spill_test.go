package spill_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
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

// TestRanges: whatever ranges are written, at once by several, what is read is what was written last, past the cache and through it.
func TestRanges(t *testing.T) {
	const size = 3<<20 + 777
	for _, through := range []bool{false, true} {
		f, err := spill.Open(t.TempDir(), size)
		if err != nil {
			t.Fatal(err)
		}
		if through {
			spill.ThroughCache(f)
		}
		want, random := make([]byte, size), rand.New(rand.NewPCG(1, 2))
		for round := range 24 {
			// Ranges that meet within blocks, written at once.
			var cuts []int
			for range 6 {
				cuts = append(cuts, random.IntN(size))
			}
			slices.Sort(cuts)
			var all sync.WaitGroup
			for i := range len(cuts) - 1 {
				b := want[cuts[i]:cuts[i+1]]
				for k := range b {
					b[k] = byte(random.Uint32())
				}
				all.Go(func() {
					if n, err := f.WriteAt(b, int64(cuts[i])); n != len(b) || err != nil {
						t.Error(n, err)
					}
				})
			}
			all.Wait()
			at := random.IntN(size)
			got := make([]byte, random.IntN(size-at+1))
			if n, err := f.ReadAt(got, int64(at)); n != len(got) || err != nil || !bytes.Equal(got, want[at:at+len(got)]) && round > 0 {
				t.Fatalf("through cache %v, round %d: %d bytes at %d: %d, %v", through, round, len(got), at, n, err)
			}
			if round == 0 { // what nobody wrote is nothing that is asked for
				if _, err := f.WriteAt(want, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
