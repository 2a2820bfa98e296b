package planfile_test

import (
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// step is the training step of a small model.
func step(t testing.TB, s zoo.Spec) *graph.Graph {
	t.Helper()
	g, err := zoo.New(s, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = autograd.TrainStep(g, autograd.Options{Optimizer: "adamw"}); err != nil {
		t.Fatal(err)
	}
	return g
}

// again is a plan of few launches, of which one runs again.
func again(t *testing.T) *planner.Plan {
	t.Helper()
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 16] = input
lr f32[] = input
step i64[] = input
w f32[16] = param
m f32[batch, 16] = state
h = Tanh(x)
y = Mul(h, w)
z = Neg(y)
flat i64[1] = const {-1}
v = Reshape(z, flat)
s = ReduceMean(v) keepdims=0
backward:
d = Mul(h, s)
dx, dw = memopt.LayerNormalizationGrad(d, h, w)
update:
w2 = memopt.SGD(w, dw, lr, _, step)
backward:
e = Sub(dx, h)
output e
output s
update w = w2
update m = d
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 4}, Again: []string{"h"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
