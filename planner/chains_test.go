package planner_test

import (
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/planner"
)

// TestChainsOfRepeated: whatever runs how often, chains are made of it. Sums run again here
// for two readers, the first of which joins a chain before the last run.
func TestChainsOfRepeated(t *testing.T) {
	for _, c := range []struct {
		name, text string
		opt        autograd.Options
		batch      int64
	}{{"what is left lies where the next part is", `graph g
x f32[batch, 4] = input
a f32[4] = param
b f32[4] = param
c f32[4] = param
d f32[4] = param
e f32[4] = param
h = Add(x, a)
i = Add(x, b)
j = Add(x, c)
k = Add(x, d)
s = Softmax(i)
u = Gelu(h)
v = Add(x, e)
w = Tanh(h)
n1 = ReduceMean(h) keepdims=0
n2 = ReduceMean(i) keepdims=0
n3 = ReduceMean(j) keepdims=0
n4 = ReduceMean(k) keepdims=0
n5 = ReduceMean(s) keepdims=0
n6 = ReduceMean(u) keepdims=0
n7 = ReduceMean(v) keepdims=0
n8 = ReduceMean(w) keepdims=0
l = Sum(n1, n2, n3, n4, n5, n6, n7, n8)
output l
`, autograd.Options{Optimizer: "sgd"}, 1}, {"nothing is left to read", `graph g
x f32[batch, 4] = input
a f32[4] = param
b f32[4] = param
c f32[4] = param
d f32[4] = param
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
n1 = ReduceMean(h) keepdims=0
n2 = ReduceMean(i) keepdims=0
n3 = ReduceMean(j) keepdims=0
n4 = ReduceMean(k) keepdims=0
n5 = ReduceMean(m) keepdims=0
n6 = ReduceMean(o) keepdims=0
n7 = ReduceMean(u) keepdims=0
n8 = ReduceMean(v) keepdims=0
n9 = ReduceMean(w) keepdims=0
l = Sum(n1, n2, n3, n4, n5, n6, n7, n8, n9)
output l
`, autograd.Options{Optimizer: "sgd", KeepGrads: true, ClipNorm: 0.5}, 2}} {
		t.Run(c.name, func(t *testing.T) {
			g, err := graph.Parse(kernels.Library, c.text)
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
