package planner_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
)

// TestRewrite: the plan as a graph computes the same bits, and needs the plan's
// peak when nothing runs again. That graph can be planned and rewritten too.
func TestRewrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGraph(t, 8)
		dims := map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}
		p := mustMake(t, g, planner.Request{Dims: dims, Again: randomAgain(t, g, dims)})
		want := numbers(t, g, dims)
		for range 2 {
			r, err := p.Rewrite()
			if err != nil {
				t.Fatalf("%v\n%s", err, g)
			}
			if err := r.CheckTypes(); err != nil {
				t.Fatalf("%v\n%s", err, r)
			}
			if len(r.Inputs) != len(g.Inputs) || len(r.Grads) != len(g.Grads) || (r.Loss == nil) != (g.Loss == nil) {
				t.Fatalf("another interface:\n%s\n%s", g, r)
			}
			for i, got := range numbers(t, r, dims) {
				if !bytes.Equal(got, want[i]) {
					t.Fatalf("other bits:\n%s\n%s", p.Graph, r)
				}
			}
			plain := mustMake(t, r, planner.Request{Dims: dims})
			if plain.Result.Peak != p.Result.Peak {
				t.Fatalf("the graph has a peak of %d, the plan of %d\n%s\n%s", plain.Result.Peak, p.Result.Peak, p.Graph, r)
			}
			p = mustMake(t, r, planner.Request{Dims: dims, Again: randomAgain(t, r, dims)})
		}
	})
}

// numbers interprets a graph; outputs first, then new states.
func numbers(t *rapid.T, g *graph.Graph, dims map[string]int64) (all [][]byte) {
	b, err := graph.Bind(dims)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]*graph.Tensor{}
	for _, v := range g.Inputs {
		shape, err := b.Shape(v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		x := graph.NewTensor(v.Type, shape...)
		for i := range x.Len() {
			x.SetFloat(i, float64((i*7919+len(v.Name)*31)%13-6)/4)
		}
		given[v.Name] = x
	}
	ts, err := kernels.Interpret(g, b, given)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Outputs {
		all = append(all, ts[v.ID].Bytes)
	}
	for _, u := range g.Updates {
		all = append(all, ts[u.New.ID].Bytes)
	}
	return all
}

// TestRewriteText shows one: the copies behind the forward pass, later readers
// reading them, a view placed anew.
func TestRewriteText(t *testing.T) {
	g, err := graph.Parse(kernels.Library, `
x f32[batch, 64] = input
half f32[] = const {0.5}
on bool[] = const {1}
flat i64[1] = const {-1}
h = Tanh(x)
h_recompute = Dropout(h, half, on)
v = Reshape(h_recompute, flat)
s = ReduceMean(v, _) keepdims=0
backward:
d = Mul(v, s)
e = Mul(d, d)
output e
`)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 2}, Again: []string{"h", "h_recompute"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Rewrite()
	if err != nil {
		t.Fatal(err)
	}
	want := `
h f32[batch, 64] = Tanh(x)
h_recompute f32[batch, 64] = Dropout(h, half, on) seed=SEED
v f32[64*batch] = Reshape(h_recompute, flat)
s f32[] = ReduceMean(v) keepdims=0
backward:
h_recompute_2 f32[batch, 64] = Tanh(x)
h_recompute_recompute f32[batch, 64] = Dropout(h_recompute_2, half, on) seed=SEED
v_recompute f32[64*batch] = Reshape(h_recompute_recompute, flat)
d f32[64*batch] = Mul(v_recompute, s)
e f32[64*batch] = Mul(d, d)
output e
`
	seed := r.ByName("h_recompute").Def.String()
	_, seed, _ = strings.Cut(seed, "seed=")
	_, got, _ := strings.Cut(r.String(), "flat i64[1] = const {-1}")
	if want = strings.ReplaceAll(want, "SEED", seed); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
