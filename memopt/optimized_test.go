package memopt

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"memopt/configs"
	"memopt/internal/onnx"
	"memopt/internal/weights"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/step"
)

// TestOptimizedLoadsAsItIs: what Optimize wrote needs no pass any more, and weights that lie beside the model stay
// beside it, aligned, so that they are mapped and never copied.
func TestOptimizedLoadsAsItIs(t *testing.T) {
	dir := t.TempDir()
	g, err := zoo.New(zoo.Spec{Family: "bert", Layers: 2, Width: 256, Vocab: 6000, Positions: 64}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := onnx.Write(at("m.onnx"), g, onnx.External); err != nil {
		t.Fatal(err)
	}
	c := configs.Default()
	once, err := step.Optimize(at("m.onnx"), at("once.onnx"), c)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := step.Optimize(at("once.onnx"), at("twice.onnx"), c)
	if err != nil {
		t.Fatal(err)
	}
	if once.After != twice.Before || twice.After != twice.Before {
		t.Errorf("%d nodes were written, %d read, and %d left of those", once.After, twice.Before, twice.After)
	}
	for _, pair := range [][2]string{{"once.onnx.data", "twice.onnx.data"}} {
		a, err := os.ReadFile(at(pair[0]))
		if err != nil {
			t.Fatal("the weights are not beside the model: ", err)
		}
		b, err := os.ReadFile(at(pair[1]))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("the weights changed: %v", err)
		}
	}
	before := weights.Snapshot()
	read, source, err := onnx.Open(at("once.onnx"), kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	mapped := 0
	for _, v := range read.Values {
		b, is := v.Data.(*weights.Block)
		if !is || b.Len() < 1<<10 {
			continue
		}
		align := 64
		if b.Len() > 1<<20 {
			align = 4096
		}
		if _, in, err := b.Aligned(align); err != nil || !in {
			t.Errorf("%s of %d bytes does not begin at a multiple of %d: %v", v.Name, b.Len(), align, err)
		}
		if b.Kind() != weights.KindMapped {
			t.Errorf("%s is %s", v.Name, b.Kind())
		}
		mapped++
	}
	now := weights.Snapshot()
	if mapped == 0 || now.CopiedUnaligned != before.CopiedUnaligned || now.CopiedUnmapped != before.CopiedUnmapped {
		t.Errorf("%d weights are mapped; copied %d and %d bytes", mapped, now.CopiedUnaligned-before.CopiedUnaligned, now.CopiedUnmapped-before.CopiedUnmapped)
	}
}
