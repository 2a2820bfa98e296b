package cpu_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/planner"
)

// TestAnyPlanSameBits is the promise of the project: any graph, with any legal
// set of nodes computed again, gives bit for bit what it gave before, whether
// elementwise launches run one by one or in chains. Every run is poisoned: stale
// or foreign bytes would show as NaN.
func TestAnyPlanSameBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { samePlanBits(t, false) })
}

// TestReferenceDevice holds the device against the interpreter on the same
// random graphs.
func TestReferenceDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { samePlanBits(t, true) })
}

func samePlanBits(t *rapid.T, reference bool) {
	g := randomStep(t)
	var repeatable []string
	for _, n := range g.Nodes {
		if n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View {
			repeatable = append(repeatable, n.Name)
		}
	}
	dims := map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}
	again := rapid.SliceOfDistinct(rapid.SampledFrom(append(repeatable, "")), rapid.ID[string]).Draw(t, "again")
	var chosen []string
	for _, name := range again {
		if name != "" {
			chosen = append(chosen, name)
		}
	}
	plain := plan(t, g, planner.Request{Dims: dims})
	other := plan(t, g, planner.Request{Dims: dims, Again: chosen})
	want := run(t, plain, cpu.Options{Poison: true, Workers: 1, Reference: reference})
	if reference {
		given := inputs(plain)
		ts, err := kernels.Interpret(g, binding(t, dims), given)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Outputs {
			if !bytes.Equal(ts[v.ID].Bytes, want[v.Name]) {
				t.Fatalf("output %q differs from the interpreter's\n%s", v.Name, g)
			}
		}
	}
	o := cpu.Options{Poison: true, Workers: 3, Reference: reference}
	sameResults(t, fmt.Sprintf("when %q run again", chosen), run(t, other, o), want, g)
	sameResults(t, fmt.Sprintf("in chains when %q run again", chosen), chained(t, other, o), want, g)
	sameResults(t, "in chains", chained(t, plain, o), want, g)
}

func sameResults(t *rapid.T, when string, got, want map[string][]byte, g *graph.Graph) {
	for name := range want {
		if !bytes.Equal(want[name], got[name]) {
			t.Fatalf("%q has other bits %s\n%s", name, when, g)
		}
	}
}

// TestBudgetSameBits: so does any plan that a budget leads to, however often it
// runs a node.
func TestBudgetSameBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomStep(t)
		dims := map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}
		plain := plan(t, g, planner.Request{Dims: dims})
		limit := plain.Floor.Peak + (plain.Arena-plain.Floor.Peak)*rapid.Int64Range(0, 100).Draw(t, "percent")/100
		tight, err := planner.Make(g, planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: limit}})
		var none *planner.BudgetError
		if errors.As(err, &none) {
			tight, err = planner.Make(g, planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: none.Best}})
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		want := run(t, plain, cpu.Options{Poison: true, Workers: 1})
		o := cpu.Options{Poison: true, Workers: 3}
		sameResults(t, fmt.Sprintf("within %d bytes", limit), run(t, tight, o), want, g)
		sameResults(t, fmt.Sprintf("in chains within %d bytes", limit), chained(t, tight, o), want, g)
	})
}

func binding(t *rapid.T, dims map[string]int64) *graph.Binding {
	b, err := graph.Bind(dims)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func plan(t *rapid.T, g *graph.Graph, r planner.Request) *planner.Plan {
	p, err := planner.Make(g, r)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return p
}

// inputs are the same numbers for the same shapes.
func inputs(p *planner.Plan) map[string]*graph.Tensor {
	s, err := p.Schedule()
	if err != nil {
		panic(err)
	}
	in := map[string]*graph.Tensor{}
	for _, r := range s.Fixed {
		if r.Value.Kind != graph.Input {
			continue
		}
		x := graph.NewTensor(r.Value.Type, r.Shape...)
		for i := range x.Len() {
			x.SetFloat(i, float64(int(i*7919+len(r.Value.Name)*31)%13-6)/4)
		}
		in[r.Value.Name] = x
	}
	return in
}

// run does two steps and returns every output and every state.
func run(t *rapid.T, p *planner.Plan, o cpu.Options) map[string][]byte {
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	return steps(t, p, s, o)
}

// chained is run with launches in chains.
func chained(t *rapid.T, p *planner.Plan, o cpu.Options) map[string][]byte {
	s, _, err := p.Chained()
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Graph)
	}
	return steps(t, p, s, o)
}

