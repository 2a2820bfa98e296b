package planner

import (
	"fmt"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// movements are programs with the bytes that their last node reads and writes,
// element by element: d are the sizes, elements of f32 have 4 bytes, of i64 8.
var movements = []struct {
	name, text string
	count      func(b, m, n int64) int64
}{
	{"a view", "x f32[B, M] = input\ny = Flatten(x)\noutput y", func(b, m, n int64) int64 { return 0 }},
	{"each element", "x f32[B, M] = input\ny = Relu(x)\noutput y", func(b, m, n int64) int64 { return each(4, b, m) + each(4, b, m) }},
	{"a broadcast", "x f32[B, 1, N] = input\nw f32[M, 1] = input\ny = Add(x, w)\noutput y", func(b, m, n int64) int64 {
		return each(4, b, n) + each(4, m) + each(4, b, m, n)
	}},
	{"a use of one value twice", "x f32[B, M] = input\ny = Mul(x, x)\noutput y", func(b, m, n int64) int64 { return 3 * each(4, b, m) }},
	{"a product", "x f32[B, M] = input\nw f32[M, N] = input\ny = MatMul(x, w)\noutput y", func(b, m, n int64) int64 {
		return each(4, b, m) + each(4, m, n) + each(4, b, n)
	}},
	{"two outputs", "x f32[B, M] = input\nr f32[] = const {0.5}\nt bool[] = const {1}\ny, k = Dropout(x, r, t)\noutput y\noutput k", func(b, m, n int64) int64 {
		return each(4, b, m) + each(1, b, m) + each(4, b, m) + 4 + 1
	}},
	{"a reduction", "x f32[B, M, N] = input\na i64[1] = const {1}\ny = ReduceSum(x, a) keepdims=0\noutput y", func(b, m, n int64) int64 {
		return each(4, b, m, n) + 8 + each(4, b, n)
	}},
	{"half floats", "x f16[B, M] = input\ny = Cast(x) to=1\noutput y", func(b, m, n int64) int64 { return each(2, b, m) + each(4, b, m) }},
	{"rows of a table", "w f32[1000, N] = input\ni i64[B, M] = input\ny = Gather(w, i)\noutput y", func(b, m, n int64) int64 {
		return each(8, b, m) + 2*each(4, b, m, n)
	}},
	{"rows of a table, as PyTorch says it",
		"w f32[1000, N] = input\ni i64[B, M] = input\np i64[] = const {-1}\nf bool[] = const {0}\n" +
			"y = org.pytorch.aten.ATen(w, i, p, f, f) operator=\"embedding\"\noutput y",
		func(b, m, n int64) int64 { return each(8, b, m) + 2*each(4, b, m, n) + 8 + 1 + 1 }},
	{"elements of lines", "x f32[B, 500] = input\ni i64[B, M] = input\ny = GatherElements(x, i) axis=1\noutput y", func(b, m, n int64) int64 {
		return each(8, b, m) + 2*each(4, b, m)
	}},
	{"rows by tuples", "x f32[90, 90, N] = input\ni i64[B, M, 2] = input\ny = GatherND(x, i)\noutput y", func(b, m, n int64) int64 {
		return each(8, b, m, 2) + 2*each(4, b, m, n)
	}},
	{"a slice", "x f32[B, 500] = input\ns i64[1] = const {2}\ne i64[1] = const {9}\na i64[1] = const {1}\ny = Slice(x, s, e, a)\noutput y", func(b, m, n int64) int64 {
		return 2*each(4, b, 7) + 3*8
	}},
	{"a shape", "x f32[B, M, N] = input\ny = Shape(x)\noutput y", func(b, m, n int64) int64 { return 3 * 8 }},
	{"an update, which writes where it read", "x f32[B, M] = input\nw f32[B, M] = param\nr f32[] = const {0.1}\ns i64[] = const {1}\n" +
		"y = memopt.SGD(w, x, r, _, s)\nupdate w = y",
		func(b, m, n int64) int64 { return 3*each(4, b, m) + 4 + 8 }},
	{"a score for each label", "x f32[B, 70] = input\nl i64[B] = input\ny = NegativeLogLikelihoodLoss(x, l)\noutput y", func(b, m, n int64) int64 {
		return each(4, b) + each(8, b) + 4
	}},
}

// each counts bytes element by element.
func each(bytes int64, sizes ...int64) (n int64) {
	if len(sizes) == 0 {
		return bytes
	}
	for range sizes[0] {
		n += each(bytes, sizes[1:]...)
	}
	return n
}

// TestMoved: what a node is said to move is what is counted, and what the
// formulas of a plan say of it.
func TestMoved(t *testing.T) {
	for _, p := range movements {
		t.Run(p.name, func(t *testing.T) {
			g, err := graph.Parse(kernels.Library, p.text)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range [][3]int64{{1, 5, 4}, {2, 8, 7}, {6, 3, 10}} {
				dims := map[string]int64{}
				for i, name := range []string{"B", "M", "N"} {
					if graphHas(g, name) {
						dims[name] = d[i]
					}
				}
				m, err := newModel(g, Request{Dims: dims})
				if err != nil {
					t.Fatal(err)
				}
				last := len(g.Nodes) - 1
				if got, want := int64(m.prices[m.kind[last]].Moved), p.count(d[0], d[1], d[2]); got != want {
					t.Errorf("%v: %d bytes, counted %d", dims, got, want)
				}
			}
		})
	}
}

func graphHas(g *graph.Graph, dim string) bool {
	for _, v := range g.Inputs {
		for _, d := range v.Shape {
			if fmt.Sprint(d) == dim {
				return true
			}
		}
	}
	return false
}
