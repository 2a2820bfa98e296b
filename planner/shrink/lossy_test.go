package shrink_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"memopt/internal/graph"
	"memopt/planner/shrink"
)

// views is a step whose backward pass reads activations under other shapes, a mask made of bools,
// statistics, and a dropout's result.
const views = `
x f32[batch, 16, 32] = input
w f32[32, 32] = param
g f32[32] = param
b f32[32] = param
flat i64[2] = const {-1, 32}
deep i64[3] = const {-1, 16, 32}
zero f32[] = const {0}
rows = Reshape(x, flat)
h = MatMul(rows, w)
half f32[] = const {0.5}
yes bool[] = const {1}
c, _ = Dropout(h, half, yes)
a = Gelu(c)
n, mean, dev = LayerNormalization(a, g, b) axis=-1
r = Reshape(n, deep)
p = Tanh(r)
q = Reshape(p, flat)
z = MatMul(q, w)
on = Greater(z, zero)
m = Cast(on) to=1
k = Mul(z, m)
e = Exp(k)
l = ReduceMean(e) keepdims=0
output l
`

func TestLossy(t *testing.T) {
	g := step(t, filled(t, views))
	before, want := run(t, g)
	for _, c := range []struct {
		to    graph.DType
		bound float64
	}{{graph.BFloat16, 2e-2}, {graph.Float16, 2e-3}, {graph.Float8E4M3FN, 2e-1}} {
		t.Run(c.to.String(), func(t *testing.T) {
			found := shrink.Lossy(g, c.to)
			for _, f := range found {
				if f.Value.Type != graph.Float32 || f.Value == g.Loss || strings.HasPrefix(f.ID, "Cast") {
					t.Errorf("%s of %s is to be rounded", f.Value, f.ID)
				}
			}
			small, err := shrink.Apply(context.Background(), g, found)
			if err != nil {
				t.Fatal(err)
			}
			after, got := run(t, small)
			if b, a := before.Baseline.Stashed, after.Baseline.Stashed; a*10 > b*7 {
				t.Errorf("kept %d bytes before and %d after", b, a)
			}
			if before.Baseline.Peak <= after.Baseline.Peak {
				t.Errorf("the peak was %d bytes and is %d", before.Baseline.Peak, after.Baseline.Peak)
			}
			if !bytes.Equal(want[g.Loss.Name], got[g.Loss.Name]) {
				t.Error("the loss has other bits: the forward pass is not to change")
			}
			worst := 0.0
			for _, d := range g.Grads {
				worst = max(worst, distance(got[d.Grad.Name], want[d.Grad.Name]))
			}
			if !(worst > 0 && worst < c.bound) {
				t.Errorf("the worst gradient differs by %g, want less than %g and more than nothing", worst, c.bound)
			}
		})
	}
}

// TestCheapest: a value with an exact extract is not rounded, and values that are expensive to
// recompute are rounded before others.
func TestCheapest(t *testing.T) {
	text := strings.NewReplacer("a = Gelu(c)", "u = Relu(c)\na = Sigmoid(u)", "k = Mul(z, m)", "y = Mul(z, m)\nk = Mul(y, z)").Replace(views)
	g := step(t, filled(t, text))
	exact, err := shrink.Candidates(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	lossy := shrink.Lossy(g, graph.BFloat16)
	exact = slices.DeleteFunc(exact, func(c shrink.Candidate) bool { return c.ID != "Relu+" })
	if len(exact) != 1 {
		t.Fatalf("exact are %v, want Relu+ among them", exact)
	}
	all := shrink.Merge(exact, lossy)
	if len(all) != len(lossy) {
		t.Errorf("%d of %d and %d", len(all), len(exact), len(lossy))
	}
	for i, c := range all {
		if c.Lossy == (c.Value == exact[0].Value) {
			t.Errorf("%s is lossy: %v", c.Value, c.Lossy)
		}
		if i > 0 && all[i-1].Value.Def.ID > c.Value.Def.ID {
			t.Errorf("%s stands before %s", all[i-1].Value, c.Value)
		}
	}
	order := shrink.Cheapest(all)
	if len(order) != len(all)-1 {
		t.Errorf("%d of %d are to be rounded", len(order), len(all))
	}
	if first := all[order[0]]; first.ID != "MatMul+" {
		t.Errorf("%s is the first to be rounded, not the product", first.Value)
	}
}

// distance is ‖a−b‖/‖b‖ of float32 numbers.
func distance(a, b []byte) float64 {
	x, y := &graph.Tensor{Type: graph.Float32, Shape: []int{len(a) / 4}, Bytes: a}, &graph.Tensor{Type: graph.Float32, Shape: []int{len(b) / 4}, Bytes: b}
	diff, norm := 0.0, 0.0
	for i := range y.Len() {
		diff += (x.Float(i) - y.Float(i)) * (x.Float(i) - y.Float(i))
		norm += y.Float(i) * y.Float(i)
	}
	return math.Sqrt(diff / norm)
}
