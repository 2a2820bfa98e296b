package devices

import (
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/planner"
	"memopt/planner/profile"
)

// TestProbes: probes are operators that devices run by kernels, and together they make a profile which prices products, convolutions
// and attention by a rate for each type that was measured.
func TestProbes(t *testing.T) {
	p := &profile.Profile{Format: profile.Format, Name: "test", Source: "measured", Bandwidth: map[string]float64{}, Rates: map[string]map[string]float64{}}
	for i, x := range slices.Concat(probes, probesOfKernels) {
		g, _, err := x.graph()
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		plan, err := planner.Make(g, planner.Request{Strategy: "keep-all", Lowered: true})
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		b, err := graph.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		low, err := graph.Lower(plan.Graph.Nodes[0], b, graph.PlanLimits)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if low.Refused != "" {
			t.Errorf("%s has no kernel: %s", x.name, low.Refused)
		}
		x.tells(p, 1000*float64(i+1), plan.Work(x.name))
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	for _, class := range []graph.KernelClass{graph.ProductKernel, graph.ConvolutionKernel, graph.AttentionKernel} {
		price := func(of graph.DType) int64 {
			return p.Price(profile.Work{Kernel: class, Type: of, Calls: 1, Flops: 1 << 40}).Device
		}
		if single, half := price(graph.Float32), price(graph.Float16); single == half || price(graph.BFloat16) != single {
			t.Errorf("%s takes %d of float32, %d of float16 and %d of bfloat16", class, single, half, price(graph.BFloat16))
		}
	}
}
