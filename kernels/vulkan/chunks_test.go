package vulkan_test

import (
	"bytes"
	"fmt"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// TestChunksKeepBits: computing the scores of a loss rows at a time changes no bit
// of the loss or of any gradient, also where sums over rows are made of parts and
// where the device shows less of a buffer than a chunk.
func TestChunksKeepBits(t *testing.T) {
	gpu := withoutAddresses(t, device(t))
	for _, c := range []struct {
		rows, features, classes int
		form                    string
		limit                   int64
	}{
		{7, 5, 3, "s = Gemm(x, w, b) transB=1", 0},
		{300, 20, 70, "s = com.microsoft.FusedMatMul(x, w) transB=1", 0},
		{577, 33, 30, "s = MatMul(x, v)", 0},
		{700, 20, 41, "s = Gemm(x, v, b)", 0},
		{9000, 6, 10, "s = Gemm(x, w, b) transB=1", 0},
		{700, 64, 300, "s = MatMul(x, v)", 1 << 16},
	} {
		text := fmt.Sprintf(`x f32[%[1]d,%[2]d] = param
w f32[%[3]d,%[2]d] = param
v f32[%[2]d,%[3]d] = param
b f32[%[3]d] = param
places i64[%[1]d] = input
%[4]s
cost = SoftmaxCrossEntropyLoss(s, places) ignore_index=1
output cost`, c.rows, c.features, c.classes, c.form)
		want := lossBytes(t, gpu, text, kernels.Fusions, 0)
		got := lossBytes(t, gpu, text, func(*graph.Op) bool { return true }, c.limit)
		for name, x := range want {
			if !bytes.Equal(got[name], x) {
				t.Errorf("%d rows, %s: %s has other bits", c.rows, c.form, name)
			}
		}
	}
}

// TestFeedForwardKeepsBits: computing hidden layers, and the norm in front of them, tile by tile
// changes no bit of the loss or of any gradient, in any number of tiles, also where sums over rows
// are made of parts and where the device shows less of a buffer than a tile.
func TestFeedForwardKeepsBits(t *testing.T) {
	gpu := withoutAddresses(t, device(t))
	for _, c := range []struct {
		rows, width, hidden, tiles int
		form                       string
		limit                      int64
	}{
		{7, 5, 12, 0, "u = Gemm(h, w, b)\na = Gelu(u) approximate=\"tanh\"\nz = Gemm(a, v, c)", 0},
		{300, 20, 33, 0, "m = LayerNormalization(h, e, c)\nu = MatMul(m, w)\na = com.microsoft.BiasGelu(u, b)\no = MatMul(a, v)\nz = Add(h, o)", 0},
		{1300, 24, 40, 2, "m = RMSNormalization(h, e)\nu = MatMul(m, w)\ng = MatMul(m, w3)\ns = Sigmoid(u)\na = Mul(u, s)\nk = Mul(a, g)\no = MatMul(k, v)\nz = Add(h, o)", 0},
		{9000, 6, 10, 3, "u = Gemm(h, w, b)\na = Relu(u)\nz = Gemm(a, v, c)", 0},
		{700, 16, 64, 0, "u = Gemm(h, w, b)\na = Relu(u)\nz = Gemm(a, v, c)", 1 << 16},
	} {
		text := fmt.Sprintf(`x f32[%[1]d,%[2]d] = input
g0 f32[%[2]d] = param
w f32[%[2]d,%[3]d] = param
w3 f32[%[2]d,%[3]d] = param
v f32[%[3]d,%[2]d] = param
b f32[%[3]d] = param
c f32[%[2]d] = param
e f32[%[2]d] = param
h = Mul(x, g0)
%[4]s
squares = Mul(z, z)
mean = ReduceMean(squares) keepdims=0
output mean`, c.rows, c.width, c.hidden, c.form)
		stepOf := func(fuse func(*graph.Op) bool, limit int64) map[string][]byte {
			step, _ := lossStep(t, text, fuse)
			in := false
			for _, n := range step.Nodes {
				if n.Op.Pieces == graph.FeedForwardInRows || n.Op.Name == "FeedForwardGrad" {
					n.SetAttr("tiles", int64(c.tiles))
					in = true
				}
			}
			if in != fuse(kernels.FeedForward) {
				t.Fatalf("in tiles: %v\n%s", in, step)
			}
			out, _ := stepBytes(t, gpu, step, planner.Request{Strategy: "keep-all"}, vulkan.Options{Range: limit})
			return out
		}
		want := stepOf(kernels.Fusions, 0)
		got := stepOf(func(op *graph.Op) bool { return kernels.Fusions(op) || op == kernels.FeedForward }, c.limit)
		for name, x := range want {
			if !bytes.Equal(got[name], x) {
				t.Errorf("%d rows in %d tiles, %s: %s has other bits", c.rows, c.tiles, c.form, name)
			}
		}
	}
}

// lossBytes are the loss and the gradients of a program, whose loss is one operator
// if it may be.
func lossBytes(t *testing.T, gpu *vk.Physical, text string, fuse func(*graph.Op) bool, limit int64) map[string][]byte {
	t.Helper()
	step, loss := lossStep(t, text, fuse)
	if chunked := loss == kernels.LinearCrossEntropy; chunked != fuse(kernels.LinearCrossEntropy) {
		t.Fatalf("in chunks: %v\n%s", chunked, step)
	}
	out, _ := stepBytes(t, gpu, step, planner.Request{Strategy: "keep-all"}, vulkan.Options{Range: limit})
	return out
}

// lossStep is the step of a program with parameters of some numbers, and what makes
// its loss.
func lossStep(t *testing.T, text string, fuse func(*graph.Op) bool) (step *graph.Graph, loss *graph.Op) {
	t.Helper()
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Shape.Elems().Const()
			x := graph.NewTensor(v.Type, int(n))
			for i := range x.Len() {
				x.SetFloat(i, float64((i*7919+13)%101)/50-1)
			}
			v.Data = graph.Bytes(x.Bytes)
		}
	}
	g.Clean(graph.CleanOptions{Fuse: fuse})
	loss = g.Nodes[len(g.Nodes)-1].Op
	if step, err = autograd.TrainStep(g, autograd.Options{KeepGrads: true}); err != nil {
		t.Fatal(err)
	}
	return step, loss
}

// stepBytes are the loss and the gradients of a step under a plan, and how many
// launches that does again.
func stepBytes(t *testing.T, gpu *vk.Physical, step *graph.Graph, r planner.Request, o vulkan.Options) (out map[string][]byte, again int) {
	t.Helper()
	p, s := planned(t, step, r)
	d, err := vulkan.Open(s, gpu, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if w := d.Warnings(); len(w) > 0 {
		t.Error(w)
	}
	if _, err := d.Run(schedule.Run{Inputs: someInputs(s)}); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"loss": step.Loss.Name}
	for _, grad := range step.Grads {
		names[grad.Param.Name] = grad.Grad.Name
	}
	out = map[string][]byte{}
	for what, name := range names {
		x, err := d.Output(name)
		if err != nil {
			t.Fatal(err)
		}
		out[what] = x.Bytes
	}
	return out, p.Result.Again
}
