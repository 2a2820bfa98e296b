package graph

import (
	"fmt"
	"runtime"
	"testing"
)

// layered makes a graph of n nodes under the names that exporters give: blocks of
// two products, an addition, a normalization and some cheap nodes.
func layered(n int) *Graph {
	b := NewBuilder(New(testLibrary, "layered"))
	must := func(v *Value, err error) *Value {
		if err != nil {
			panic(err)
		}
		return v
	}
	batch, width := Sym("batch").Mul(Sym("seq")), Num(64)
	h := must(b.Define(Input, "input", Float32, Shape{batch, width}))
	ops := []string{"MatMul", "Relu", "Norm", "MatMul", "Add", "Dropout", "Relu", "Any"}
	for i := range n {
		op := testLibrary.Find("", ops[i%len(ops)], 0)
		at := fmt.Sprintf("/model/layers.%d/block/%s", i/len(ops), op.Name)
		in := []*Value{h}
		var attrs []Attr
		switch op.Name {
		case "MatMul":
			w := must(b.Define(Param, fmt.Sprintf("onnx::MatMul_%d", i), Float32, Shape{width, width}))
			in = append(in, w)
		case "Add":
			in = append(in, h)
		case "Any":
			attrs = []Attr{{"f", 1e-5}, {"is", []int64{0, 1}}}
		}
		name := fmt.Sprintf("%s_%d", at, i)
		outs, err := b.Node(op, name, attrs, in, []string{name + "_output_0"})
		if err != nil {
			panic(err)
		}
		h = outs[0]
	}
	b.Graph.Outputs = []*Value{h}
	return b.Graph
}

const scale = 100_000

// BenchmarkScale builds and checks a large graph: 0.3 s is the aim.
func BenchmarkScale(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := layered(scale).Check(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/graph")
}

func BenchmarkScaleParse(b *testing.B) {
	text := layered(scale).String()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Parse(testLibrary, text); err != nil {
			b.Fatal(err)
		}
	}
}

// TestScale: 100 000 nodes fit in 60 MB, names included.
func TestScale(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	g := layered(scale)
	took := heap() - before
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d values: %d bytes, %d for each node", len(g.Nodes), len(g.Values), took, took/uint64(len(g.Nodes)))
	if took > 60_000_000 {
		t.Errorf("%d nodes take %d bytes, at most %d are allowed", len(g.Nodes), took, 60_000_000)
	}
	runtime.KeepAlive(g)
}
