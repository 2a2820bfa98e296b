package quantize

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/weights/blocktest"
	"memopt/kernels"
)

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
		w.Data = blocktest.Blank(t, 4096*4096*4)
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
	base := blocktest.Anonymous(t)
	most, done := base, make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
				most = max(most, blocktest.Anonymous(t))
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
