package vulkan_test

import (
	"fmt"
	"testing"

	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/graph"
)

// TestProducts: every tile does what Eval does in all transposes, at sizes
// around its own, whole and odd, alone and in batches.
func TestProducts(t *testing.T) {
	gpu := device(t)
	sizes := [][3]int{{3, 17, 37}, {13, 33, 19}, {66, 2, 40}, {26, 70, 34}}
	for _, groups := range []string{vulkan.GroupsAlone, vulkan.GroupsShared} {
		t.Run(groups, func(t *testing.T) {
			op := *kernels.Library.Find("com.microsoft", "FusedMatMul", 0)
			op.Samples = nil
			for _, s := range sizes {
				m, n, k := s[0], s[1], s[2]
				for _, batch := range []string{"", "3,"} {
					op.Samples = append(op.Samples,
						fmt.Sprintf("f32[%s%d,%d], f32[%s%d,%d]", batch, m, k, batch, k, n),
						fmt.Sprintf("f32[%s%d,%d], f32[%d,%d]; transB=1", batch, m, k, n, k),
						fmt.Sprintf("f32[%s%d,%d], f32[%s%d,%d]; transA=1 alpha=0.5", batch, k, m, batch, k, n),
						fmt.Sprintf("f32[%s%d,%d], f32[%s%d,%d]; transA=1 transB=1", batch, k, m, batch, n, k))
				}
			}
			cases, err := kernels.Cases(&op)
			if err != nil {
				t.Fatal(err)
			}
			conform(t, gpu, &op, cases, vulkan.Options{Groups: groups})
			gemm := kernels.Library.Find("", "Gemm", 0)
			if cases, err = kernels.Cases(gemm); err != nil {
				t.Fatal(err)
			}
			conform(t, gpu, gemm, append(cases, kernels.HalfCases(gemm, graph.BFloat16)...), vulkan.Options{Groups: groups})
		})
	}
}
