package vulkan_test

import (
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/kernels/vulkan"
)

// TestNormGradients: gradients of rows that fit registers and of wider ones, in one part and several, do what Eval does
// where groups share memory.
func TestNormGradients(t *testing.T) {
	gpu := device(t)
	for name, samples := range map[string][]string{
		"memopt.LayerNormalizationGrad": {
			"f32[300,100], f32[300,100], f32[100], f32[100]", "f32[700,256], f32[700,256], f32[256], f32[256] -> _, s, b", "f32[70,256], f32[70,256], f32[256], f32[256] -> x, _, b",
			"f32[130,1028], f32[130,1028], f32[1028], f32[1028]", "f32[9,12], f32[9,12], f32[12] -> x",
		},
		"memopt.RMSNormalizationGrad":                    {"f32[300,100], f32[300,100], f32[100]", "f32[5,60,4], f32[5,60,4], f32[4]"},
		"com.microsoft.LayerNormalizationGrad":           {"f32[300,64], f32[300,64], f32[64], f32[300,1], f32[300,1]"},
		"com.microsoft.SimplifiedLayerNormalizationGrad": {"f32[300,64], f32[300,64], f32[64], f32[300,1]"},
	} {
		t.Run(name, func(t *testing.T) {
			domain, op := "memopt", name[len("memopt."):]
			if name[:3] == "com" {
				domain, op = "com.microsoft", name[len("com.microsoft."):]
			}
			x := *kernels.Library.Find(domain, op, 0)
			x.Samples = samples
			cases := must(kernels.Cases(&x))
			conform(t, gpu, &x, append(cases[:len(cases):len(cases)], kernels.HalfCases(&x, graph.BFloat16)[:1]...), vulkan.Options{Groups: vulkan.GroupsShared})
		})
	}
}
