package planner_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// BenchmarkMake plans GPTs of several depths.
func BenchmarkMake(b *testing.B) {
	for _, layers := range []int{2, 6, 24, 96} {
		g := step(b, zoo.Spec{Family: "gpt", Layers: layers})
		for _, percent := range []float64{100, 50} {
			r := planner.Request{Dims: map[string]int64{"batch": 8, "seq": 128}, ActivationBudget: planner.Size{Percent: percent}}
			b.Run(fmt.Sprintf("layers=%d/budget=%v%%", layers, percent), func(b *testing.B) {
				var p *planner.Plan
				var err error
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

// BenchmarkTrial simulates what steps run again under half their arena: the peak alone,
// and every life. It tells the processor's time of a launch.
func BenchmarkTrial(b *testing.B) {
	for _, c := range []struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		{zoo.Spec{Family: "gpt", Layers: 6}, map[string]int64{"batch": 8, "seq": 128}},
		{zoo.Spec{Family: "gpt", Layers: 48}, map[string]int64{"batch": 8, "seq": 128}},
		{zoo.Spec{Family: "gpt", Layers: 96}, map[string]int64{"batch": 8, "seq": 128}},
		{zoo.Spec{Family: "resnet", Layers: 3}, map[string]int64{"batch": 8}},
	} {
		g := step(b, c.spec)
		p, err := planner.Make(g, planner.Request{Dims: c.dims, ActivationBudget: planner.Size{Percent: 50}})
		if err != nil {
			b.Fatal(err)
		}
		for _, row := range []struct {
			name string
			do   func() int
		}{
			{"lives", p.Simulate},
		} {
			b.Run(fmt.Sprintf("%s-%dL/%s", c.spec.Family, c.spec.Layers, row.name), func(b *testing.B) {
				launches := 0
				begin := processor()
				for b.Loop() {
					launches += row.do()
				}
				b.ReportMetric((processor()-begin)*1e9/float64(launches), "cpu-ns/launch")
			})
		}
	}
}

// processor is the seconds that this process has used of any core.
func processor() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// BenchmarkLargest looks for the largest batch of GPTs of several depths.
func BenchmarkLargest(b *testing.B) {
	for _, layers := range []int{12, 48} {
		g := step(b, zoo.Spec{Family: "gpt", Layers: layers})
		for _, gib := range []int64{1, 4} {
			r := planner.Request{Dims: map[string]int64{"seq": 128}, Budget: planner.Size{Bytes: gib << 30}}
			b.Run(fmt.Sprintf("layers=%d/budget=%dGiB", layers, gib), func(b *testing.B) {
				var p *planner.Plan
				var err error
				for b.Loop() {
					if p, err = planner.Largest(g, r, "batch", 0); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(p.Request.Dims["batch"]), "batch")
			})
		}
	}
}

// long is a step of n nodes whose backward third reads values of many sizes
// that the forward third made, in reverse.
func long(t testing.TB, n int) *graph.Graph {
	g := graph.New(kernels.Library, "long")
	d := graph.NewBuilder(g)
	var inputs []*graph.Value
	for i := range 64 {
		x, err := d.Define(graph.Input, "", graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(int64(8 * (i + 1)))})
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, x)
	}
	err := graph.Try(func() {
		var values []*graph.Value
		for i := range n / 3 {
			values = append(values, d.Op("Tanh", nil, inputs[i*7919%len(inputs)]))
		}
		d.Phase = graph.Backward
		sum := d.Num(graph.Float32, 0)
		for _, v := range slices.Backward(values) {
			sum = d.Op("Add", nil, sum, d.Op("ReduceMean", graph.A{"keepdims": 0}, v))
		}
		g.Outputs = []*graph.Value{sum}
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
}
