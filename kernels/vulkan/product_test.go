package vulkan_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
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
			op, cases := productCases(t, "f32", sizes)
			conform(t, gpu, op, cases, vulkan.Options{Groups: groups})
			t.Run(vulkan.BufferAddresses, func(t *testing.T) {
				_, o := pathDevice(t, vulkan.BufferAddresses)
				o.Groups = groups
				conform(t, gpu, op, cases, o)
			})
			gemm := kernels.Library.Find("", "Gemm", 0)
			cases, err := kernels.Cases(gemm)
			if err != nil {
				t.Fatal(err)
			}
			conform(t, gpu, gemm, append(cases, kernels.HalfCases(gemm, graph.BFloat16)...), vulkan.Options{Groups: groups})
		})
	}
}

// productCases are products of sizes m, n and k in all transposes, alone and in
// batches.
func productCases(t *testing.T, types string, sizes [][3]int) (*graph.Op, []kernels.Case) {
	t.Helper()
	op := *kernels.Library.Find("com.microsoft", "FusedMatMul", 0)
	op.Samples = nil
	for _, s := range sizes {
		for _, batch := range []string{"", "3,"} {
			for _, form := range []string{
				"%[1]s[%[2]s%[3]d,%[5]d], %[1]s[%[2]s%[5]d,%[4]d]",
				"%[1]s[%[2]s%[3]d,%[5]d], %[1]s[%[4]d,%[5]d]; transB=1",
				"%[1]s[%[2]s%[5]d,%[3]d], %[1]s[%[2]s%[5]d,%[4]d]; transA=1 alpha=0.5",
				"%[1]s[%[2]s%[5]d,%[3]d], %[1]s[%[2]s%[4]d,%[5]d]; transA=1 transB=1",
			} {
				op.Samples = append(op.Samples, fmt.Sprintf(form, types, batch, s[0], s[1], s[2]))
			}
		}
	}
	cases, err := kernels.Cases(&op)
	if err != nil {
		t.Fatal(err)
	}
	return &op, cases
}

// TestProductBits: an element has the same bits whichever tile it is computed in,
// whether or not B is taken by strips, and whether or not its lines are laid out
// anew, as odd ones are and those that are pages apart: the first and the last rows
// alone are those of all.
func TestProductBits(t *testing.T) {
	const few = 3
	for _, c := range []struct {
		m, n, k        int
		transA, transB bool
	}{
		{m: 200, n: 77, k: 131},
		{m: 64, n: 2050, k: 160, transB: true},
		{m: 256, n: 1024, k: 256},
		{m: 256, n: 256, k: 1024, transB: true},
		{m: 1024, n: 256, k: 320, transA: true},
		{m: 1024, n: 1024, k: 320, transA: true},
	} {
		product := func(first, rows int) []byte {
			x, y := [2]int{rows, c.k}, [2]int{c.k, c.n}
			attrs := ""
			if c.transA {
				x, attrs = [2]int{c.k, rows}, " transA=1"
			}
			if c.transB {
				y, attrs = [2]int{c.n, c.k}, attrs+" transB=1"
			}
			d, in := opened(t, fmt.Sprintf("x f32[%d, %d] = input\ny f32[%d, %d] = input\nz = com.microsoft.FusedMatMul(x, y)%s @m\noutput z\n", x[0], x[1], y[0], y[1], attrs))
			for name, v := range in {
				for i := range v.Len() {
					at := i
					switch {
					case name == "x" && c.transA:
						at = (first+i%rows)*c.k + i/rows
					case name == "x":
						at = first*c.k + i
					}
					v.SetFloat(i, math.Sin(float64(at)))
				}
			}
			if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
				t.Fatal(err)
			}
			z, err := d.Output("z")
			if err != nil {
				t.Fatal(err)
			}
			return z.Bytes
		}
		all, top, bottom := product(0, c.m), product(0, few), product(c.m-few, few)
		if !bytes.HasPrefix(all, top) || !bytes.HasSuffix(all, bottom) {
			t.Errorf("%+v: a few rows have other bits alone than among others", c)
		}
	}
}
