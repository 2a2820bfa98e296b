package devices

import (
	"slices"
	"testing"

	"memopt/internal/graph"
	"memopt/planner"
	"memopt/planner/profile"
)

// TestProbes: probes are operators that devices run by kernels, and together they make a profile which prices products, convolutions
// and attention in both directions by a rate for each type that was measured.
func TestProbes(t *testing.T) {
	p := &profile.Profile{Format: profile.Format, Name: "test", Source: "measured", Bandwidth: map[string]float64{}, Rates: map[string]map[string]float64{}}
	for i, x := range slices.Concat(probes, probesOfReferences, probesOfKernels) {
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
	for _, class := range []graph.KernelClass{graph.ProductKernel, graph.ConvolutionKernel, graph.AttentionKernel, graph.AttentionBackwardKernel} {
		price := func(of graph.DType) int64 {
			return p.Price(profile.Work{Kernel: class, Type: of, Calls: 1, Flops: 1 << 40}).Device
		}
		if single, half := price(graph.Float32), price(graph.Float16); single == half || price(graph.BFloat16) != single {
			t.Errorf("%s takes %d of float32, %d of float16 and %d of bfloat16", class, single, half, price(graph.BFloat16))
		}
	}
	backward := profile.Work{Kernel: graph.AttentionBackwardKernel, Type: graph.Float32, Calls: 1, Flops: 1 << 40}
	forward := backward
	forward.Kernel = graph.AttentionKernel
	if p.Price(backward) == p.Price(forward) {
		t.Error("attention has one rate for both directions")
	}
	if delete(p.Rates, graph.AttentionBackwardKernel.String()); p.Price(backward) != p.Price(forward) {
		t.Error("where the rate of attention's backward pass is not known, attention's does not stand for it")
	}
}
