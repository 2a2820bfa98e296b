package kernels

import (
	"strings"
	"testing"

	"memopt/internal/graph"
)

// gradientsByKept are gradients as ONNX Runtime writes them, beside ours.
var gradientsByKept = []struct{ name, src string }{
	{"MaxPool", `
		x f32[2, 3, 6, 5] = input
		y, at = MaxPool(x) kernel_shape=[3, 2] strides=[2, 1] pads=[1, 0, 1, 1]
		dy = Neg(y)
		want = memopt.MaxPoolGrad(dy, x) kernel_shape=[3, 2] strides=[2, 1] pads=[1, 0, 1, 1]
		got = MaxPoolGrad(dy, at) kernel_shape=[3, 2] strides=[2, 1] pads=[1, 0, 1, 1]`},
	{"MaxPool, the later domain", `
		x f32[2, 3, 6] = input
		y, at = MaxPool(x) kernel_shape=[3]
		want = memopt.MaxPoolGrad(y, x) kernel_shape=[3]
		got = com.microsoft.MaxPoolGrad(y, at) kernel_shape=[3]`},
	{"AveragePool", `
		x f32[2, 3, 6, 5] = input
		y = AveragePool(x) kernel_shape=[2, 3] pads=[0, 1, 0, 1]
		want = memopt.AveragePoolGrad(y, s) kernel_shape=[2, 3] pads=[0, 1, 0, 1]
		got = AveragePoolGrad(y) kernel_shape=[2, 3] pads=[0, 1, 0, 1]`},
	{"AveragePool, from X", `
		x f32[2, 3, 6, 5] = input
		y = AveragePool(x) kernel_shape=[4, 2] strides=[4, 2]
		want = memopt.AveragePoolGrad(y, s) kernel_shape=[4, 2] strides=[4, 2]
		got = com.microsoft.AveragePoolGrad(y, x, y) kernel_shape=[4, 2] strides=[4, 2]`},
	{"LeakyRelu", `
		x f32[4, 5] = input
		y = LeakyRelu(x) alpha=0.2
		want = memopt.LeakyReluGrad(x, x) alpha=0.2
		got = com.microsoft.LeakyReluGrad(x, y) alpha=0.2`},
	{"ConvTranspose", `
		x f32[2, 3, 6, 5] = input
		w f32[3, 2, 3, 3] = input
		y = ConvTranspose(x, w) strides=[2, 2] pads=[1, 1, 1, 1] output_padding=[1, 1]
		want = Conv(y, w) strides=[2, 2] pads=[1, 1, 1, 1]
		got, dw, db = com.microsoft.ConvTransposeGrad(y, x, w) strides=[2, 2] pads=[1, 1, 1, 1] output_padding=[1, 1]`},
	{"ScaledSum", `
		x f32[4, 5] = input
		k f32[] = const {0.75}
		want = Mul(x, k)
		got = com.microsoft.ScaledSum(x, x) scale_0=0.5 scale_1=0.25`},
	{"BatchScale", `
		x f32[4, 5] = input
		k f32[] = const {0.75}
		want = Mul(x, k)
		a, got = com.microsoft.BatchScale(x) scale_0=0.5 scale_1=0.75`},
}

func TestGradientsByKept(t *testing.T) {
	for _, c := range gradientsByKept {
		t.Run(c.name, func(t *testing.T) {
			g, err := graph.Parse(Library, "s i64[4] = const {2, 3, 6, 5}\n"+c.src+"\noutput want\noutput got\n")
			if err != nil {
				t.Fatal(err)
			}
			binding, err := graph.Bind(nil)
			if err != nil {
				t.Fatal(err)
			}
			given := map[string]*graph.Tensor{}
			for _, v := range g.Values {
				if v.Kind == graph.Input {
					shape, err := binding.Shape(v.Shape)
					if err != nil {
						t.Fatal(err)
					}
					given[v.Name] = uneven(graph.NewTensor(v.Type, shape...))
				}
			}
			all, err := Interpret(g, binding, given)
			if err != nil {
				t.Fatal(err)
			}
			near(t, c.name, []*graph.Tensor{all[g.Outputs[1].ID]}, []*graph.Tensor{all[g.Outputs[0].ID]})
		})
	}
}

// uneven fills a tensor with numbers of both signs, no two alike.
func uneven(x *graph.Tensor) *graph.Tensor {
	for i := range x.Len() {
		x.SetFloat(i, float64(i*37%101)/7-6.9)
	}
	return x
}

// TestRefusedGradients: what cannot be had from the file is said.
func TestRefusedGradients(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"dy f32[1, 1, 3] = input\nat i64[1, 1, 3] = input\ndx = MaxPoolGrad(dy, at) kernel_shape=[2]", "is not an output of a MaxPool"},
		{"x f32[2, 3] = input\nc, y = com.microsoft.PythonOp(x) func_name=\"flash_attn.flash_attn_interface.FlashAttnFunc\"", "cannot be run here"},
	} {
		if _, err := graph.Parse(Library, c.src+"\n"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngives %v, not %q", c.src, err, c.want)
		}
	}
}
