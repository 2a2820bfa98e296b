package weights_test

import (
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"memopt/internal/weights"
)

// TestExternalRace: while a folder on the way is exchanged for a link that leads
// out, what is opened is the file inside or none, never the one outside.
func TestExternalRace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("links and renames race as Linux has them")
	}
	top := t.TempDir()
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	for path, text := range map[string]string{filepath.Join(in, "d/w"): "inside", filepath.Join(out, "w"): "SECRET", filepath.Join(in, "m.onnx"): ""} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, aside := filepath.Join(in, "d"), filepath.Join(in, "aside")
		for !over.Load() {
			os.Rename(d, aside)
			os.Symlink(out, d)
			os.Remove(d)
			os.Rename(aside, d)
		}
	}()
	opened := 0
	for range 20000 {
		f, err := weights.OpenExternal(filepath.Join(in, "m.onnx"), "d/w")
		if err != nil {
			continue
		}
		opened++
		if string(f.Bytes()) != "inside" {
			t.Errorf("a file outside was opened: %q", f.Bytes())
		}
		f.Close()
		if t.Failed() {
			break
		}
	}
	over.Store(true)
	<-done
	if opened == 0 {
		t.Error("nothing was opened")
	}
}
