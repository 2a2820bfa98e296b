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
			_, err := File(context.Background(), from, to, Options{Subgraphs: true, Fold: true, Unasked: true, AnyProduct: true})
			if _, there := os.Stat(to); (there == nil) != (err == nil) {
				t.Fatalf("error %v, and the file is there: %v", err, there == nil)
			}
			os.Remove(to)
		}
		for i := 0; i < len(whole); i += 1 + len(whole)/150 {
			try(whole[:i])
			broken := append([]byte(nil), whole...)
			broken[i] ^= 0x15
			try(broken)
		}
	}
}
