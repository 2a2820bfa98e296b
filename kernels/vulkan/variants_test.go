package vulkan_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// preferring is a picker of one variant where there is a choice; it notes all that could be chosen.
func preferring(name string, seen map[string]bool) *graph.Picker {
	return &graph.Picker{All: true, Pick: func(p graph.Pick) string {
		for _, v := range p.Variants {
			seen[v] = true
		}
		return name
	}}
}

// variantBytes is the outputs of a program, with one variant where there is a choice.
func variantBytes(t *testing.T, o vulkan.Options, text, name string, seen map[string]bool) (all []byte) {
	o.Picker = preferring(name, seen)
	d, in := openedWith(t, o, text)
	defer d.Close()
	for _, v := range in {
		for i := range v.Len() {
			v.SetFloat(i, math.Sin(float64(i)))
		}
	}
	if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "output "); ok {
			all = append(all, must(d.Output(name)).Bytes...)
		}
	}
	return all
}

// TestVariants: every variant of a kernel gives the same bits, at sizes around and between its tiles, and they
// are those of Eval.
func TestVariants(t *testing.T) {
	gpu := device(t)
	for _, groups := range []string{vulkan.GroupsAlone, vulkan.GroupsShared} {
		t.Run(groups, func(t *testing.T) {
			seen := map[string]bool{}
			for _, text := range variantSamples {
				run := func(name string) []byte { return variantBytes(t, vulkan.Options{Groups: groups}, text, name, seen) }
				first := run("")
				if again := run(""); !bytes.Equal(first, again) {
					t.Errorf("%s: other bits the second time", text)
				}
				here := map[string]bool{}
				for name := range seen {
					here[name] = true
				}
				for name := range here {
					if got := run(name); !bytes.Equal(got, first) {
						t.Errorf("%s: variant %s has other bits", text, name)
					}
				}
			}
			least := map[string]int{vulkan.GroupsAlone: 3, vulkan.GroupsShared: 9}[groups]
			if len(seen) < least {
				t.Errorf("only %d variants were seen: %v", len(seen), seen)
			}
			names := slices.Sorted(func(yield func(string) bool) {
				for name := range seen {
					if !yield(name) {
						return
					}
				}
			})
			t.Log(strings.Join(names, " "))
			if groups == vulkan.GroupsShared {
				for _, name := range names {
					if !strings.HasPrefix(name, "tiled") {
						continue // other tests have the ordinary one, and all have its bits
					}
					t.Run(name, func(t *testing.T) {
						o := vulkan.Options{Groups: groups, Picker: preferring(name, seen)}
						op, cases := productCases(t, "f32", [][3]int{{130, 129, 37}, {128, 128, 32}})
						conform(t, gpu, op, cases, o)
						for op, texts := range convolutionSides(variantShapes) {
							op := convolutionOp(op, texts)
							cases, err := kernels.Cases(op)
							if err != nil {
								t.Fatal(err)
							}
							conform(t, gpu, op, append(cases[:len(cases):len(cases)], kernels.HalfCases(op, graph.BFloat16)[:1]...), o)
						}
					})
				}
			}
		})
	}
}

// TestCooperativeVariants: so do those of kernels with cooperative matrices.
func TestCooperativeVariants(t *testing.T) {
	_, o := pathDevice(t, vulkan.CooperativeMatrix)
	half := func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "l f32[", "l F32["), "f32[", "f16[")
	}
	for _, groups := range []string{vulkan.GroupsAlone, vulkan.GroupsShared} {
		seen, texts := map[string]bool{}, variantSamples[:9]
		if groups == vulkan.GroupsAlone {
			texts = variantSamples[:3] // convolutions are products there, and attention has no matrices
		}
		for _, text := range texts {
			text = strings.ReplaceAll(half(text), "F32[", "f32[")
			o.Groups = groups
			here := map[string]bool{}
			first := variantBytes(t, o, text, "", here)
			for _, name := range []string{"matrices-1", "matrices-4", "subgroups-2", "subgroups-8"} {
				if seen[name] = seen[name] || here[name]; !here[name] {
					continue
				}
				if got := variantBytes(t, o, text, name, here); !bytes.Equal(got, first) {
					t.Errorf("%s: variant %s has other bits", text, name)
				}
			}
		}
		for _, name := range []string{"matrices-1", "matrices-4"} {
			if !seen[name] {
				t.Errorf("%s: variant %s was not tried", groups, name)
			}
		}
		if groups == vulkan.GroupsShared && !(seen["subgroups-2"] && seen["subgroups-8"]) {
			t.Errorf("variants of attention were not tried: %v", seen)
		}
	}
}

