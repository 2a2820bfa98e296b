package kernels_test

import (
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
)

// loweredTwice is a sample's lowering for plans, and for a device of some limits.
func loweredTwice(t *testing.T, domain, name, sample string, b *graph.Binding, limits graph.Limits) (plain, l *graph.Lowering) {
	op := *kernels.Library.Find(domain, name, 0)
	op.Samples = []string{sample}
	cases, err := kernels.Cases(&op)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err = graph.Lower(cases[0].Node, b, graph.PlanLimits); err != nil {
		t.Fatal(err)
	}
	if l, err = graph.Lower(cases[0].Node, b, limits); err != nil || l.Refused != "" {
		t.Fatal(sample, err, l.Refused)
	}
	return plain, l
}

// TestCooperates: where a device multiplies matrices of float16 or bfloat16 at once, products of
// two of these are computed so, whatever their sizes are, and no others.
func TestCooperates(t *testing.T) {
	limits := graph.PlanLimits
	limits.Matrices.Float16 = [3]int{16, 16, 16}
	both := limits
	both.Matrices.BFloat16 = [3]int{16, 8, 16}
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, sample string
		want         bool
	}{
		{"MatMul", "bf16[70,40], bf16[40,50]", true}, {"Gemm", "bf16[7,9], bf16[8,9], bf16[8]; transB=1 beta=0.5", true}, {"Conv", "bf16[2,16,23,23], bf16[32,16,3,3]", true},
		{"MatMul", "f16[70,40], f16[40,50]", true}, {"MatMul", "f32[70,40], f32[40,50]", false},
	} {
		_, l := loweredTwice(t, "", c.name, c.sample, b, both)
		found, of := 0, strings.HasPrefix(c.sample, "bf16")
		for _, d := range l.Dispatches {
			if strings.HasPrefix(d.Kernel.Name, "product-cooperative") && strings.HasSuffix(d.Kernel.Name, "-bfloat16") == of {
				found++
			}
		}
		if c.want != (found > 0) {
			t.Errorf("%s %s on a device with both: %d products by cooperative matrices of its type", c.name, c.sample, found)
		}
	}
	for _, c := range []struct {
		name, sample string
		want         bool
	}{
		{"MatMul", "f16[70,40], f16[40,50]", true}, {"MatMul", "f16[1,3], f16[3,1]", true}, {"MatMul", "f16[2,7,333], f16[333,65]", true},
		{"Gemm", "f16[7,9], f16[8,9], f16[8]; transB=1 beta=0.5", true},
		{"Conv", "f16[2,32,23,23], f16[64,32,1,1], f16[64]", true}, {"Conv", "f16[2,16,23,23], f16[32,16,3,3]", true}, {"Conv", "f32[2,16,23,23], f32[32,16,3,3]", false},
		{"MatMul", "f32[70,40], f32[40,50]", false}, {"MatMul", "bf16[70,40], bf16[40,50]", false},
	} {
		plain, l := loweredTwice(t, "", c.name, c.sample, b, limits)
		found, products := 0, 0
		for _, d := range l.Dispatches {
			if strings.HasPrefix(d.Kernel.Name, "product-") {
				products++
			}
			if strings.HasPrefix(d.Kernel.Name, "product-cooperative") {
				found++
			}
		}
		if products == 0 || c.want != (found == products) || c.want != (found > 0) {
			t.Errorf("%s %s: %d of %d products by cooperative matrices", c.name, c.sample, found, products)
		}
		if l.Scratch != plain.Scratch {
			t.Errorf("%s %s: work space of %d bytes, and the plan has %d", c.name, c.sample, l.Scratch, plain.Scratch)
		}
	}
}

// TestCooperativeGathers: where groups share memory, too, convolutions of two float16 gather their image for cooperative matrices, by
// all sides, and attention of float16 takes them, without more work space than plans have.
func TestCooperativeGathers(t *testing.T) {
	limits := graph.Limits{Subgroup: 32, Range: 1<<32 - 1, Groups: [3]int{1<<31 - 1, 65535, 65535}, Int64: true, Shared: true, Invocations: 1024, SharedBytes: 48 << 10}
	limits.Matrices.Float16 = [3]int{16, 16, 16}
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ domain, name, sample string }{
		{"", "Conv", "f16[2,16,23,23], f16[32,16,3,3]; pads=[1, 1, 1, 1]"},
		{"memopt", "ConvGradX", "f16[2,32,23,23], f16[32,16,3,3], i64{2,16,23,23}; pads=[1, 1, 1, 1]"},
		{"memopt", "ConvGradW", "f16[2,32,23,23], f16[2,16,23,23], i64{32,16,3,3}; pads=[1, 1, 1, 1]"},
		{"memopt", "FlashAttention", "f16[2,70,64], f16[2,45,64], f16[2,45,64]"},
		{"memopt", "FlashAttention", "f32[2,70,64], f32[2,45,64], f32[2,45,64]"},
		{"memopt", "FlashAttentionGrad", "f16[2,70,64], f16[2,70,64], f16[2,45,64], f16[2,45,64], f16[2,70,64], f32[2,70,1]"},
		{"memopt", "FlashAttentionGrad", "f16[2,70,128], f16[2,70,128], f16[2,45,128], f16[2,45,128], f16[2,70,128], f32[2,70,1]"},
		{"memopt", "FlashAttentionGrad", "f32[2,70,64], f32[2,70,64], f32[2,45,64], f32[2,45,64], f32[2,70,64], f32[2,70,1]"},
		{"memopt", "ConvGradW", "f32[2,32,23,23], f32[2,16,23,23], i64{32,16,3,3}; pads=[1, 1, 1, 1]"},
	} {
		plain, l := loweredTwice(t, c.domain, c.name, c.sample, b, limits)
		found, other := false, 0 // what does not multiply: sums over parts, and those of rows
		for _, d := range l.Dispatches {
			found = found || strings.Contains(d.Kernel.Name, "-cooperative")
			if strings.HasPrefix(d.Kernel.Name, "flash-") && !strings.Contains(d.Kernel.Name, "-cooperative") && d.Kernel.Name != "flash-dots-half" {
				other++
			}
		}
		if found && other > 0 {
			t.Errorf("%s %s: %d parts without cooperative matrices", c.name, c.sample, other)
		}
		if found != strings.HasPrefix(c.sample, "f16") || l.Scratch > plain.Scratch {
			t.Errorf("%s %s: cooperative matrices %v, work space %d of %d", c.name, c.sample, found, l.Scratch, plain.Scratch)
		}
	}
}
