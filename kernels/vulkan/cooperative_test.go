package vulkan_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/lower"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// pathDevice is the device that tests of a fast path run on. They are skipped where
// it does not offer the path, unless MEMOPT_FAST_PATHS names it.
func pathDevice(t *testing.T, path string) (*vk.Physical, vulkan.Options) {
	t.Helper()
	gpu, o := device(t), vulkan.Options{FastPaths: []string{path}}
	if c := pathChoice(t, path, o.FastPaths, gpu); !c.Taken {
		if strings.Contains(os.Getenv("MEMOPT_FAST_PATHS"), path) {
			t.Fatal(c.Why)
		}
		t.Skip(c.Why)
	}
	return gpu, o
}

// matrixKind is a type that cooperative matrices hold, and the path for it.
type matrixKind struct {
	path, of string
	t        graph.DType
	rounding float64 // of what multiplies a second time
}

// ofMatrices runs a test of cooperative matrices for each type that they may hold. Where a device has those of float16 only, the kernels for
// bfloat16 are given these: all but the elements' range and rounding is the same, and tests have numbers that fit both.
func ofMatrices(t *testing.T, test func(t *testing.T, k matrixKind, gpu *vk.Physical, o vulkan.Options)) {
	for _, k := range []matrixKind{{vulkan.CooperativeMatrix, "f16", graph.Float16, 1.0 / (1 << 9)}, {vulkan.CooperativeBFloat16, "bf16", graph.BFloat16, 1.0 / (1 << 6)}} {
		t.Run(k.of, func(t *testing.T) {
			gpu, ran := device(t), func() int { return 1 }
			if k.t == graph.BFloat16 && len(gpu.BFloat16Matrices) == 0 && len(gpu.Matrices) > 0 {
				p := *gpu
				p.BFloat16Matrices, gpu = p.Matrices, &p
				ran = asFloat16(t)
			}
			if c := pathChoice(t, k.path, []string{k.path}, gpu); !c.Taken {
				if strings.Contains(os.Getenv("MEMOPT_FAST_PATHS"), vulkan.CooperativeMatrix) {
					t.Fatal(c.Why)
				}
				t.Skip(c.Why)
			}
			if test(t, k, gpu, vulkan.Options{FastPaths: []string{k.path}}); ran() == 0 {
				t.Error("no kernel for bfloat16 ran")
			}
		})
	}
}

// asFloat16 has the kernels for bfloat16 say that their elements are float16, for the length of a test. It returns how many were used so far.
func asFloat16(t *testing.T) func() int {
	used := 0
	const header, opExtension, opCapability, opTypeFloat = 5, 10, 17, 22
	const float16, bfloat16, bfloat16Matrices = 9, 5116, 5118 // capabilities
	for _, k := range lower.BFloat16Kernels() {
		right := k.Code
		t.Cleanup(func() { k.Code = right })
		k.Code = sync.OnceValue(func() []byte {
			used++
			code := right()
			out := slices.Clone(code[:4*header])
			for at := 4 * header; at < len(code); {
				word := func(i int) uint32 { return binary.LittleEndian.Uint32(code[at+4*i:]) }
				in := slices.Clone(code[at : at+int(4*(word(0)>>16))])
				switch op := word(0) & 0xffff; {
				case op == opCapability && word(1) == bfloat16:
					binary.LittleEndian.PutUint32(in[4:], float16)
				case op == opCapability && word(1) == bfloat16Matrices, op == opExtension && bytes.HasPrefix(in[4:], []byte("SPV_KHR_bfloat16\x00")):
					in = nil
				case op == opTypeFloat && word(2) == 16:
					binary.LittleEndian.PutUint32(in, 3<<16|opTypeFloat)
					in = in[:12]
				}
				out, at = append(out, in...), at+int(4*(word(0)>>16))
			}
			return out
		})
	}
	return func() int { return used }
}

// TestCooperativeProducts: products of 16-bit floats by cooperative matrices do what Eval
// does in all transposes, at sizes around a tile's, alone and in batches.
func TestCooperativeProducts(t *testing.T) {
	ofMatrices(t, func(t *testing.T, k matrixKind, gpu *vk.Physical, o vulkan.Options) {
		op, cases := productCases(t, k.of, [][3]int{{3, 17, 37}, {13, 33, 19}, {66, 2, 40}, {26, 70, 34}, {32, 64, 16}, {36, 20, 44}, {1, 1, 1}})
		conform(t, gpu, op, cases, o)
		gemm := kernels.Library.Find("", "Gemm", 0)
		conform(t, gpu, gemm, kernels.HalfCases(gemm, k.t), o)
	})
}