// variantShapes are convolutions with odd sizes, strides, dilations, groups, and one and three axes.
var variantShapes = []convolutionShapes{
	{"2,17,11,13", "33,17,3,3", "2,33,6,7", "pads=[1, 1, 1, 1] strides=[2, 2]"},
	{"1,32,16,17", "64,16,3,2", "1,64,15,15", "pads=[1, 0, 2, 1] dilations=[2, 3] group=2"},
	{"1,16,9,12,10", "32,8,2,3,3", "1,32,4,6,10", "strides=[2, 2, 1] pads=[1, 0, 1, 0, 2, 1] dilations=[2, 1, 1] group=2"},
}

var variantSamples = []string{
	"x f32[130, 37] = input\ny f32[37, 200] = input\nz = MatMul(x, y) @m\noutput z\n",
	"x f32[37, 130] = input\ny f32[200, 37] = input\nz = com.microsoft.FusedMatMul(x, y) transA=1 transB=1 @m\noutput z\n",
	"x f32[3, 128, 64] = input\ny f32[3, 64, 128] = input\nz = MatMul(x, y) @m\noutput z\n",
	convolutionText("Conv", "3,20,13,11", "40,20,3,3", ""),
	convolutionText("memopt.ConvGradX", "3,40,13,11", "40,20,3,3", "{3, 20, 13, 11}"),
	"q f32[2, 3, 70, 20] = input\nk f32[2, 1, 45, 20] = input\nv f32[2, 1, 45, 12] = input\nz, l = memopt.FlashAttention(q, k, v) scale=0.3 @a\noutput z\noutput l\n",
	flashGradText + "right=0 fill=-1e30 @a\noutput a\noutput b\noutput c\n",
	flashGradText + "left=9 right=3 fill=-1e30 @a\noutput a\noutput b\noutput c\n",
	convolutionText("memopt.ConvGradW", "3,40,30,31", "3,20,30,31", "{40, 20, 3, 3}"),
	"x f32[900, 210] = input\na i64[1] = const {0}\ny = ReduceSum(x, a) keepdims=0\noutput y\n",
	"x f32[50, 20000] = input\na i64[1] = const {0}\ny = ReduceMax(x, a) keepdims=0\noutput y\n",
	"x f32[9, 2, 3, 15] = input\nd f32[9, 2, 3, 15] = input\ns f32[2, 3, 1] = input\na, e, f = memopt.LayerNormalizationGrad(d, x, s, s) axis=2\noutput a\noutput e\noutput f\n",
	"x f32[2, 20004] = input\nd f32[2, 20004] = input\ns f32[20004] = input\na, e = memopt.RMSNormalizationGrad(d, x, s)\noutput a\noutput e\n",
	"x f32[70, 20] = input\nd f32[70, 20] = input\ny = Softmax(x)\nz = com.microsoft.SoftmaxGrad_13(d, y)\noutput y\noutput z\n",
	"x f32[2, 40004] = input\nd f32[2, 40004] = input\ny = LogSoftmax(x)\nz = com.microsoft.LogSoftmaxGrad_13(d, y)\noutput y\noutput z\n",
	"x f32[3, 40005] = input\ns f32[40005] = input\nl i64[3] = const {7,40004,0}\no f32[] = input\ny = RMSNormalization(x, s)\nz = memopt.SoftmaxCrossEntropyLossGrad(o, x, l)\nc, p = SoftmaxCrossEntropyLoss(x, l)\noutput y\noutput z\noutput p\n",
	"x f32[2, 3, 200, 100] = input\nd f32[2, 3, 200, 100] = input\ns f32[3] = input\nm f32[3] = input\nv f32[3] = input\n" +
		"y, n, w = BatchNormalization(x, s, s, m, v) training_mode=1\na, b, c = memopt.BatchNormalizationGrad(d, x, s) training_mode=1\noutput y\noutput a\noutput b\noutput c\n",
}

const flashGradText = "d f32[4, 70, 12] = input\nq f32[4, 70, 20] = input\nk f32[4, 70, 20] = input\nv f32[4, 70, 12] = input\ny f32[4, 70, 12] = input\nl f32[4, 70, 1] = input\n" +
	"a, b, c = memopt.FlashAttentionGrad(d, q, k, v, y, l) scale=0.3 "

func convolutionText(op, x, y, shape string) string {
	in, made := "x, y", ""
	if shape != "" {
		in, made = "x, y, s", "s i64[4] = const "+strings.ReplaceAll(shape, " ", "")+"\n"
	}
	return fmt.Sprintf("x f32[%s] = input\ny f32[%s] = input\n%sz = %s(%s) pads=[1, 1, 1, 1] @c\noutput z\n", x, y, made, op, in)
}
