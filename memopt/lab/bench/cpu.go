package bench

import (
	"fmt"
	"slices"
	"sync"

	"memopt/kernels/cpu"
	"memopt/memopt/lab/zoo"
)

// cpuBench measures the CPU device.
var cpuBench = Bench{
	Name:  "cpu",
	Doc:   "products, training steps and single operators of the CPU device",
	Cases: slices.Concat(products, steps, rows, halves),
}

// products are C = op(A)·op(B) of square matrices, against OpenBLAS.
var products = func() (cases []Case) {
	for _, n := range []int{256, 512, 1024} {
		for _, trans := range []string{"NN", "NT", "TN", "TT"} {
			text := fmt.Sprintf("a f32[%[1]d,%[1]d] = param\nb f32[%[1]d,%[1]d] = param\nc = Gemm(a, b)", n)
			if trans[0] == 'T' {
				text += " transA=1"
			}
			if trans[1] == 'T' {
				text += " transB=1"
			}
			cases = append(cases, Case{
				Group: "matmul", Name: fmt.Sprint(n, " ", trans), Work: 2 * float64(n) * float64(n) * float64(n), Unit: "FLOP",
				Ours:  program(text+"\noutput c", cpu.Options{}),
				Rival: Rival{Name: "NumPy", Script: "numpy", Open: map[string]any{"open": "product", "m": n, "n": n, "k": n, "trans": trans}},
				Bar:   Bar{Speed: 0.9},
			})
		}
	}
	return cases
}()

// steps are whole training steps, against PyTorch's.
var steps = []Case{
	{
		Group: "mlp", Name: "784-512-512-10, batch 64, SGD", Work: 1, Unit: "step",
		Ours:  training(zoo.Spec{Family: "mlp"}, "sgd", map[string]int64{"batch": 64}),
		Rival: torch("mlp", map[string]any{"batch": 64, "inputs": 784, "width": 512, "layers": 2, "classes": 10}),
		Bar:   Bar{Time: 1.0},
	},
	{
		Group: "gpt", Name: "4 layers of 256, 8 × 128 tokens, AdamW", Work: 1, Unit: "step",
		Ours:  training(zoo.Spec{Family: "gpt"}, "adamw", map[string]int64{"batch": 8, "seq": 128}),
		Rival: torch("gpt", map[string]any{"batch": 8, "seq": 128, "layers": 4, "width": 256, "heads": 4, "hidden": 1024, "vocab": 1024}),
		Bar:   Bar{Time: 1.5},
	},
	{
		Group: "resnet", Name: "4 stages from 32, 16 × 32² pixels, momentum", Work: 1, Unit: "step",
		Ours:  training(zoo.Spec{Family: "resnet"}, "momentum", map[string]int64{"batch": 16}),
		Rival: torch("resnet", map[string]any{"batch": 16, "channels": 3, "image": 32, "width": 32, "layers": 1, "classes": 10}),
		Bar:   Bar{Time: 1.5},
	},
}

func torch(name string, open map[string]any) Rival {
	open["open"] = name
	return Rival{Name: "PyTorch", Script: "torch", Open: open}
}

// Shape of the tensors of operators that mainly read and write; too large for any cache.
const lines, width = 8192, 1024

// rows are operators measured by the bytes that they read and write, against a copy.
var rows = func() (cases []Case) {
	const wide, narrow = 4 * lines * width, 4 * width
	for _, r := range []struct {
		name, text string
		bytes      float64
	}{
		{"Add", "y = Add(x, z)", 3 * wide},
		{"Add of a row", "y = Add(x, w)", 2 * wide},
		{"Relu", "y = Relu(x)", 2 * wide},
		{"Gelu", "y = Gelu(x)", 2 * wide},
		{"GeluGrad", "y = memopt.GeluGrad(x, z)", 3 * wide},
		{"Gelu by tanh", "y = Gelu(x) approximate=\"tanh\"", 2 * wide},
		{"GeluGrad by tanh", "y = memopt.GeluGrad(x, z) approximate=\"tanh\"", 3 * wide},
		{"Tanh", "y = Tanh(x)", 2 * wide},
		{"Sigmoid", "y = Sigmoid(x)", 2 * wide},
		{"Erf", "y = Erf(x)", 2 * wide},
		{"Softmax", "y = Softmax(x)", 2 * wide},
		{"SoftmaxGrad", "y = com.microsoft.SoftmaxGrad_13(x, z)", 3 * wide},
		{"LayerNorm", "y = LayerNormalization(x, w, w)", 2*wide + narrow},
		{"ReduceSum of columns", "axes i64[1] = const {0}\ny = ReduceSum(x, axes)", wide},
	} {
		text := fmt.Sprintf("x f32[%d,%d] = param\nz f32[%d,%d] = param\nw f32[%d] = param\n%s\noutput y", lines, width, lines, width, width, r.text)
		cases = append(cases, Case{Group: "rows", Name: r.name, Work: r.bytes, Unit: "B", Ours: program(text, cpu.Options{}), Rival: copying(r.bytes), Bar: Bar{Speed: 0.5}})
	}
	adam := updateText("Adam", lines*width)
	return append(cases, Case{Group: "rows", Name: "Adam", Work: 7 * wide, Unit: "B", Ours: program(adam, cpu.Options{}), Rival: copying(7 * wide), Bar: Bar{Speed: 0.5}})
}()

// updateText is one update of n parameters by an optimizer like Adam.
func updateText(rule string, n int) string {
	return fmt.Sprintf(`lr f32[] = const {0.001}
t i64[] = const {3}
p f32[%[1]d] = param
g f32[%[1]d] = param
m f32[%[1]d] = state
v f32[%[1]d] = state
update:
p2, m2, v2 = memopt.%[2]s(p, g, lr, _, t, m, v)
update p = p2
update m = m2
update v = v2`, n, rule)
}

// copying is the baseline of memory bandwidth: copies that read and write as many bytes, on all
// threads. A copy of less than a tensor continues where the last one ended, so that it does not
// measure the cache.
func copying(bytes float64) Rival {
	return Rival{Name: "copy", Side: func(threads int) (Side, error) {
		n := int(bytes) / 2
		from := make([]byte, max(n, 4*lines*width))
		to, at := make([]byte, len(from)), 0
		for i := range from {
			from[i] = byte(i)
		}
		return local{step: func() error {
			if at += n; at+n > len(from) {
				at = 0
			}
			var done sync.WaitGroup
			for i := range threads {
				lo, hi := at+n*i/threads, at+n*(i+1)/threads
				if i == threads-1 {
					copy(to[lo:hi], from[lo:hi])
					continue
				}
				done.Go(func() { copy(to[lo:hi], from[lo:hi]) })
			}
			done.Wait()
			return nil
		}}, nil
	}}
}

// halves are products of 16-bit floats, against the plain reference.
var halves = func() (cases []Case) {
	const n = 128
	for _, t := range []string{"f16", "bf16"} {
		text := fmt.Sprintf("a %[1]s[%[2]d,%[2]d] = param\nb %[1]s[%[2]d,%[2]d] = param\nc = MatMul(a, b)\noutput c", t, n)
		cases = append(cases, Case{Group: "half", Name: fmt.Sprint(t, " product ", n), Work: 2 * n * n * n, Unit: "FLOP",
			Ours:  program(text, cpu.Options{}),
			Rival: Rival{Name: "Eval", Side: program(text, cpu.Options{Reference: true})},
			Bar:   Bar{Time: 0.1}})
	}
	return cases
}()
