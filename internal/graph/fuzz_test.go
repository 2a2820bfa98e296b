package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seeds gives the fuzzer the inputs of all cases.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(src), "\n== ") {
			_, part, _ = strings.Cut(part, "\n")
			input, _, _ := strings.Cut(part, "----\n")
			f.Add(input)
		}
	}
}

// FuzzParse: any text gives a graph or an error, and a graph reads back.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src string) {
		g, err := Parse(testLibrary, src)
		if err != nil {
			oneLine(t, err)
			return
		}
		text := g.String()
		back, err := Parse(testLibrary, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if again := back.String(); again != text {
			t.Fatalf("%s\nis read as\n%s", text, again)
		}
		if err := g.Check(); err != nil {
			oneLine(t, err) // losses, updates and phases are not looked at before
			return
		}
		if err := g.CheckTypes(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		g.FoldInts()
		if err := g.Check(); err != nil {
			t.Fatalf("folded: %v\n%s", err, text)
		}
		folded := g.String()
		if c := g.Clone(); c.Check() != nil || c.String() != folded {
			t.Fatalf("%s\nis cloned as\n%s", folded, c)
		}
	})
}

// FuzzParseDim: any text gives a formula or an error, and a formula reads back.
func FuzzParseDim(f *testing.F) {
	src, err := os.ReadFile("testdata/dims.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(src)) {
		in, _, _ := strings.Cut(line, " => ")
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, src string) {
		d, err := ParseDim(src)
		if err != nil {
			oneLine(t, err)
			return
		}
		back, err := ParseDim(d.String())
		if err != nil || !back.Equal(d) {
			t.Fatalf("%s\nis read as\n%s, %v", d, back, err)
		}
		values := map[string]int64{}
		for i, name := range d.Names() {
			values[name] = int64(i + 1)
		}
		b, err := Bind(values)
		if err != nil {
			t.Fatal(err)
		}
		n, err := b.Eval(d)
		if err != nil {
			oneLine(t, err)
			return
		}
		if c, known := d.Compare(Num(n)); known && c != 0 {
			t.Fatalf("%s is %d for %v, but proven to be %d against it", d, n, values, c)
		}
	})
}

// oneLine checks an error's form. A formula or a name in it may be long.
func oneLine(t *testing.T, err error) {
	if s := err.Error(); strings.ContainsAny(s, "\n\r") || len(s) > 1<<16 {
		t.Errorf("not one line of bearable length: %q", s)
	}
}
