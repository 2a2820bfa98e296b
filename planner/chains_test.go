package planner_test

import (
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
)

// TestChainsOfRepeated: whatever runs how often, chains are made of it. Sums run again here
// for two readers, the first of which joins a chain before the last run.
func TestChainsOfRepeated(t *testing.T) {
	for _, c := range []struct {
		name, ops string
		means     []string // whose sum is the loss
		opt       autograd.Options
		batch     int64
	}{{"what is left lies where the next part is", `
e f32[4] = param
h = Add(x, a)
i = Add(x, b)
j = Add(x, c)
k = Add(x, d)
s = Softmax(i)
u = Gelu(h)
v = Add(x, e)
w = Tanh(h)
`, []string{"h", "i", "j", "k", "s", "u", "v", "w"}, autograd.Options{Optimizer: "sgd"}, 1}, {"nothing is left to read", `
e f32[1] = param
h = Add(x, a)
i = Add(x, b)
j = Add(x, c)
k = Tanh(x)
m = Add(x, d)
o = Tanh(x)
s = Sigmoid(i)
u = Add(s, i)
v = Mul(h, e)
w = Mul(u, u)
`, []string{"h", "i", "j", "k", "m", "o", "u", "v", "w"}, autograd.Options{Optimizer: "sgd", KeepGrads: true, ClipNorm: 0.5}, 2}} {
		t.Run(c.name, func(t *testing.T) {
			text := "graph g\nx f32[batch, 4] = input\n"
			for _, p := range []string{"a", "b", "c", "d"} {
				text += p + " f32[4] = param\n"
			}
			text += strings.TrimPrefix(c.ops, "\n")
			for _, v := range c.means {
				text += "mean_" + v + " = ReduceMean(" + v + ") keepdims=0\n"
			}
			text += "l = Sum(mean_" + strings.Join(c.means, ", mean_") + ")\noutput l\n"
			g, err := graph.Parse(kernels.Library, text)
			if err != nil {
				t.Fatal(err)
			}
			if g, err = autograd.TrainStep(g, c.opt); err != nil {
				t.Fatal(err)
			}
			dims := map[string]int64{"batch": c.batch}
			plain, err := planner.Make(g, planner.Request{Dims: dims})
			if err != nil {
				t.Fatal(err)
			}
			again := 0
			for limit := plain.Floor.Peak; limit <= plain.Arena; limit += 16 {
				p, err := planner.Make(g, planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: limit}})
				if err != nil {
					continue // the floor cannot be placed
				}
				if _, _, err := p.Chained(); err != nil {
					t.Errorf("within %d bytes: %v", limit, err)
				}
				times := map[int32]int{}
				for _, s := range p.Steps {
					times[s.Node]++
					again = max(again, times[s.Node])
				}
			}
			if again < 3 {
				t.Errorf("no plan runs a node more than %d times", again)
			}
		})
	}
}
