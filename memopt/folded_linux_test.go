package memopt

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/memopt/machine"
	"memopt/memopt/step"
)

// folding writes a model whose constants fold in chains, and says how many bytes are left of them.
func folding(t *testing.T, chains, length int, floats int64) (path string, kept int64) {
	t.Helper()
	b := graph.NewBuilder(graph.New(kernels.Library, "folding"))
	define := func(kind graph.Kind, name string) *graph.Value {
		v, err := b.Define(kind, name, graph.Float32, graph.Dims(floats))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	constant := func(i, k int) *graph.Value {
		v := define(graph.Const, fmt.Sprintf("c%d_%d", i, k))
		x := graph.NewTensor(graph.Float32, int(floats))
		x.SetFloat(k, float64(i+1))
		v.Data = weights.Heap(x.Bytes)
		return v
	}
	x := define(graph.Input, "x")
	for i := range chains {
		c := constant(i, 0)
		for k := range length {
			c = b.Op([]string{"Add", "Mul"}[k%2], nil, c, constant(i, k+1))
		}
		x = b.Op("Add", nil, x, c)
	}
	b.Graph.Outputs = []*graph.Value{x}
	path = filepath.Join(t.TempDir(), "folding.onnx")
	if err := onnx.Write(path, b.Graph, onnx.External); err != nil {
		t.Fatal(err)
	}
	return path, int64(chains) * floats * 4
}

// TestFoldingHoldsWhatItKeeps: while a model with large constants is opened and they fold, step by step, the process's
// own memory is never more than a tenth above what is left of them at the end; and none is made larger by it.
func TestFoldingHoldsWhatItKeeps(t *testing.T) {
	path, kept := folding(t, 16, 3, 1<<20)
	for range 2 { // what is set up once
		debug.FreeOSMemory()
	}
	base := machine.AnonymousMemory()
	if base == 0 {
		t.Skip("the system does not tell")
	}
	w := machine.NewWatch()
	c := configs.Default()
	to := filepath.Join(t.TempDir(), "folded.onnx")
	o, err := step.Optimize(path, to, c)
	time.Sleep(10 * time.Millisecond)
	w.End()
	if err != nil {
		t.Fatal(err)
	}
	if o.After != 16 {
		t.Fatalf("%d nodes are left: the constants did not fold", o.After)
	}
	if high := w.Peak() - base; float64(high) > 1.1*float64(kept) {
		t.Errorf("the process grew by %d, and keeps %d: %.2f ×", high, kept, float64(high)/float64(kept))
	} else {
		t.Logf("%.2f ×", float64(high)/float64(kept))
	}
}