// TestCooperativeConvolutions: so do convolutions that are products.
func TestCooperativeConvolutions(t *testing.T) {
	ofMatrices(t, func(t *testing.T, k matrixKind, gpu *vk.Physical, o vulkan.Options) {
		for name, texts := range convolutionSamples() {
			t.Run(name, func(t *testing.T) {
				op := convolutionOp(name, texts[:3])
				conform(t, gpu, op, kernels.HalfCases(op, k.t), o)
			})
		}
		o.Groups = vulkan.GroupsShared // which gathers images while it multiplies
		for name, texts := range convolutionSides(append(variantShapes[:2:2], convolutionShapes{"5,16,20,20", "24,16,3,3", "5,24,20,20", "pads=[1, 1, 1, 1]"})) {
			t.Run(name+" gathered", func(t *testing.T) {
				op := convolutionOp(name, texts)
				cases := kernels.HalfCases(op, k.t)
				conform(t, gpu, op, cases, o)
				o := o
				o.Range = 16 << 10 // some samples at a time
				conform(t, gpu, op, cases[2:], o)
			})
		}
	})
}

// runProduct is the product of what fill gives by name and place.
func runProduct(t *testing.T, o vulkan.Options, types, attrs string, a, b [2]int, fill func(name string, i int) float64) *graph.Tensor {
	t.Helper()
	d, in := openedWith(t, o, fmt.Sprintf("x %[1]s[%[2]d, %[3]d] = input\ny %[1]s[%[4]d, %[5]d] = input\nz = com.microsoft.FusedMatMul(x, y)%[6]s @m\noutput z\n", types, a[0], a[1], b[0], b[1], attrs))
	for name, v := range in {
		for i := range v.Len() {
			v.SetFloat(i, fill(name, i))
		}
	}
	if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
		t.Fatal(err)
	}
	z, err := d.Output("z")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestCooperativeErrors: a sum is off by no more than sums of float32 in any order
// are, and by the rounding of the result: sums of float16 would be far outside, of
// many small numbers behind a large one and of what cancels.
func TestCooperativeErrors(t *testing.T) {
	_, o := pathDevice(t, vulkan.CooperativeMatrix)
	const m, n, k = 17, 35, 3000
	const half, single = 1.0 / (1 << 11), 1.0 / (1 << 24)
	for name, fill := range map[string]func(name string, i int) float64{
		"waves":      func(name string, i int) float64 { return math.Sin(float64(7*i + len(name))) },
		"one behind": func(_ string, i int) float64 { return float64(i%16+1) / 16 },
		"cancelling": func(name string, i int) float64 {
			if name == "x" {
				return float64(1-2*(i%2)) * (1 + float64(i%251)/251)
			}
			return 1 + float64(i/n%2)/1024
		},
		"tiny": func(string, int) float64 { return 3e-5 },
	} {
		x, y := graph.NewTensor(graph.Float16, m, k), graph.NewTensor(graph.Float16, k, n)
		for i := range x.Len() {
			x.SetFloat(i, fill("x", i))
		}
		for i := range y.Len() {
			y.SetFloat(i, fill("y", i))
		}
		z := runProduct(t, o, "f16", "", [2]int{m, k}, [2]int{k, n}, fill)
		for i := range m {
			for j := range n {
				sum, size := 0.0, 0.0
				for p := range k {
					v := x.Float(i*k+p) * y.Float(p*n+j)
					sum, size = sum+v, size+math.Abs(v)
				}
				got := z.Float(i*n + j)
				if most := k*single*size + half*math.Abs(sum) + 1.0/(1<<25); !(math.Abs(got-sum) <= most) {
					t.Fatalf("%s: element %d, %d is %v, not %v within %v", name, i, j, got, sum, most)
				}
			}
		}
	}
}

// TestCooperativeBits: a few rows have the bits that they have among others; what is
// no float16 has the bits that it has without the path.
func TestCooperativeBits(t *testing.T) {
	_, o := pathDevice(t, vulkan.CooperativeMatrix)
	const m, n, k, few = 70, 50, 45, 3
	wave := func(name string, i int) float64 { return math.Sin(float64(i + len(name))) }
	all := runProduct(t, o, "f16", "", [2]int{m, k}, [2]int{k, n}, wave)
	top := runProduct(t, o, "f16", "", [2]int{few, k}, [2]int{k, n}, wave)
	last := runProduct(t, o, "f16", "", [2]int{few, k}, [2]int{k, n}, func(name string, i int) float64 {
		if name == "x" {
			i += (m - few) * k
		}
		return wave(name, i)
	})
	if !bytes.HasPrefix(all.Bytes, top.Bytes) || !bytes.HasSuffix(all.Bytes, last.Bytes) {
		t.Error("a few rows have other bits alone than among others")
	}
	plain := vulkan.Options{FastPaths: []string{vulkan.FastPathsNone}}
	for _, types := range []string{"f32", "bf16"} {
		for _, attrs := range []string{"", " transB=1"} {
			b := [2]int{k, n}
			if attrs != "" {
				b = [2]int{n, k}
			}
			with, without := runProduct(t, o, types, attrs, [2]int{m, k}, b, wave), runProduct(t, plain, types, attrs, [2]int{m, k}, b, wave)
			if !bytes.Equal(with.Bytes, without.Bytes) {
				t.Errorf("%s%s: the path changes bits", types, attrs)
			}
		}
	}
}

