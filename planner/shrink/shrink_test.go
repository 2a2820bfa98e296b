package shrink_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
	"memopt/planner/shrink"
)

// pools is a step in which the pool and both activations can be stored smaller; afterwards only
// gradients with such a form read them.
const pools = `
x f32[batch, 2, 9, 9] = input
w f32[3, 2, 3, 3] = param
b f32[3] = param
a = Conv(x, w, b) kernel_shape=[3, 3]
r = Relu(a)
p = MaxPool(r) kernel_shape=[3, 3] strides=[2, 2]
s = Relu(p)
l = ReduceMean(s) keepdims=0
output l
`

// mask is a step with its own backward pass, which reads a mask of bools.
const mask = `
x f32[batch, 40] = input
ratio f32[] = const {0.5}
on bool[] = const {1}
y, m = Dropout(x, ratio, on)
l = ReduceMean(y) keepdims=0
backward:
d = com.microsoft.DropoutGrad(x, m, ratio, on)
output l
output d
`

func step(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	g, err := autograd.TrainStep(g, autograd.Options{Optimizer: "sgd", KeepGrads: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// filled parses a graph, and gives its parameters numbers.
func filled(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(kernels.Library, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Shape.Elems().Const()
			x := graph.NewTensor(v.Type, int(n))
			for i := range x.Len() {
				x.SetFloat(i, float64(i*37%11-5)/17)
			}
			v.Data = graph.Bytes(x.Bytes)
		}
	}
	return g
}

func TestSameBits(t *testing.T) {
	resnet, err := zoo.New(zoo.Spec{Family: "resnet"}, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	dropout, err := graph.Parse(kernels.Library, mask)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		g     *graph.Graph
		found int
	}{{"pools", step(t, filled(t, pools)), 2}, {"resnet", step(t, resnet), 1}, {"mask", dropout, 1}} {
		t.Run(c.name, func(t *testing.T) {
			found, err := shrink.Candidates(context.Background(), c.g)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Logf("%s %s: %s instead of %s", f.ID, f.Value.Name, f.After, f.Before)
			}
			if len(found) < c.found {
				t.Errorf("%d candidates, want %d", len(found), c.found)
			}
			small, err := shrink.Apply(context.Background(), c.g, found)
			if err != nil {
				t.Fatal(err)
			}
			if err := small.CheckTypes(); err != nil {
				t.Error(err)
			}
			before, want := run(t, c.g)
			after, got := run(t, small)
			t.Logf("kept %d, then %d; peak %d, then %d", before.Baseline.Stashed, after.Baseline.Stashed, before.Baseline.Peak, after.Baseline.Peak)
			if c.found > 0 && after.Baseline.Stashed >= before.Baseline.Stashed {
				t.Errorf("kept %d bytes before and %d after", before.Baseline.Stashed, after.Baseline.Stashed)
			}
			for name := range want {
				if !bytes.Equal(want[name], got[name]) {
					t.Errorf("%q has other bits", name)
				}
			}
		})
	}
}

// run runs one step, and returns its plan, outputs and states.
func run(t *testing.T, g *graph.Graph) (*planner.Plan, map[string][]byte) {
	t.Helper()
	p, err := planner.Make(g, planner.Request{Dims: map[string]int64{"batch": 3}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*graph.Tensor{}
	for _, r := range s.Fixed {
		if r.Value.Kind == graph.Input {
			x := graph.NewTensor(r.Value.Type, r.Shape...)
			for i := range x.Len() {
				v := float64(int(i*7919)%13-6) / 4
				if !r.Value.Type.IsFloat() {
					v = float64(i % 2)
				}
				x.SetFloat(i, v)
			}
			in[r.Value.Name] = x
		}
	}
	d, err := cpu.Open(s, cpu.Options{Poison: true, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Run(schedule.Run{Inputs: in}); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, v := range g.Outputs {
		x, err := d.Output(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[v.Name] = x.Bytes
	}
	for _, u := range g.Updates {
		x, err := d.State(u.State.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprint("state ", u.State.Name)] = x.Bytes
	}
	return p, out
}
