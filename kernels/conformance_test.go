package kernels

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memopt/internal/graph"
)

// TestConformance is the one test of the library: it covers an operator the
// moment its file exists.
func TestConformance(t *testing.T) {
	for _, op := range Library.All() {
		if op.Rewrite != nil {
			continue
		}
		t.Run(op.FullName(), func(t *testing.T) {
			complete(t, op)
			cases, err := Cases(op)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases {
				t.Run(c.Text, func(t *testing.T) {
					want := evaluate(t, c, op.Eval, 1)
					again := evaluate(t, c, op.Eval, 1)
					sameBits(t, "Eval twice", want, again)
					if op.Fast != nil {
						got := evaluate(t, c, op.Fast, 1)
						near(t, "Fast against Eval", got, want)
						sameBits(t, "Fast with three workers", evaluate(t, c, op.Fast, 3), got)
					}
					inPlace(t, c, op)
					priced(t, c.Node)
				})
			}
			if op.Grad != nil && !op.OwnGrad {
				gradients(t, op)
			}
		})
	}
}

// TestOlderForms: a graph holds only newest forms, so an older one rewrites.
func TestOlderForms(t *testing.T) {
	for _, op := range Library.All() {
		if newest := Library.Find(op.Domain, op.Name, 0); newest != op && op.Rewrite == nil {
			t.Errorf("%s since %d is not the newest form and has no Rewrite", op.FullName(), op.Since)
		}
	}
}

// complete: no facet is forgotten.
func complete(t *testing.T, op *graph.Op) {
	if op.Doc == "" || op.Infer == nil || op.Eval == nil || op.Flops == nil {
		t.Error("Doc, Infer, Eval and Flops must be there")
	}
	if len(op.Samples) == 0 {
		t.Error("no samples")
	}
	if (op.Grad == nil) != op.NoGrad {
		t.Error("either Grad or NoGrad must be there")
	}
	in, out := op.Ports()
	if len(out) == 0 {
		t.Error("no outputs")
	}
	for _, i := range op.InPlace {
		if i >= len(in) && !in[len(in)-1].Variadic {
			t.Errorf("InPlace names input %d", i)
		}
	}
	if op.Overwrites != nil && (len(op.Overwrites) != len(out) || op.Recompute != graph.Never) {
		t.Error("Overwrites must name an input for each output, and the class is Never")
	}
	if op.Random && !slices.ContainsFunc(op.AttrSpecs(), func(a graph.AttrSpec) bool { return a.Name == "seed" && a.Kind == graph.AttrInt }) {
		t.Error("a random operator declares an int attribute seed, which keys its draws")
	}
	if op.View && op.Recompute != graph.Cheap {
		t.Error("a view costs nothing to repeat: its class is Cheap")
	}
}

func newCall(t *testing.T, c Case, workers int) *graph.Call {
	call := &graph.Call{Node: c.Node, In: c.In, Seed: 7, Step: 3}
	b, err := graph.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Node.Outputs {
		if v == nil {
			call.Out = append(call.Out, nil)
			continue
		}
		shape, err := b.Shape(v.Shape)
		if err != nil {
			t.Fatalf("output %s: %v", v, err)
		}
		x := graph.NewTensor(v.Type, shape...)
		// What a run does not write shows.
		for i := range x.Bytes {
			x.Bytes[i] = 0xa5
		}
		call.Out = append(call.Out, x)
	}
	if s := c.Node.Op.Scratch; s != nil {
		n, err := b.Eval(s(c.Node))
		if err != nil {
			t.Fatal(err)
		}
		call.Scratch = graph.NewTensor(graph.Uint8, int(n)).Bytes
		for i := range call.Scratch {
			call.Scratch[i] = 0xa5
		}
	}
	call.Parallel = func(n, grain int, f func(lo, hi int)) {
		// Ranges in an odd order and of odd sizes: no result may depend on them.
		for w := workers - 1; w >= 0; w-- {
			f(n*w/workers, n*(w+1)/workers)
		}
	}
	return call
}

func evaluate(t *testing.T, c Case, run func(*graph.Call), workers int) []*graph.Tensor {
	t.Helper()
	before := make([][]byte, len(c.In))
	for i, x := range c.In {
		if x != nil {
			before[i] = slices.Clone(x.Bytes)
		}
	}
	call := newCall(t, c, workers)
	if c.Node.Op.Overwrites != nil {
		// Updates are defined in place: run them over copies.
		call.In = slices.Clone(call.In)
		for o, i := range c.Node.Op.Overwrites {
			x := *call.In[i]
			x.Bytes = graph.NewTensor(x.Type, x.Shape...).Bytes
			copy(x.Bytes, c.In[i].Bytes)
			call.In[i], call.Out[o] = &x, &x
		}
	}
	run(call)
	for i, x := range c.In {
		if x != nil && !bytes.Equal(before[i], x.Bytes) {
			t.Errorf("input %d was written", i)
		}
	}
	return call.Out
}

// inPlace: over an input's bytes the result is the same as beside them.
func inPlace(t *testing.T, c Case, op *graph.Op) {
	forms := map[string]func(*graph.Call){"Eval": op.Eval}
	if op.Fast != nil {
		forms["Fast"] = op.Fast
	}
	ports, _ := op.Ports()
	for _, i := range op.InPlace {
		last := i
		if i < len(ports) && ports[i].Variadic {
			last = len(c.In) - 1
		}
		for k := i; k <= last; k++ {
			if k >= len(c.In) || c.In[k] == nil || c.Node.Outputs[0] == nil || len(c.In[k].Bytes) == 0 {
				continue
			}
			for name, run := range forms {
				want := evaluate(t, c, run, 1)
				if len(want[0].Bytes) != len(c.In[k].Bytes) {
					continue
				}
				call := newCall(t, c, 1)
				call.In = slices.Clone(call.In)
				over := graph.NewTensor(c.In[k].Type, c.In[k].Shape...)
				copy(over.Bytes, c.In[k].Bytes)
				call.In[k] = over
				call.Out[0] = &graph.Tensor{Type: want[0].Type, Shape: want[0].Shape, Bytes: over.Bytes}
				run(call)
				sameBits(t, fmt.Sprintf("%s over input %d", name, k), call.Out, want)
			}
		}
	}
}

