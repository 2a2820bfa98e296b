package vulkan_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/graph"
	"memopt/planner"
)

// TestProducts: every tile does what Eval does in all transposes, at sizes
// around its own, whole and odd, alone and in batches; the larger odd ones are
// laid out anew, by strips and some of the batch at a time.
func TestProducts(t *testing.T) {
	gpu := device(t)
	small := [][3]int{{3, 17, 37}, {13, 33, 19}, {66, 2, 40}, {26, 70, 34}}
	for groups, sizes := range map[string][][3]int{
		vulkan.GroupsAlone:  append(small, [3]int{300, 65, 333}, [3]int{65, 1300, 201}),
		vulkan.GroupsShared: small,
	} {
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

// TestProductBits: an element has the same bits whichever tile it is computed in,
// and whether or not its lines are laid out anew: a few rows alone are those of
// many.
func TestProductBits(t *testing.T) {
	const m, n, k, few = 200, 77, 131, 3
	product := func(rows int) []byte {
		d, in := opened(t, fmt.Sprintf("x f32[%d, %d] = input\ny f32[%d, %d] = input\nz = MatMul(x, y) @m\noutput z\n", rows, k, k, n))
		for _, x := range in {
			for i := range x.Len() {
				x.SetFloat(i, math.Sin(float64(i)))
			}
		}
		if _, err := d.Run(planner.Run{Inputs: in}); err != nil {
			t.Fatal(err)
		}
		z, err := d.Output("z")
		if err != nil {
			t.Fatal(err)
		}
		return z.Bytes
	}
	many, alone := product(m), product(few)
	if !bytes.Equal(many[:len(alone)], alone) {
		t.Error("a few rows have other bits alone than among others")
	}
}
