package tensorfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"memopt/internal/golden"
	"memopt/internal/graph"
)

// drawSet is any set that a file can hold.
func drawSet(t *rapid.T, types []graph.DType) *Set {
	s := &Set{}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z/. "\\üλ0-9_-]{0,12}`), 0, 6, rapid.ID[string]).Draw(t, "names")
	for _, name := range names {
		dtype := rapid.SampledFrom(types).Draw(t, "type")
		x := graph.NewTensor(dtype, rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "shape")...)
		copy(x.Bytes, rapid.SliceOfN(rapid.Byte(), len(x.Bytes), len(x.Bytes)).Draw(t, "bytes"))
		if err := s.add(name, nil, normalized(x)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func types(names map[string]graph.DType) []graph.DType {
	var out []graph.DType
	for _, t := range names {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// same compares order, types, shapes and bytes.
func same(t interface{ Fatalf(string, ...any) }, got, want *Set) {
	if !slices.Equal(got.Names, want.Names) {
		t.Fatalf("names are %q, were %q", got.Names, want.Names)
	}
	if len(got.Tensors) != len(want.Tensors) {
		t.Fatalf("%d tensors, were %d", len(got.Tensors), len(want.Tensors))
	}
	for name, x := range want.Tensors {
		y := got.Tensors[name]
		if y.Type != x.Type || !slices.Equal(y.Shape, x.Shape) || !bytes.Equal(y.Bytes, x.Bytes) {
			t.Fatalf("%q: got %s %x, was %s %x", name, typeText(y.Type, y.Shape), y.Bytes, typeText(x.Type, x.Shape), x.Bytes)
		}
	}
}

func TestNPZRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	all := types(npyTypes)
	rapid.Check(t, func(t *rapid.T) {
		want := drawSet(t, all)
		if err := WriteNPZ(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadNPZ(path)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	})
}

func TestSafetensorsRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	all := types(safeTypes)
	rapid.Check(t, func(t *rapid.T) {
		want := drawSet(t, all)
		meta := rapid.MapOfN(rapid.StringN(0, 8, -1), rapid.StringN(0, 8, -1), 0, 3).Draw(t, "metadata")
		if err := WriteSafetensors(path, want, meta); err != nil {
			t.Fatal(err)
		}
		got, gotMeta, err := ReadSafetensors(path)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
		if len(meta) > 0 && !cmp.Equal(gotMeta, meta) {
			t.Fatalf("metadata is %q, was %q", gotMeta, meta)
		}
	})
}

// TestWriteBytes pins the files themselves: other programs read them.
func TestWriteBytes(t *testing.T) {
	dir := t.TempDir()
	s := set(
		"half", graph.TensorOf(graph.Float16, []uint16{0x3c00}, 1),
		"w", graph.TensorOf(graph.Float32, []float32{1, 2}, 1, 2),
		"one", graph.TensorOf(graph.Int64, []int64{-1}))
	for file, write := range map[string]func(path string) error{
		"x.npz":         func(path string) error { return WriteNPZ(path, s) },
		"x.safetensors": func(path string) error { return WriteSafetensors(path, s, map[string]string{"step": "3", "by": "x"}) },
	} {
		var first []byte
		for range 3 {
			if err := write(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if first != nil && !bytes.Equal(first, b) {
				t.Errorf("%s: the same set gives different bytes", file)
			}
			first = b
		}
		golden.File(t, filepath.Join("testdata", "written."+file+".txt"), quoted(first))
	}
}

// quoted is bytes as lines of Go strings.
func quoted(b []byte) string {
	var sb strings.Builder
	for line := range slices.Chunk(b, 64) {
		fmt.Fprintf(&sb, "%q\n", line)
	}
	return sb.String()
}

func TestSafetensorsAreAligned(t *testing.T) {
	s := set(
		"odd", graph.TensorOf(graph.Uint8, []uint8{1, 2, 3}, 3),
		"wide", graph.TensorOf(graph.Float64, []float64{1}, 1),
		"half", graph.NewTensor(graph.BFloat16, 5),
		"single", graph.NewTensor(graph.Float32, 3))
	b, order, err := safeHeaderOf(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := len(b)
	for _, name := range order {
		x := s.Tensors[name]
		if at%int(x.Type.Size()) != 0 {
			t.Errorf("%s begins at byte %d", name, at)
		}
		at += len(x.Bytes)
	}
}

// TestNothingHalfWritten: a write that fails leaves the older file and no other.
func TestNothingHalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npz")
	if err := WriteNPZ(path, set("a", graph.NewTensor(graph.Float32, 2))); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteNPZ(path, set("a", graph.NewTensor(graph.Float32, 2), "b", graph.NewTensor(graph.BFloat16, 2))); err == nil {
		t.Fatal("bfloat16 was written")
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the file has changed")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWriteRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("folder", 0o777); err != nil {
		t.Fatal(err)
	}
	one := graph.NewTensor(graph.Float32, 1)
	npz := func(path string, s *Set) func() error { return func() error { return WriteNPZ(path, s) } }
	safe := func(s *Set, meta map[string]string) func() error {
		return func() error { return WriteSafetensors("x.st", s, meta) }
	}
	for _, c := range []struct {
		write func() error
		want  string
	}{
		{npz("x.npz", set("w", graph.NewTensor(graph.BFloat16, 1))), `x.npz: tensor "w": NumPy has no bf16; safetensors has`},
		{npz("x.npz", set("a\x00b", one)), `x.npz: tensor "a\x00b": a name is text without NUL bytes`},
		{npz("x.npz", set("\xff", one)), `x.npz: tensor "\xff": a name is text without NUL bytes`},
		{npz("x.npz", set(strings.Repeat("n", 70000), one)), `x.npz: tensor "` + strings.Repeat("n", 80) + `"…: FileHeader.Name too long`},
		{npz("x.npz", &Set{Names: []string{"a"}}), `x.npz: tensor "a": there is none of that name`},
		{npz("x.npz", &Set{Names: []string{"a", "a"}, Tensors: map[string]*graph.Tensor{"a": one}}), `x.npz: tensor "a": there are two of that name`},
		{npz("x.npz", &Set{Tensors: map[string]*graph.Tensor{"a": one}}), `x.npz: 0 names for 1 tensors`},
		{npz("x.npz", set("a", &graph.Tensor{})), `x.npz: tensor "a" has no element type`},
		{npz("x.npz", set("a", &graph.Tensor{Type: graph.Float32, Shape: []int{2, 2}, Bytes: make([]byte, 8)})), `x.npz: tensor "a": 8 bytes of numbers, f32[2, 2] takes 16`},
		{npz("none/x.npz", set("a", one)), `none/x.npz: no such file or directory`},
		{npz("folder", set("a", one)), `folder: a folder cannot be replaced by a file`},
		{safe(set("__metadata__", one), nil), `x.st: a tensor cannot be named __metadata__`},
		{safe(set("a", one), map[string]string{"k": "\xff"}), `x.st: metadata "k" is not UTF-8`},
	} {
		if err := c.write(); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}
