package kernels_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/planner"
)

// TestChunksKeepBits: computing the scores rows at a time changes no bit of the
// loss or of any gradient, on any number of workers.
func TestChunksKeepBits(t *testing.T) {
	for _, c := range []struct{ rows, features, classes int }{{7, 5, 3}, {256, 40, 300}, {289, 33, 70}, {577, 20, 30}, {700, 300, 520}} {
		for _, form := range []string{"s = com.microsoft.FusedMatMul(h, w) transB=1", "s = Gemm(h, w, b) transB=1", "s = MatMul(h, v)"} {
			text := fmt.Sprintf(`x f32[%[1]d,%[2]d] = input
g f32[%[2]d] = param
w f32[%[3]d,%[2]d] = param
v f32[%[2]d,%[3]d] = param
b f32[%[3]d] = param
places i64[%[1]d] = input
h = Mul(x, g)
%[4]s
cost = SoftmaxCrossEntropyLoss(s, places) ignore_index=1
output cost`, c.rows, c.features, c.classes, form)
			keepsBits(t, fmt.Sprintf("%v, %s", c, form), text, kernels.LinearCrossEntropy, 1, 2, 3)
		}
	}
}

// TestFeedForwardKeepsBits: computing hidden values rows at a time, and the norm in front of them,
// changes no bit of the loss or of any gradient, over one block of rows and several, whole and not,
// on any number of workers.
func TestFeedForwardKeepsBits(t *testing.T) {
	for _, c := range []struct{ rows, width, hidden int }{{7, 5, 12}, {288, 16, 40}, {289, 20, 33}, {577, 33, 70}, {1300, 24, 96}} {
		for _, form := range []string{
			"u = Gemm(h, w, b) transB=1\na = Gelu(u) approximate=\"tanh\"\nz = Gemm(a, v, c)",
			"u = MatMul(h, w2)\nd = Add(u, b)\na = Relu(d)\nz = MatMul(a, v)",
			"u = MatMul(h, w2)\na = com.microsoft.BiasGelu(u, b)\nz = com.microsoft.FusedMatMul(a, v2) transB=1",
			"u = com.microsoft.FusedMatMul(h, w) transB=1\ng = MatMul(h, w2)\ns = Sigmoid(u)\na = Mul(u, s)\nk = Mul(a, g)\nz = MatMul(k, v)",
			"m = LayerNormalization(h, e, f) epsilon=0.01\nu = MatMul(m, w2)\na = com.microsoft.BiasGelu(u, b)\no = MatMul(a, v)\nz = Add(h, o)",
			"m = RMSNormalization(h, e)\nu = com.microsoft.FusedMatMul(m, w) transB=1\ng = MatMul(m, w2)\ns = Sigmoid(u)\na = Mul(u, s)\nk = Mul(a, g)\no = MatMul(k, v)\nz = Add(h, o)",
		} {
			text := fmt.Sprintf(`x f32[%[1]d,%[2]d] = input
g0 f32[%[2]d] = param
w f32[%[3]d,%[2]d] = param
w2 f32[%[2]d,%[3]d] = param
v f32[%[3]d,%[2]d] = param
v2 f32[%[2]d,%[3]d] = param
b f32[%[3]d] = param
c f32[%[2]d] = param
e f32[%[2]d] = param
f f32[%[2]d] = param
h = Mul(x, g0)
%[4]s
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
output mean`, c.rows, c.width, c.hidden, form)
			keepsBits(t, fmt.Sprintf("%v, %s", c, form), text, kernels.FeedForward, 1, 2, 3)
			if !strings.Contains(form, "Gemm") {
				keepsBits(t, fmt.Sprintf("%v in a batch, %s", c, form), strings.Replace(text, "x f32[", "x f32[2,", 1), kernels.FeedForward, 2)
			}
			if strings.Contains(form, "Normalization") {
				g, err := graph.Parse(kernels.Library, text)
				if err != nil {
					t.Fatal(err)
				}
				inFeedForward(g, 0)
				if slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return strings.Contains(n.Op.Name, "Normalization") }) {
					t.Errorf("the norm is not in\n%s", g)
				}
			}
		}
	}
}

