package planner_test

import (
	"fmt"
	"testing"
	"time"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/memopt/zoo"
	"memopt/planner"
)

// BenchmarkMake plans GPTs of several depths.
func BenchmarkMake(b *testing.B) {
	for _, layers := range []int{2, 6, 24, 96} {
		g, err := zoo.New(zoo.Spec{Family: "gpt", Layers: layers}, kernels.Library)
		if err != nil {
			b.Fatal(err)
		}
		if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "adamw"}); err != nil {
			b.Fatal(err)
		}
		for _, percent := range []float64{100, 50} {
			r := planner.Request{Dims: map[string]int64{"batch": 8, "seq": 128}, ActivationBudget: planner.Size{Percent: percent}}
			b.Run(fmt.Sprintf("layers=%d/budget=%v%%", layers, percent), func(b *testing.B) {
				var p *planner.Plan
				for b.Loop() {
					if p, err = planner.Make(g, r); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(g.Nodes)), "nodes")
				b.ReportMetric(100*p.Result.Overhead, "%extra")
			})
		}
	}
}

// long is a step of about n nodes whose backward half reads the forward half.
func long(t testing.TB, n int) *graph.Graph {
	g := graph.New(kernels.Library, "long")
	d := graph.NewBuilder(g)
	x, err := d.Define(graph.Input, "x", graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(64)})
	if err != nil {
		t.Fatal(err)
	}
	err = graph.Try(func() {
		values := []*graph.Value{x}
		for range n / 2 {
			values = append(values, d.Op("Tanh", nil, values[len(values)-1]))
		}
		d.Phase = graph.Backward
		last := values[len(values)-1]
		for i := len(values) - 1; i > 0; i-- {
			last = d.Op("Mul", nil, values[i], last)
		}
		g.Outputs = []*graph.Value{last}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLongGraph plans and checks 100 000 nodes, where everything is kept.
func TestLongGraph(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	g := long(t, 100_000)
	begin := time.Now()
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("planned in %v", time.Since(begin))
	begin = time.Now()
	if err := planner.Check(p); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("checked in %v", took)
	if took > 4*time.Second {
		t.Errorf("the check took %v", took)
	}
	if want := int64(50_001 * 512); p.Result.Peak > want {
		t.Errorf("peak %d, want %d at most", p.Result.Peak, want)
	}
}
