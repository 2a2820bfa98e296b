package quantize

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
)

// anonymous is the process's anonymous memory.
func anonymous(t *testing.T) (n int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Skip("no RssAnon in /proc/self/status")
	return 0
}

// TestWeightsAreNeverInMemory: quantizing 192 MiB of weights, some transposed, needs memory for
// pieces of them only.
func TestWeightsAreNeverInMemory(t *testing.T) {
	b := graph.NewBuilder(graph.New(kernels.Library, "large"))
	x, err := b.Define(graph.Input, "x", graph.Float32, graph.Dims(1, 4096))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w, err := b.Define(graph.Param, fmt.Sprintf("w%d", i), graph.Float32, graph.Dims(4096, 4096))
		if err != nil {
			t.Fatal(err)
		}
		w.Data = blank(t, 4096*4096*4)
		if i == 0 {
			x = b.Op("Gemm", graph.A{"transB": int64(1)}, x, w)
		} else {
			x = b.Op("MatMul", nil, x, w)
		}
	}
	b.Graph.Outputs = []*graph.Value{x}
	from, to := filepath.Join(t.TempDir(), "large.onnx"), filepath.Join(t.TempDir(), "small.onnx")
	if err := onnx.Write(from, b.Graph, onnx.External); err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	base := anonymous(t)
	most, done := base, make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
				most = max(most, anonymous(t))
			}
		}
	}()
	r, err := File(context.Background(), from, to, Options{PerChannel: true, External: true})
	close(done)
	<-over
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tensors) != 3 || r.Before != 3<<26 || r.After > 3<<24+1<<20 {
		t.Errorf("%d tensors, %d bytes became %d", len(r.Tensors), r.Before, r.After)
	}
	if grew := most - base; grew > 16<<20 {
		t.Errorf("the process grew by %d", grew)
	}
	if info, err := os.Stat(to + ".data"); err != nil || info.Size() < 3<<24 {
		t.Errorf("the weights are not beside the model: %v", err)
	}
}

// blank is n bytes of weights in a file without blocks on the disk.
func blank(t testing.TB, n int64) *weights.Block {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blank")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
	f, err := weights.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // the mapping lives on
	b, err := f.Block(0, n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