// TestCooperativePlans: a step of float16 has the same loss and gradients, bit for
// bit, whatever is computed again.
func TestCooperativePlans(t *testing.T) {
	gpu, o := pathDevice(t, vulkan.CooperativeMatrix)
	const text = `x f16[40,48] = param
w f16[48,72] = param
v f16[72,24] = param
u f16[20,24] = param
places i64[40] = input
a = MatMul(x, w)
b = Gelu(a)
c = MatMul(b, v)
d = Tanh(c)
s = com.microsoft.FusedMatMul(d, u) transB=1
cost = SoftmaxCrossEntropyLoss(s, places)
output cost`
	step, _ := lossStep(t, text, kernels.Fusions)
	want, _ := stepBytes(t, gpu, step, planner.Request{Strategy: "keep-all"}, o)
	for name, r := range map[string]planner.Request{
		"all again": {Strategy: "recompute-all"}, "within 90 %": {ActivationBudget: planner.Size{Percent: 90}},
	} {
		got, again := stepBytes(t, gpu, step, r, o)
		if again == 0 {
			t.Errorf("%s: nothing is computed again", name)
		}
		for what, x := range got {
			if !bytes.Equal(want[what], x) {
				t.Errorf("%s: %s has other bits", name, what)
			}
		}
	}
}

// TestCooperativeAttention: attention of 16-bit floats by cooperative matrices does what Eval does, with and without biases, windows,
// keys that several heads share, transposed keys, and sizes around a tile's; so do its gradients, which take its logarithms.
func TestCooperativeAttention(t *testing.T) {
	ofMatrices(t, func(t *testing.T, k matrixKind, gpu *vk.Physical, o vulkan.Options) {
		o.Groups = vulkan.GroupsShared
		attentionByMatrices(t, k, gpu, o)
	})
}

func attentionByMatrices(t *testing.T, kind matrixKind, gpu *vk.Physical, o vulkan.Options) {
	b := must(graph.Bind(nil))
	op, back := *kernels.Library.Find("memopt", "FlashAttention", 0), *kernels.Library.Find("memopt", "FlashAttentionGrad", 0)
	op.Samples = append(op.Samples[:len(op.Samples):len(op.Samples)],
		"f32[2,70,20], f32[2,45,20], f32[2,45,12]; scale=0.3", "f32[2,3,33,16], f32[2,1,40,16], f32[2,1,40,24]; scale=0.25 right=0 fill=-1e30", "f32[4,70,8], f32[4,70,8], f32[4,70,8]; left=9 right=3 fill=-1e30")
	cases := kernels.HalfCases(&op, kind.t)
	conform(t, gpu, &op, cases, o)
	back.Samples = nil
	var forward []kernels.Case
	for _, c := range cases {
		q, k, v, y := c.In[0], c.In[1], c.In[2], must(b.Shape(c.Node.Outputs[0].Shape))
		if q.Len()*k.Len() == 0 {
			continue
		}
		_, attrs, _ := strings.Cut(c.Text, ";")
		shapes, bias := "", ""
		for _, s := range [][]int{y, q.Shape, k.Shape, v.Shape, y} {
			shapes += kind.of + strings.ReplaceAll(fmt.Sprint(s), " ", ",") + ", "
		}
		if len(c.In) > 3 && c.In[3] != nil {
			bias = ", " + kind.of + strings.ReplaceAll(fmt.Sprint(c.In[3].Shape), " ", ",")
		}
		shapes += "f32" + strings.ReplaceAll(fmt.Sprint(append(append([]int{}, q.Shape[:len(q.Shape)-1]...), 1)), " ", ",")
		back.Samples, forward = append(back.Samples, shapes+bias+"; "+strings.TrimSpace(attrs)), append(forward, c)
	}
	backs := must(kernels.Cases(&back))
	for i, c := range forward {
		copy(backs[i].In[1:4], c.In[:3])
		if len(backs[i].In) > 6 {
			backs[i].In[6] = c.In[3]
		}
		copy(backs[i].In[4:6], eval(t, b, c))
	}
	// What multiplies a second time is rounded to 16 bits before; a path may be off by as much where it is verified.
	conformWithin(t, gpu, &back, backs, o, kind.rounding)
}
