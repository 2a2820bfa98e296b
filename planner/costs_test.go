package planner_test

import (
	"math"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestCosts: rates scale costs and leave shares alone if all are one; what was
// not measured has the rate of the rest; a node that is dear on the device is
// not run again if others can be.
func TestCosts(t *testing.T) {
	g := step(t, zoo.Spec{Family: "gpt", Layers: 2, Width: 32, Heads: 2, Vocab: 50})
	r := planner.Request{Dims: map[string]int64{"batch": 4, "seq": 24}, ActivationBudget: planner.Size{Percent: 80}}
	plain, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	units := plain.PlainCosts()
	same := map[string]float64{}
	for i, n := range g.Nodes {
		if units[n.Name] > 0 && i%3 > 0 {
			same[n.Name] = 1e-9
		}
	}
	r.Costs = same
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.Result.Overhead-plain.Result.Overhead) > 1e-9 || p.Arena != plain.Arena {
		t.Errorf("at one rate for all the plan has %d at %v, not %d at %v", p.Arena, p.Result.Overhead, plain.Arena, plain.Result.Overhead)
	}
	for _, x := range []*planner.Plan{plain, p} {
		if err := x.Tabulate(); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := p.Selection.Cost, plain.Selection.Cost; b == 0 || math.Abs(a-b) > 1e-9 {
		t.Errorf("at one rate for all what runs again costs %v of the step, not %v", a, b)
	}
	for i, row := range p.Clusters {
		if a, b := row.Cost, plain.Clusters[i].Cost; math.Abs(a-b) > 1e-9 {
			t.Errorf("at one rate for all %s costs %v of the step, not %v", row.Key, a, b)
		}
	}
	dear := map[string]float64{}
	for name := range units {
		dear[name] = 1e-9
	}
	again := map[string]bool{}
	for _, s := range plain.Steps {
		if name := g.Nodes[s.Node].Name; s.Again {
			again[name], dear[name] = true, 1
			break
		}
	}
	r.Costs = dear
	if p, err = planner.Make(g, r); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps {
		if name := g.Nodes[s.Node].Name; s.Again && again[name] {
			t.Errorf("%q runs again, at a price of a thousand million", name)
		}
	}
}

// TestCostsOfNothing: what a node costs where it has something to do is at the measured rate,
// also by the formulas of a plan in which it has nothing to do.
func TestCostsOfNothing(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 4] = input
one i64[1] = const {1}
end i64[1] = const {100}
rows i64[1] = const {0}
a = Sin(x)
b = Slice(a, one, end, rows)
c = Sin(b)
backward:
d = Mul(c, c)
output d
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 1}, Again: []string{"c"}, Costs: map[string]float64{"a": 1e-9}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Formulas()
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int64{1, 2, 50} {
		agree(t, p, f, map[string]int64{"batch": batch})
	}
}

// TestCostsRefused: rates that are no times, or too large to add up, have no plan.
func TestCostsRefused(t *testing.T) {
	g, err := graph.Parse(kernels.Library, "x f32[4] = input\nh = Tanh(x)\noutput h\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1), math.MaxFloat64} {
		p, err := planner.Make(g, planner.Request{Costs: map[string]float64{"h": rate}})
		if err == nil || !strings.Contains(err.Error(), `node "h" (Tanh) cannot take`) {
			t.Errorf("a rate of %v: %v, %v", rate, p, err)
		}
	}
}

// TestTooLarge: a step whose bytes or operations are numbers one by one, but not together, is
// refused.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"w f32[batch] = param\nv f32[batch] = param\ns = ReduceSum(w)\nr = ReduceSum(v)\noutput s\noutput r\n",
			`value "w": it and those before it take more than`},
		{"w f32[1073741824, 1048576] = param\nx f32[1048576] = input\na = Add(w, x)\nb = Add(w, a)\noutput b\n", ""},
		{"x f32[1048576, 1048576] = input\ns = Sum(x, x, x, x)\noutput s\n", ""},
		{"x f32[1048576, 1048576] = input\na = MatMul(x, x)\noutput a\n", ""},
		{"x f32[1048576, 1048576] = input\na = MatMul(x, x)\nb = MatMul(x, x)\nc = MatMul(x, x)\noutput a\noutput b\noutput c\n",
			`node "c" (MatMul): up to here the step takes more than`},
	} {
		g, err := graph.Parse(kernels.Library, c.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 1 << 60}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v\n%s", err, c.text)
		case c.want == "" && (p.Memory.Total <= 0 || p.Result.Flops <= 0):
			t.Errorf("%+v, %d operations", p.Memory, p.Result.Flops)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want … %s …\n%s", err, c.want, c.text)
		}
	}
}
