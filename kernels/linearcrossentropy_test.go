package kernels_test

import (
	"bytes"
	"fmt"
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

// TestFeedForwardKeepsBits: computing hidden values rows at a time changes no bit of the loss or of
// any gradient, over one block of rows and several, whole and not, on any number of workers.
func TestFeedForwardKeepsBits(t *testing.T) {
	for _, c := range []struct{ rows, width, hidden int }{{7, 5, 12}, {288, 16, 40}, {289, 20, 33}, {577, 33, 70}, {1300, 24, 96}} {
		for _, form := range []string{
			"u = Gemm(h, w, b) transB=1\na = Gelu(u) approximate=\"tanh\"\nz = Gemm(a, v, c)",
			"u = MatMul(h, w2)\nd = Add(u, b)\na = Relu(d)\nz = MatMul(a, v)",
			"u = MatMul(h, w2)\na = com.microsoft.BiasGelu(u, b)\nz = com.microsoft.FusedMatMul(a, v2) transB=1",
			"u = com.microsoft.FusedMatMul(h, w) transB=1\ng = MatMul(h, w2)\ns = Sigmoid(u)\na = Mul(u, s)\nk = Mul(a, g)\nz = MatMul(k, v)",
		} {
			text := fmt.Sprintf(`x f32[%[1]d,%[2]d] = input
g0 f32[%[2]d] = param
w f32[%[3]d,%[2]d] = param
w2 f32[%[2]d,%[3]d] = param
v f32[%[3]d,%[2]d] = param
v2 f32[%[2]d,%[3]d] = param
b f32[%[3]d] = param
c f32[%[2]d] = param
h = Mul(x, g0)
%[4]s
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
output mean`, c.rows, c.width, c.hidden, form)
			keepsBits(t, fmt.Sprintf("%v, %s", c, form), text, kernels.FeedForward, 1, 2, 3)
			if !strings.Contains(form, "Gemm") {
				keepsBits(t, fmt.Sprintf("%v in a batch, %s", c, form), strings.Replace(text, "x f32[", "x f32[2,", 1), kernels.FeedForward, 2)
			}
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
	g.Clean(graph.CleanOptions{Fuse: kernels.Fusions})
	g.Clean(graph.CleanOptions{Fuse: func(op *graph.Op) bool { return op == form }})
	if form != nil && !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Op == form }) {
		t.Fatalf("no %s in\n%s", form.Name, g)
	}
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