// TestFeedForwardInTiles: no number of tiles changes a bit, whatever is left over for the last one.
func TestFeedForwardInTiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		rows, tiles := 1+random.IntN(4000), 1+random.IntN(12)
		text := fmt.Sprintf(`x f32[%d,6] = input
g f32[6] = param
e f32[6] = param
w f32[6,17] = param
b f32[17] = param
v f32[17,6] = param
h = Mul(x, g)
m = LayerNormalization(h, e)
u = MatMul(m, w)
a = com.microsoft.BiasGelu(u, b)
o = MatMul(a, v)
z = Add(h, o)
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
output mean`, rows)
		want := stepBytes(t, text, nil, 1)
		got := stepOf(t, text, func(g *graph.Graph) { inFeedForward(g, tiles) }, 2)
		for name, x := range want {
			if !bytes.Equal(got[name], x) {
				t.Errorf("%d rows in %d tiles: %s has other bits", rows, tiles, name)
			}
		}
	}
}

// inFeedForward has feed-forward layers computed in so many tiles.
func inFeedForward(g *graph.Graph, tiles int) {
	g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
	g.Clean(graph.CleanOptions{Fuse: func(op *graph.Op) bool { return op == kernels.FeedForward }})
	for _, n := range g.Nodes {
		if n.Op == kernels.FeedForward {
			n.SetAttr("tiles", int64(tiles))
		}
	}
}

// keepsBits: a step computes on so many workers, with one operator that stands for some
// of its pieces, what it does on one in pieces.
func keepsBits(t *testing.T, what, text string, form *graph.Op, workers ...int) {
	t.Helper()
	want := stepBytes(t, text, nil, 1)
	for _, w := range workers {
		got := stepBytes(t, text, form, w)
		for name, x := range want {
			if !bytes.Equal(got[name], x) {
				t.Errorf("%s, %d workers: %s has other bits", what, w, name)
			}
		}
	}
}

// stepBytes runs a step up to its gradients, in pieces or with one that stands for some
// of them.
func stepBytes(t *testing.T, text string, form *graph.Op, workers int) map[string][]byte {
	t.Helper()
	return stepOf(t, text, func(g *graph.Graph) {
		g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
		g.Clean(graph.CleanOptions{Fuse: func(op *graph.Op) bool { return op == form }})
		if form != nil && !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op == form }) {
			t.Fatalf("no %s in\n%s", form.Name, g)
		}
	}, workers)
}

// stepOf runs a step up to its gradients, of a forward graph as clean makes it.
func stepOf(t *testing.T, text string, clean func(g *graph.Graph), workers int) map[string][]byte {
	t.Helper()
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]*graph.Tensor{}
	for _, v := range g.Values {
		if v.Kind == graph.Computed {
			continue
		}
		n, _ := v.Shape.Elems().Const()
		x := graph.NewTensor(v.Type, int(n))
		for i := range x.Len() {
			x.SetFloat(i, float64((i*7919+13)%101)/50-1)
			if v.Type == graph.Int64 {
				x.SetInt(i, int64(i%3))
			}
		}
		if v.Kind == graph.Param {
			v.Data = graph.Bytes(x.Bytes)
		}
		x.Shape = nil
		for _, d := range v.Shape {
			size, _ := d.Const()
			x.Shape = append(x.Shape, int(size))
		}
		if v.Kind == graph.Input {
			inputs[v.Name] = x
		}
	}
	clean(g)
	step, err := autograd.TrainStep(g, autograd.Options{KeepGrads: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(step, planner.Request{Strategy: "keep-all"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cpu.Open(s, cpu.Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Run(schedule.Run{Inputs: inputs}); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, grad := range step.Grads {
		x, err := d.Output(grad.Grad.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[grad.Param.Name] = bytes.Clone(x.Bytes)
	}
	x, err := d.Output(step.Loss.Name)
	if err != nil {
		t.Fatal(err)
	}
	out["loss"] = bytes.Clone(x.Bytes)
	return out
}
