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