func priced(t *testing.T, n *graph.Node) {
	if f, ok := n.Op.Flops(n).Const(); !ok || f < 0 {
		t.Errorf("flops are %s", n.Op.Flops(n))
	}
}

func sameBits(t *testing.T, what string, got, want []*graph.Tensor) {
	t.Helper()
	for i := range want {
		if want[i] != nil && !bytes.Equal(got[i].Bytes, want[i].Bytes) {
			t.Errorf("%s: output %d has other bits", what, i)
		}
	}
}

func near(t *testing.T, what string, got, want []*graph.Tensor) {
	t.Helper()
	tolerance := map[graph.DType]float64{graph.Float32: 2e-5, graph.Float16: 2e-3, graph.BFloat16: 1.6e-2, graph.Float64: 1e-12}
	for i := range want {
		if want[i] == nil {
			continue
		}
		tol := tolerance[want[i].Type]
		for k := range want[i].Len() {
			a, b := got[i].Float(k), want[i].Float(k)
			if a != b && !(math.IsNaN(a) && math.IsNaN(b)) && !(math.Abs(a-b) <= tol*(1+math.Abs(b))) {
				t.Errorf("%s: output %d, element %d is %v, not %v", what, i, k, a, b)
				break
			}
		}
	}
}

// gradients compares the gradient rule with central differences in float64,
// for every float input of every sample.
func gradients(t *testing.T, op *graph.Op) {
	cases, err := Float64Cases(op)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range cases {
		t.Run("gradient of "+c.Text, func(t *testing.T) { checked += gradient(t, c) })
	}
	if checked == 0 {
		t.Error("has a gradient rule that no sample tests")
	}
}

func gradient(t *testing.T, c Case) (checked int) {
	g, n := c.Graph, c.Node
	given := map[string]*graph.Tensor{}
	for i, x := range c.In {
		if x != nil {
			given[n.Inputs[i].Name] = x
		}
	}
	// The loss is a random weighted sum of the float outputs; differences are
	// too small to be seen through a narrower type.
	rng := rand.New(rand.NewPCG(1, 2))
	dy := make([]*graph.Value, len(n.Outputs))
	weights := make([]*graph.Tensor, len(n.Outputs))
	b := graph.NewBuilder(g)
	binding, _ := graph.Bind(nil)
	for i, v := range n.Outputs {
		if v == nil || v.Type != graph.Float64 {
			continue
		}
		shape, err := binding.Shape(v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		w := graph.NewTensor(graph.Float64, shape...)
		for k := range w.Len() {
			w.SetFloat(k, rng.NormFloat64())
		}
		dv, err := b.Define(graph.Input, fmt.Sprintf("dy%d", i), graph.Float64, v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		dy[i], weights[i], given[dv.Name] = dv, w, w
	}
	if !slices.ContainsFunc(dy, func(v *graph.Value) bool { return v != nil }) {
		return 0 // nothing to differ
	}
	forward := slices.Clone(g.Nodes)
	b.Phase = graph.Backward
	var dx []*graph.Value
	if err := graph.Try(func() { dx = n.Op.Grad(b, n, dy) }); err != nil {
		return 0 // a step that needs it is refused; gradients says if no sample is left
	}
	if len(dx) != len(n.Inputs) {
		t.Fatalf("rule gives %d gradients for %d inputs", len(dx), len(n.Inputs))
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	values, err := Interpret(g, binding, given)
	if err != nil {
		t.Fatal(err)
	}
	onlyForward := *g
	onlyForward.Nodes = forward
	loss := func() float64 {
		ts, err := Interpret(&onlyForward, binding, given)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, v := range n.Outputs {
			if weights[i] != nil {
				for k := range weights[i].Len() {
					sum += weights[i].Float(k) * ts[v.ID].Float(k)
				}
			}
		}
		return sum
	}
	for i, x := range c.In {
		if x == nil || x.Type != graph.Float64 || n.Inputs[i].Kind == graph.Const || slices.Contains(n.Op.Fixed, i) {
			continue
		}
		// No gradient is one of zero: what has a slope must say so.
		got := graph.NewTensor(graph.Float64, x.Shape...)
		if dx[i] == nil {
		} else if in := n.Inputs[i]; dx[i].Type != in.Type || !dx[i].Shape.Equal(in.Shape) {
			t.Errorf("gradient of input %d is %s%s, not %s%s", i, dx[i].Type, dx[i].Shape, in.Type, in.Shape)
			continue
		} else {
			got = values[dx[i].ID]
		}
		// Differences take a run an element: of many elements some are compared, an
		// odd number apart.
		for k := 0; k < x.Len(); k += x.Len()/400 | 1 {
			const h = 1e-5
			at := x.Float(k)
			x.SetFloat(k, at+h)
			up := loss()
			x.SetFloat(k, at-h)
			down := loss()
			x.SetFloat(k, at)
			want := (up - down) / (2 * h)
			if math.Abs(got.Float(k)-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("gradient of input %d, element %d is %v, not %v", i, k, got.Float(k), want)
				break
			}
			checked++
		}
		if x.Len() == 0 {
			checked++
		}
	}
	return checked
}
