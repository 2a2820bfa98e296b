package quantize

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestBrokenFiles: a file with changed bytes, or cut off, gives a model, or an error and no file.
func TestBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "q.onnx")
	for _, model := range models {
		whole, err := os.ReadFile(filepath.Join("testdata", model+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		try := func(b []byte) {
			if err := os.WriteFile(from, b, 0o600); err != nil {
				t.Fatal(err)
			}
			o := Options{Subgraphs: true, Fold: true, Unasked: true, AnyProduct: true}
			for _, static := range []*Static{nil, {}, {Operators: true}} {
				if o.Static, o.PerChannel = static, static != nil; static != nil {
					static.Ranges = map[string]Range{}
					names, _ := Observe(context.Background(), from, to, o)
					for _, name := range names {
						static.Ranges[name] = Range{-1, 2}
					}
					os.Remove(to)
				}
				_, err := File(context.Background(), from, to, o)
				if _, there := os.Stat(to); (there == nil) != (err == nil) {
					t.Fatalf("error %v, and the file is there: %v", err, there == nil)
				}
				os.Remove(to)
			}
		}
		for i := 0; i < len(whole); i += 1 + len(whole)/150 {
			try(whole[:i])
			broken := append([]byte(nil), whole...)
			broken[i] ^= 0x15
			try(broken)
		}
	}
}
