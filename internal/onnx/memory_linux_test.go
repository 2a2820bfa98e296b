package onnx

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/weights"
	"memopt/internal/weights/blocktest"
)

// writeSparse writes a model whose weights are holes in the file: each of the
// nodes adds one of some weights of a number of floats.
func writeSparse(t testing.TB, nodes, params int, floats int64) string {
	t.Helper()
	b := graph.NewBuilder(graph.New(testLibrary, "large"))
	define := func(kind graph.Kind, name string) *graph.Value {
		v, err := b.Define(kind, name, graph.Float32, graph.Dims(floats))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x := define(graph.Input, "x")
	ws := make([]*graph.Value, params)
	for i := range ws {
		ws[i] = define(graph.Param, fmt.Sprintf("layers.%d.weight", i))
		ws[i].Data = blocktest.Blank(t, 4*floats)
	}
	for i := range nodes {
		x = b.Op("Add", nil, x, ws[i%params])
	}
	b.Graph.Outputs = []*graph.Value{x}
	e, err := newEncoder(optionsOf(nil), b.Graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "large.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(0)
	for _, p := range e.model().parts {
		if p.data == nil {
			if _, err := f.WriteAt(p.bytes, at); err != nil {
				t.Fatal(err)
			}
		}
		at += p.len()
	}
	if err := f.Truncate(at); err != nil {
		t.Fatal(err)
	}
	return path
}

func drop(g *graph.Graph) {
	for _, v := range g.Values {
		if b, ok := v.Data.(*weights.Block); ok {
			b.Drop()
		}
	}
}

// Opening a model takes no memory for its weights, and writing it takes none
// either.
func TestWeightsAreNotCopied(t *testing.T) {
	path := writeSparse(t, 50, 50, 2_500_000)
	if info, err := os.Stat(path); err != nil || info.Size() < 500e6 {
		t.Fatal(info, err)
	}
	debug.FreeOSMemory()
	before := blocktest.Anonymous(t)
	g, _, err := Open(path, testLibrary)
	if err != nil {
		t.Fatal(err)
	}
	defer drop(g)
	if grown := blocktest.Anonymous(t) - before; grown > 4<<20 {
		t.Errorf("own memory grew by %d bytes", grown)
	} else {
		t.Logf("500 MB opened: own memory grew by %d kB", grown>>10)
	}
	if n := weights.Snapshot().CopiedUnmapped; n != 0 {
		t.Errorf("%d bytes copied", n)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
	if testing.Short() {
		return
	}
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := Encode(out, g); err != nil {
		t.Fatal(err)
	}
	if grown := blocktest.Anonymous(t) - before; grown > 4<<20 {
		t.Errorf("after writing, own memory has grown by %d bytes", grown)
	}
}

// BenchmarkRead opens 200 MB with 5 000 nodes and 500 weights. The part that Builder.Node takes
// is measured beside it.
func BenchmarkRead(b *testing.B) {
	const params = 500
	path := writeSparse(b, 5000, params, 50_000_000/int64(params))
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			g, _, err := Open(path, testLibrary)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			drop(g)
			runtime.GC()
			b.StartTimer()
		}
	})
	b.Run("walk", func(b *testing.B) {
		for b.Loop() {
			f, err := weights.OpenFile(path)
			if err != nil {
				b.Fatal(err)
			}
			r := newReader(f.Bytes(), path, path, testLibrary, f)
			r.readModel()
			g := r.readBody("the graph", r.model.graph)
			var n node
			for _, m := range g.nodes {
				r.node(m, &n)
			}
			for _, m := range g.inits {
				r.data(readTensor(r.message("initializer", m), initializerName))
			}
			b.StopTimer()
			for _, x := range r.blocks {
				x.Drop()
			}
			f.Close()
			runtime.GC()
			b.StartTimer()
		}
	})
	b.Run("build", func(b *testing.B) {
		f, err := weights.OpenFile(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			bb := graph.NewBuilder(graph.New(testLibrary, "large"))
			x, err := bb.Define(graph.Input, "x", graph.Float32, graph.Dims(10_000))
			if err != nil {
				b.Fatal(err)
			}
			op := testLibrary.Find("", "Add", 20)
			ws := make([]*graph.Value, params)
			for i := range ws {
				if ws[i], err = bb.Define(graph.Param, fmt.Sprintf("layers.%d.weight", i), graph.Float32, graph.Dims(10_000)); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 5000 {
				name := fmt.Sprintf("Add_%d", i)
				out, err := bb.Node(op, name, nil, []*graph.Value{x, ws[i%params]}, []string{name})
				if err != nil {
					b.Fatal(err)
				}
				x = out[0]
			}
			bb.Graph.Outputs = []*graph.Value{x}
			bb.Graph.FoldInts()
			if err := bb.Graph.Check(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
