package planner_test

import (
	"testing"

	"memopt/autograd"
	"memopt/kernels"
	"memopt/memopt/graph"
	"memopt/planner"
)

// TestChainsOfRepeated: whatever runs how often, chains are made of it. Here a sum runs again
// for two readers, and the place of what it makes the last time, of which nothing is read
// outside the chain any more, is that of the other part.
func TestChainsOfRepeated(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `graph g
x f32[batch, 4] = input
a f32[4] = param
h = Add(x, a)
b f32[4] = param
i = Add(x, b)
c f32[4] = param
j = Add(x, c)
d f32[4] = param
k = Add(x, d)
s = Softmax(i)
u = Gelu(h)
e f32[4] = param
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
`)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = autograd.TrainStep(g, autograd.Options{Loss: "l", Trainable: []string{"*"}, Optimizer: "sgd"}); err != nil {
		t.Fatal(err)
	}
	dims := map[string]int64{"batch": 1}
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
}