func steps(t *rapid.T, p *planner.Plan, s *schedule.Schedule, o cpu.Options) map[string][]byte {
	d, err := cpu.Open(s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	steps := 2
	if o.Reference {
		steps = 1
	}
	for step := range steps {
		trace, err := d.Run(schedule.Run{Inputs: inputs(p), Step: uint64(step)})
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Graph)
		}
		if trace.Arena != p.Arena {
			t.Fatalf("the arena was used up to %d, the plan says %d", trace.Arena, p.Arena)
		}
	}
	out := map[string][]byte{}
	for _, v := range p.Graph.Outputs {
		x, err := d.Output(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[v.Name] = x.Bytes
	}
	for _, u := range p.Graph.Updates {
		x, err := d.State(u.State.Name)
		if err != nil {
			t.Fatal(err)
		}
		out["state "+u.State.Name] = x.Bytes
	}
	return out
}

// TestPassesOneByOne: the two passes of a step apart, with the gradients of results given
// between them, have the bits of the step as a whole where those are its own, and under any
// plan the same bits whatever they are. A forward pass that was given up leaves no trace.
func TestPassesOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, values := randomForward(t)
		results := []string{g.Outputs[0].Name}
		for _, v := range rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, 3, func(v *graph.Value) *graph.Value { return v }).Draw(t, "results") {
			g.Outputs = append(g.Outputs, v)
			if rapid.Bool().Draw(t, "has a gradient") {
				results = append(results, v.Name)
			}
		}
		opt := autograd.Options{KeepGrads: true, Results: results}
		if rapid.Bool().Draw(t, "gradient of x") {
			opt.Inputs = []string{"x"}
		}
		step, err := autograd.TrainStep(g, opt)
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		dims := map[string]int64{"batch": rapid.Int64Range(1, 3).Draw(t, "batch")}
		plain := plan(t, step, planner.Request{Dims: dims})
		limit := plain.Floor.Peak + (plain.Arena-plain.Floor.Peak)*rapid.Int64Range(0, 100).Draw(t, "percent")/100
		tight, err := planner.Make(step, planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: limit}})
		var none *planner.BudgetError
		if errors.As(err, &none) {
			tight, err = planner.Make(step, planner.Request{Dims: dims, ActivationBudget: planner.Size{Bytes: none.Best}})
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, step)
		}
		nearGradients(t, g, results, opt.Inputs, plain)
		o := cpu.Options{Poison: true, Workers: 2}
		sameResults(t, "pass by pass", passes(t, tight, tight.Schedule, o, nil), run(t, plain, o), step)
		given := func(i int) float64 { return float64(i%7-3) / 4 }
		want := passes(t, plain, plain.Schedule, o, given)
		sameResults(t, fmt.Sprintf("pass by pass within %d bytes", limit), passes(t, tight, tight.Schedule, o, given), want, step)
		inChains := func() (*schedule.Schedule, error) { s, _, err := tight.Chained(); return s, err }
		lent := cpu.Options{Workers: 2, Lent: map[string]*graph.Tensor{}}
		for _, v := range step.Values {
			if v.Kind != graph.Param {
				continue
			}
			x, err := v.Tensor(binding(t, dims))
			if err != nil {
				t.Fatal(err)
			}
			lent.Lent[v.Name] = aligned(x)
		}
		sameResults(t, "with inputs and parameters lent", passes(t, tight, tight.Schedule, lent, given), want, step)
		sameResults(t, fmt.Sprintf("pass by pass in chains within %d bytes", limit), passes(t, tight, inChains, o, given), want, step)
	})
}

