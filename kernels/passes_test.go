package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
)

// TestCleanUps: what changes nothing goes, and every bit stays.
func TestCleanUps(t *testing.T) {
	passCases(t, "testdata/passes/cleanups.txt", graph.CleanOptions{}, 0)
}

// TestFusions: pieces become one node, which computes the same, has the same
// gradients and keeps no more for them.
func TestFusions(t *testing.T) {
	golden.Files(t, "testdata/passes/fusions/*.txt", func(t *testing.T, input string) string {
		return passCase(t, input, graph.CleanOptions{Fuse: oneAttention}, 1e-5)
	})
}

// TestUnfolds: an operator that hides what a plan would keep becomes its pieces.
func TestUnfolds(t *testing.T) {
	passCases(t, "testdata/passes/unfolds.txt", graph.CleanOptions{Unfold: true}, 1e-5)
}

// oneAttention picks all that may stand for pieces, of two for the same ones the one by
// tiles.
func oneAttention(op *graph.Op) bool { return op != kernels.AttentionInRows }

// passCases runs a file of cases: a graph, and the nodes that are left of it.
func passCases(t *testing.T, path string, o graph.CleanOptions, tolerance float64) {
	golden.Cases(t, path, func(input string) string { return passCase(t, input, o, tolerance) })
}

func passCase(t *testing.T, src string, o graph.CleanOptions, tolerance float64) string {
	g, err := graph.Parse(kernels.Library, src)
	if err != nil {
		t.Fatal(err)
	}
	before := g.Clone()
	sameProgram(t, before, cleaned(t, g, o), tolerance)
	var sb strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintln(&sb, n)
	}
	return strings.TrimSpace(sb.String())
}

type tester interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// cleaned cleans g, looks at it behind every pass, and makes sure that a
// second time finds nothing.
func cleaned(t tester, g *graph.Graph, o graph.CleanOptions) *graph.Graph {
	t.Helper()
	o.After = func(pass string) {
		if err := g.Check(); err != nil {
			t.Fatalf("after %s: %v\n%s", pass, err, g)
		}
		if err := g.CheckTypes(); err != nil {
			t.Fatalf("after %s: %v\n%s", pass, err, g)
		}
	}
	g.Clean(o)
	text := g.String()
	if g.Clean(o); g.String() != text {
		t.Errorf("a second time makes\n%s\nof\n%s", g, text)
	}
	return g
}

// sameProgram: equal outputs and gradients, and no more kept for those.
func sameProgram(t tester, before, after *graph.Graph, tolerance float64) {
	t.Helper()
	want, kept := outputs(t, before)
	got, keptNow := outputs(t, after)
	if tolerance > 0 && slices.ContainsFunc(before.Values, func(v *graph.Value) bool { return v.Type == graph.Float16 }) {
		tolerance = 2e-3 // pieces round in between
	}
	for name, x := range want {
		y := got[name]
		switch {
		case y == nil:
			t.Errorf("%s is gone", name)
		case tolerance == 0 && !strings.HasPrefix(name, "gradient") && !bytes.Equal(x.Bytes, y.Bytes):
			t.Errorf("%s has other bits\n%s", name, after)
		default:
			if e := distance(x, y); !(e <= max(tolerance, 1e-6)) {
				t.Errorf("%s differs by %.2e\n%s", name, e, after)
			}
		}
	}
	if keptNow > kept {
		t.Errorf("%d bytes are kept for the gradients, %d before\n%s", keptNow, kept, after)
	}
}

// outputs runs a forward graph and, if it has parameters, its gradients, of
// the mean square of its outputs. It counts the bytes that the backward pass
// reads of what the forward pass computed, a view as what it is of.
func outputs(t tester, g *graph.Graph) (out map[string]*graph.Tensor, kept int64) {
	t.Helper()
	binding, err := graph.Bind(map[string]int64{"batch": 2, "seq": 3})
	if err != nil {
		t.Fatalf("%v", err)
	}
	g = g.Clone()
	names := make([]string, len(g.Outputs))
	for i, v := range g.Outputs {
		names[i] = v.Name
	}
	b := graph.NewBuilder(g)
	var squares []*graph.Value
	trained := false
	for _, v := range g.Values {
		trained = trained || v.Kind == graph.Param
	}
	for _, v := range g.Outputs {
		if v.Type == graph.Float32 {
			squares = append(squares, b.Op("ReduceMean", graph.A{"keepdims": 0}, b.Op("Mul", nil, v, v)))
		}
	}
	if trained {
		g.Outputs = append(g.Outputs, b.Op("Sum", nil, squares...))
		step, err := autograd.TrainStep(g, autograd.Options{Loss: g.Outputs[len(names)].Name, Trainable: []string{"*"}, KeepGrads: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		g = step
		g.Outputs = append(g.Outputs, g.Loss)
	}
	given := map[string]*graph.Tensor{}
	for _, v := range g.Values {
		if v.Kind != graph.Input && v.Kind != graph.Param {
			continue
		}
		shape, err := binding.Shape(v.Shape)
		if err != nil {
			t.Fatalf("%v", err)
		}
		x := graph.NewTensor(v.Type, shape...)
		rng := rand.New(rand.NewPCG(3, uint64(len(v.Name))<<8|uint64(v.Name[0])))
		for i := range x.Len() {
			if v.Type.IsFloat() {
				x.SetFloat(i, rng.NormFloat64())
			} else {
				x.SetInt(i, rng.Int64N(2))
			}
		}
		given[v.Name] = x
	}
	var ts []*graph.Tensor
	if failed := graph.Try(func() { ts, err = kernels.Interpret(g, binding, given) }); failed != nil || err != nil {
		t.Fatalf("%v %v\n%s", failed, err, g)
	}
	out = map[string]*graph.Tensor{}
	for _, name := range names {
		out[name] = ts[g.ByName(name).ID]
	}
	for _, d := range g.Grads {
		out["gradient of "+d.Param.Name] = ts[d.Grad.ID]
	}
	seen := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if n.Phase == graph.Forward || v == nil {
				continue
			}
			for v.Def != nil && v.Def.Op.View {
				v = v.Def.Inputs[0]
			}
			if v.Def != nil && v.Def.Phase == graph.Forward && !seen[v] {
				seen[v] = true
				kept += int64(len(ts[v.ID].Bytes))
			}
		}
	}
	return out, kept
}

// distance is ‖x − y‖ / ‖x‖.
func distance(x, y *graph.Tensor) float64 {
	if x.Len() != y.Len() || x.Type != y.Type {
		return math.Inf(1)
	}
	diff, norm := 0.0, 0.0
	for i := range x.Len() {
		a, b := x.Float(i), y.Float(i)
		if a != b {
			diff += (a - b) * (a - b)
		}
		norm += a * a
	}
	return math.Sqrt(diff / max(norm, 1e-12))
}