// nearGradients holds the gradients that come of given gradients of results beside those of a loss that has these: the sum
// of results times numbers.
func nearGradients(t *rapid.T, g *graph.Graph, results, wanted []string, p *planner.Plan) {
	given := func(i int) float64 { return float64(i%7-3) / 4 }
	got := passes(t, p, p.Schedule, cpu.Options{}, given)
	sum := g.Clone()
	b := graph.NewBuilder(sum)
	var terms []*graph.Value
	numbers := map[string]*graph.Tensor{}
	for k, name := range results {
		v := sum.ByName(name)
		shape, err := binding(t, p.Request.Dims).Shape(v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		x := graph.NewTensor(graph.Float32, shape...)
		for i := range x.Len() {
			x.SetFloat(i, given(i+k))
		}
		factor := fmt.Sprint("factor", k)
		numbers[factor] = x
		w, err := b.Define(graph.Input, factor, graph.Float32, v.Shape)
		if err != nil {
			t.Fatal(err)
		}
		terms = append(terms, b.Op("ReduceSum", graph.A{"keepdims": 0}, b.Op("Mul", nil, v, w)))
	}
	sum.Outputs = []*graph.Value{b.Op("Sum", nil, terms...)}
	step, err := autograd.TrainStep(sum, autograd.Options{KeepGrads: true, Inputs: wanted})
	if err != nil {
		t.Fatalf("%v\n%s", err, sum)
	}
	s, err := plan(t, step, planner.Request{Dims: p.Request.Dims}).Schedule()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cpu.Open(s, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	maps.Copy(numbers, inputs(p))
	if _, err := d.Run(schedule.Run{Inputs: numbers, Step: 1}); err != nil {
		t.Fatal(err)
	}
	found := map[string]*graph.Value{}
	for _, x := range p.Graph.Grads {
		found[x.Param.Name] = x.Grad
	}
	if len(found) != len(step.Grads) {
		t.Fatalf("%d gradients, not %d\n%s", len(found), len(step.Grads), p.Graph)
	}
	for _, x := range step.Grads {
		want, err := d.Output(x.Grad.Name)
		if err != nil {
			t.Fatal(err)
		}
		is := graph.Tensor{Type: want.Type, Shape: want.Shape, Bytes: got[found[x.Param.Name].Name]}
		norm, apart := 0.0, 0.0
		for i := range want.Len() {
			norm, apart = norm+want.Float(i)*want.Float(i), apart+math.Pow(want.Float(i)-is.Float(i), 2)
		}
		if math.Sqrt(apart) > 1e-4*math.Sqrt(norm)+1e-5 {
			t.Fatalf("the gradient of %s is %g away from that of a loss\n%s", x.Param.Name, math.Sqrt(apart), p.Graph)
		}
	}
}

// passes does two steps pass by pass, behind a forward pass that is given up, and returns
// every output, result and state. Seeds are the step's own where none are given.
func passes(t *rapid.T, p *planner.Plan, make func() (*schedule.Schedule, error), o cpu.Options, seed func(i int) float64) map[string][]byte {
	s, err := make()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cpu.Open(s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	do := func(r schedule.Run) {
		if _, err := d.Run(r); err != nil {
			t.Fatalf("%v\n%s", err, p.Graph)
		}
	}
	at, _ := s.Border()
	border := s.Launches[at]
	var seeds []*graph.Tensor
	for k, r := range border.Out {
		if r.Value == nil {
			seeds = append(seeds, nil)
			continue
		}
		x := graph.NewTensor(r.Value.Type, r.Shape...)
		switch {
		case seed == nil && k > 0:
			x = nil // zeros
		case seed == nil:
			x.SetFloat(0, 1)
		default:
			for i := range x.Len() {
				x.SetFloat(i, seed(i+k))
			}
		}
		seeds = append(seeds, x)
	}
	out := map[string][]byte{}
	keep := func(name string, x *graph.Tensor, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out[name] = x.Bytes
	}
	in := inputs(p)
	for name, x := range in {
		in[name] = aligned(x)
	}
	do(schedule.Run{Inputs: in, Lent: true, Part: schedule.ForwardPass, Step: 7})
	do(schedule.Run{Part: schedule.Ending})
	for step := range uint64(2) {
		do(schedule.Run{Inputs: in, Lent: step == 0, Part: schedule.ForwardPass, Step: step})
		for _, r := range border.In {
			x, err := d.Output(r.Value.Name)
			keep("result "+r.Value.Name, x, err)
		}
		do(schedule.Run{Seeds: seeds, Part: schedule.BackwardPass, Step: step})
		do(schedule.Run{Part: schedule.Ending})
	}
	for _, v := range p.Graph.Outputs {
		x, err := d.Output(v.Name)
		keep(v.Name, x, err)
	}
	return out
}

// aligned is a copy of a tensor that can be lent.
func aligned(x *graph.Tensor) *graph.Tensor {
	b := make([]byte, len(x.Bytes)+63)
	for uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
		b = b[1:]
	}
	return &graph.Tensor{Type: x.Type, Shape: x.Shape, Bytes: b[:copy(b, x.Bytes)]}
}

// randomStep draws a forward graph and turns it into a training step.
func randomStep(t *rapid.T) *graph.Graph {
	g, _ := randomForward(t)
	opt := autograd.Options{KeepGrads: rapid.Bool().Draw(t, "keep"), Optimizer: rapid.SampledFrom([]string{"sgd", "momentum", "adamw"}).Draw(t, "optimizer")}
	if rapid.Bool().Draw(t, "clip") {
		opt.ClipNorm = 0.5
	}
	step, err := autograd.TrainStep(g, opt)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return step
}

// randomForward draws a forward graph over matrices [batch, w], whose output is a loss, and
// gives the matrices that its nodes make.
func randomForward(t *rapid.T) (*graph.Graph, []*graph.Value) {
	g := graph.New(kernels.Library, "random")
	b := graph.NewBuilder(g)
	batch := graph.Sym("batch")
	must := func(v *graph.Value, err error) *graph.Value {
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	values := []*graph.Value{must(b.Define(graph.Input, "x", graph.Float32, graph.Shape{batch, graph.Num(4)}))}
	params := 0
	param := func(shape ...int) *graph.Value {
		params++
		x := graph.NewTensor(graph.Float32, shape...)
		for i := range x.Len() {
			x.SetFloat(i, float64(int(i*104729+params*17)%11-5)/8)
		}
		s := make(graph.Shape, len(shape))
		for i, d := range shape {
			s[i] = graph.Num(int64(d))
		}
		v := must(b.Define(graph.Param, fmt.Sprintf("p%d", params), graph.Float32, s))
		v.Data = graph.Bytes(x.Bytes)
		return v
	}
	width := func(v *graph.Value) int { n, _ := v.Shape[1].Const(); return int(n) }
	pick := func() *graph.Value { return rapid.SampledFrom(values).Draw(t, "input") }
	menu := []func() *graph.Value{
		func() *graph.Value {
			x := pick()
			return b.Op("MatMul", nil, x, param(width(x), rapid.SampledFrom([]int{2, 4, 6}).Draw(t, "width")))
		},
		func() *graph.Value { x := pick(); return b.Op("Add", nil, x, param(width(x))) },
		func() *graph.Value { x := pick(); return b.Op("Mul", nil, x, param(1)) },
		func() *graph.Value { return b.Op("Tanh", nil, pick()) },
		func() *graph.Value { return b.Op("Gelu", nil, pick()) },
		func() *graph.Value { return b.Op("Relu", nil, pick()) },
		func() *graph.Value { return b.Op("Softmax", nil, pick()) },
		func() *graph.Value { x := pick(); return b.Op("Mul", nil, x, x) },
		func() *graph.Value { x := pick(); return b.Op("Add", nil, b.Op("Sigmoid", nil, x), x) },
		func() *graph.Value {
			x := pick()
			return b.Op("LayerNormalization", nil, x, param(width(x)), param(width(x)))
		},
		func() *graph.Value { // a view and back
			x := pick()
			flat := b.Op("Reshape", nil, x, b.Ints(graph.Num(-1)))
			return b.Op("Reshape", nil, b.Op("Neg", nil, flat), b.Ints(x.Shape...))
		},
		func() *graph.Value {
			x := pick()
			parts := b.Ops("Split", graph.A{"axis": 1}, 2, x, b.Ints(graph.Num(int64(width(x)/2)), graph.Num(int64(width(x)-width(x)/2))))
			return b.Op("Concat", graph.A{"axis": 1}, parts[1], parts[0])
		},
		func() *graph.Value {
			x := pick()
			return b.Ops("Dropout", nil, 2, x, b.Num(graph.Float32, 0.5), b.Num(graph.Bool, 1))[0]
		},
	}
	for range rapid.IntRange(1, 12).Draw(t, "nodes") {
		values = append(values, rapid.SampledFrom(menu).Draw(t, "op")())
	}
	var sums []*graph.Value
	for _, v := range values[1:] {
		sums = append(sums, b.Op("ReduceMean", graph.A{"keepdims": 0}, v))
	}
	loss := b.Op("Sum", nil, sums...)
	g.Outputs = []*graph.Value{loss}
	if params == 0 {
		loss = b.Op("Mul", nil, loss, b.Op("ReduceMean", graph.A{"keepdims": 0}, param(2)))
		g.Outputs = []*graph.Value{loss}
	}
	return g, values[1:]
}
