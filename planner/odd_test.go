package planner_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
	"memopt/planner/planfile"
)

// An odd drawing has what real models have now and then: values of no elements, scalars,
// views of everything, results that nobody reads, outputs and new states that are inputs,
// parameters, states or views of those.
func newOddDrawing(t *rapid.T) *drawing {
	g := graph.New(kernels.Library, "odd")
	d := &drawing{t: t, g: g, b: graph.NewBuilder(g)}
	batch, rows := graph.Sym("batch"), graph.Sym("rows")
	for _, v := range []struct {
		kind  graph.Kind
		name  string
		shape graph.Shape
	}{
		{graph.Input, "x", graph.Shape{batch, graph.Num(4)}},
		{graph.Input, "y", graph.Shape{rows, graph.Num(4)}},
		{graph.Input, "s", graph.Shape{}},
		{graph.Input, "e", graph.Shape{batch, graph.Num(0)}},
		{graph.Input, "z", graph.Dims(0)},
	} {
		if rapid.IntRange(0, 2).Draw(t, v.name) > 0 {
			d.leaf(v.kind, v.name, v.shape)
		}
	}
	for _, shape := range [][]int{{4}, {4, 2}, {0}, {4, 0}, {0, 4}, {}} {
		if rapid.Bool().Draw(t, "param") {
			d.values = append(d.values, d.param(shape...))
		}
	}
	if rapid.Bool().Draw(t, "const") {
		v := d.b.Num(graph.Float32, 0.5)
		d.values = append(d.values, v)
	}
	if rapid.Bool().Draw(t, "table") || len(d.values) == 0 {
		x := graph.NewTensor(graph.Float32, 4)
		for i := range 4 {
			x.SetFloat(i, float64(i)/4)
		}
		v, err := d.b.Const("table", x)
		if err != nil {
			t.Fatal(err)
		}
		d.values = append(d.values, v)
	}
	return d
}

func (d *drawing) leaf(kind graph.Kind, name string, s graph.Shape) *graph.Value {
	v, err := d.b.Define(kind, name, graph.Float32, s)
	if err != nil {
		d.t.Fatal(err)
	}
	d.values = append(d.values, v)
	return v
}

// oddMenu is nodes of an odd drawing; one that the operator refuses is none.
var oddMenu = []func(d *drawing) []*graph.Value{
	func(d *drawing) []*graph.Value {
		return one(d.b.Op(rapid.SampledFrom([]string{"Tanh", "Neg", "Gelu", "Relu"}).Draw(d.t, "unary"), nil, d.pick()))
	},
	func(d *drawing) []*graph.Value { return one(d.b.Op("Identity", nil, d.pick())) },
	func(d *drawing) []*graph.Value { return one(d.b.Op("Softmax", nil, d.pick())) },
	func(d *drawing) []*graph.Value { return one(d.b.Op("Add", nil, d.pick(), d.pick())) },
	func(d *drawing) []*graph.Value { x := d.pick(); return one(d.b.Op("Mul", nil, x, x)) },
	func(d *drawing) []*graph.Value { x := d.pick(); return one(d.b.Op("Sum", nil, x, x, d.alike(x))) },
	func(d *drawing) []*graph.Value { return one(d.b.Op("Sum", nil, d.pick())) },
	func(d *drawing) []*graph.Value {
		return one(d.b.Op("Clip", nil, d.pick(), nil, d.b.Num(graph.Float32, 1)))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Reshape", nil, x, d.b.Ints(graph.Num(-1))))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Reshape", nil, x, d.b.Ints(x.Shape...)))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Reshape", nil, d.b.Op("Reshape", nil, x, d.b.Ints(graph.Num(1), graph.Num(-1))), d.b.Ints(x.Shape...)))
	},
	func(d *drawing) []*graph.Value {
		return one(d.b.Op("Unsqueeze", nil, d.pick(), d.b.Ints(graph.Num(0))))
	},
	func(d *drawing) []*graph.Value { return one(d.b.Op("Flatten", graph.A{"axis": 0}, d.pick())) },
	func(d *drawing) []*graph.Value {
		x := d.pick()
		if x.Rank() == 0 {
			return nil
		}
		axis := rapid.IntRange(0, x.Rank()-1).Draw(d.t, "axis")
		n, ok := x.Shape[axis].Const()
		if !ok {
			return nil
		}
		a := rapid.Int64Range(0, n).Draw(d.t, "first")
		parts := d.b.Ops("Split", graph.A{"axis": axis}, 2, x, d.b.Ints(graph.Num(a), graph.Num(n-a)))
		return parts[rapid.IntRange(0, 1).Draw(d.t, "from"):][:1]
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Concat", graph.A{"axis": -1}, x, x))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Concat", graph.A{"axis": 0}, x, d.pick()))
	},
	func(d *drawing) []*graph.Value { return one(d.b.Op("MatMul", nil, d.pick(), d.pick())) },
	func(d *drawing) []*graph.Value { return one(d.b.Op("Transpose", nil, d.pick())) },
	func(d *drawing) []*graph.Value {
		return one(d.b.Op(rapid.SampledFrom([]string{"ReduceMean", "ReduceSum"}).Draw(d.t, "reduce"), graph.A{"keepdims": 0}, d.pick()))
	},
	func(d *drawing) []*graph.Value {
		return d.b.Ops("Dropout", nil, rapid.IntRange(1, 2).Draw(d.t, "outputs"), d.pick(), d.b.Num(graph.Float32, 0.5), d.b.Num(graph.Bool, 1))[:1]
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		if x.Rank() == 0 {
			return nil
		}
		n, ok := x.Shape[x.Rank()-1].Const()
		if !ok {
			return nil
		}
		scale := d.param(int(n))
		d.values = append(d.values, scale)
		return d.b.Ops("LayerNormalization", nil, rapid.SampledFrom([]int{1, 3}).Draw(d.t, "outputs"), x, scale)
	},
	func(d *drawing) []*graph.Value {
		return one(d.b.Op("Slice", nil, d.pick(), d.b.Ints(graph.Num(1)), d.b.Ints(graph.Num(rapid.Int64Range(0, 3).Draw(d.t, "end"))), d.b.Ints(graph.Num(0))))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Expand", nil, x, d.b.Ints(append(graph.Shape{graph.Num(rapid.Int64Range(0, 3).Draw(d.t, "times"))}, x.Shape...)...)))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		if x.Rank() == 0 {
			return nil
		}
		if n, known := x.Shape[0].Const(); n == 0 && (known || x.Def != nil) {
			return nil // nothing to gather, at some dims
		}
		return one(d.b.Op("Gather", nil, x, d.b.Ints(graph.Num(0), graph.Num(0))))
	},
	func(d *drawing) []*graph.Value {
		return one(d.b.Op("Cast", graph.A{"to": 1}, d.b.Op("Shape", nil, d.pick())))
	},
	func(d *drawing) []*graph.Value {
		return one(d.b.Op("Where", nil, d.b.Op("Greater", nil, d.pick(), d.b.Num(graph.Float32, 0)), d.pick(), d.pick()))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("Cast", graph.A{"to": 1}, d.b.Op("Cast", graph.A{"to": 10}, x)))
	},
}

func (d *drawing) oddNodes(least, most int) {
	for range rapid.IntRange(least, most).Draw(d.t, "nodes") {
		i := rapid.IntRange(0, len(oddMenu)-1).Draw(d.t, "op")
		var made []*graph.Value
		assumed := len(d.g.Assumed)
		if graph.Try(func() { made = oddMenu[i](d) }) != nil {
			d.g.Assumed = d.g.Assumed[:assumed]
			continue
		}
		for _, v := range made {
			if v.Rank() <= 4 {
				d.values = append(d.values, v)
			}
		}
	}
}

// oddWhole is a graph whose backward and update nodes read whatever they like.
func oddWhole(t *rapid.T, most int) *graph.Graph {
	d := newOddDrawing(t)
	states := rapid.IntRange(0, 4).Draw(t, "states")
	shapes := []graph.Shape{{graph.Sym("batch"), graph.Num(4)}, graph.Dims(4), graph.Dims(0), {}, {graph.Sym("rows"), graph.Num(4)}, graph.Dims(4), {}}
	first := rapid.IntRange(0, 3).Draw(t, "first state")
	for i := range states {
		d.leaf(graph.State, fmt.Sprintf("m%d", i), shapes[first+i])
	}
	var lr, step *graph.Value
	lr, _ = d.b.Define(graph.Input, "lr", graph.Float32, graph.Shape{})
	step, _ = d.b.Define(graph.Input, "step", graph.Int64, graph.Shape{})
	d.oddNodes(0, most)
	if rapid.Bool().Draw(t, "backward") {
		d.b.Phase = graph.Backward
		d.oddNodes(0, most)
	}
	updated := map[*graph.Value]bool{}
	if rapid.Bool().Draw(t, "update") {
		d.b.Phase = graph.Updating
		d.oddNodes(0, 3)
	}
	d.b.Phase = graph.Updating
	for _, v := range d.g.Values {
		if v.Kind != graph.State && v.Kind != graph.Param || updated[v] {
			continue
		}
		var made *graph.Value
		switch rapid.IntRange(0, 5).Draw(t, "how") {
		case 0:
		case 1, 2:
			made = d.alike(v)
			if made.Type != v.Type {
				made = nil
			}
		case 3:
			made = d.b.Op("memopt.SGD", nil, v, d.alike(v), lr, nil, step)
			updated[v] = true
		case 4:
			made = d.b.Op("memopt.Accumulate", nil, v, d.alike(v), step)
			updated[v] = true
		case 5:
			var s *graph.Value
			for _, w := range d.g.Values {
				if w.Kind == graph.State && w != v && !updated[w] && w.Shape.Equal(v.Shape) {
					s = w
				}
			}
			if s == nil {
				continue
			}
			outs := d.b.Ops("memopt.Momentum", nil, 2, v, d.alike(v), lr, nil, step, s)
			made = outs[0]
			if drop := len(d.g.Updates); drop > 0 {
				for i, u := range d.g.Updates {
					if u.State == s {
						d.g.Updates = append(d.g.Updates[:i:i], d.g.Updates[i+1:]...)
						break
					}
				}
			}
			d.g.Updates = append(d.g.Updates, graph.Update{State: s, New: outs[1]})
			updated[s], updated[v] = true, true
		}
		if made != nil {
			d.g.Updates = append(d.g.Updates, graph.Update{State: v, New: made})
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "outputs") {
		d.g.Outputs = append(d.g.Outputs, d.pick())
	}
	return d.g
}

// oddStep is a training step of an odd forward graph.
func oddStep(t *rapid.T, most int) *graph.Graph {
	d := newOddDrawing(t)
	d.oddNodes(0, most)
	var sums []*graph.Value
	for _, v := range d.values {
		if rapid.IntRange(0, 3).Draw(t, "summed") > 0 {
			sums = append(sums, d.b.Op("ReduceSum", graph.A{"keepdims": 0}, v))
		}
	}
	sums = append(sums, d.b.Op("ReduceMean", graph.A{"keepdims": 0}, d.param(2)))
	loss := d.b.Op("Sum", nil, sums...)
	d.g.Outputs = []*graph.Value{loss}
	for range rapid.IntRange(0, 3).Draw(t, "outputs") {
		d.g.Outputs = append(d.g.Outputs, d.pick())
	}
	return d.step(loss, "", "sgd", "adamw", "lamb", "adagrad", "momentum")
}

func oddGraph(t *rapid.T, most int) *graph.Graph {
	if rapid.Bool().Draw(t, "step") {
		return oddStep(t, most)
	}
	return oddWhole(t, most)
}

func oddDims(t *rapid.T) map[string]int64 {
	return map[string]int64{
		"batch": rapid.SampledFrom([]int64{2, 1, 3, 17}).Draw(t, "batch"),
		"rows":  rapid.SampledFrom([]int64{1, 2, 5}).Draw(t, "rows"),
	}
}

// oddRequest is a request at the edges of what may be asked for.
func oddRequest(t *rapid.T, g *graph.Graph, dims map[string]int64, plain *planner.Plan) planner.Request {
	r := planner.Request{Dims: dims, Boundary: rapid.Bool().Draw(t, "boundary"), Lowered: rapid.IntRange(0, 3).Draw(t, "lowered") == 0}
	size := func() planner.Size {
		return rapid.SampledFrom([]planner.Size{
			{}, {Bytes: 1}, {Bytes: max(plain.Floor.Peak-1, 0)}, {Bytes: plain.Floor.Peak}, {Bytes: max(plain.Arena-1, 0)}, {Bytes: plain.Arena},
			{Bytes: math.MaxInt64}, {Percent: 1e-9}, {Percent: 50}, {Percent: 99.9}, {Percent: 100}, {Percent: 1e6}, {Percent: 1e30}}).Draw(t, "budget")
	}
	which := rapid.IntRange(0, 4).Draw(t, "which")
	if which%2 == 0 {
		r.Budget = size()
	}
	if which > 0 && which < 4 {
		r.ActivationBudget = size()
	}
	r.MaxOverhead = rapid.SampledFrom([]float64{0, 0, 0, 1e-300, 0.1, 1e9}).Draw(t, "overhead")
	switch rapid.IntRange(0, 5).Draw(t, "how") {
	case 0:
		names, _ := planner.Strategies()
		r.Strategy = rapid.SampledFrom(names).Draw(t, "strategy")
	case 1:
		r.Level = rapid.IntRange(1, 2).Draw(t, "level")
	case 2:
		r.Again = randomAgain(t, g, dims)
	case 3:
		r.Costs = map[string]float64{}
		for _, n := range g.Nodes {
			r.Costs[n.Name] = rapid.SampledFrom([]float64{0, 1, 1e-300, 1e150}).Draw(t, "rate")
		}
	}
	return r
}

// TestOddGraphs: a plan of an odd graph for an odd request is sound, comes back from its
// file, has formulas, which hold at other sizes too, and chains, and computes the same bits
// as a graph of its own; where there is none, an error says so, and what it advises fits.
func TestOddGraphs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	plans := 0
	rapid.Check(t, func(t *rapid.T) {
		g, dims := oddGraph(t, 8), oddDims(t)
		plain, err := planner.Make(g, planner.Request{Dims: dims})
		if err != nil {
			return // its order reads what it has replaced, or two dims differ
		}
		r := oddRequest(t, g, dims, plain)
		p, err := planner.Make(g, r)
		if err != nil {
			var be *planner.BudgetError
			if !errors.As(err, &be) {
				t.Fatalf("%+v: %v\n%s", r, err, g)
			}
			if be.Want+be.Fixed < 0 {
				t.Fatalf("%+v wants %d bytes: %v\n%s", r, be.Want+be.Fixed, be, g)
			}
			all, _ := planner.Advise(g, r, be)
			for _, c := range all {
				if _, err := planner.Make(g, follow(t, r, c)); err != nil {
					t.Fatalf("advised %+v of %+v: %v\n%s", c, r, err, g)
				}
			}
			p, r = plain, planner.Request{Dims: dims}
		}
		plans++
		if room, limited := p.Room(); limited && p.Arena > room {
			t.Fatalf("%d bytes for %+v\n%s", p.Arena, r, g)
		}
		sound(t, p)
		if _, _, err := p.Chained(); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		f, err := p.Formulas()
		if err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		if peak, ok := peakAt(p, f, dims); !ok || peak != p.Result.Peak {
			t.Fatalf("the formula says %d, %v, the plan %d\n%s", peak, ok, p.Result.Peak, g)
		}
		there := oddDims(t)
		if peak, ok := peakAt(p, f, there); ok {
			if q, err := p.Resize(there); err != nil || peak != q.Result.Peak {
				t.Fatalf("the formula says %d at %v, the plan resized %+v, %v\n%s", peak, there, q, err, g)
			}
		}
		if err := planfile.Of(p, "m.onnx").Save(path); err != nil {
			t.Fatalf("%v\n%s", err, g)
		}
		file, err := planfile.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := file.BindAs(g, planner.Request{Costs: r.Costs}); err != nil || !slices.Equal(p.Steps, q.Steps) {
			t.Fatalf("%v, of %+v\n%s", err, r, g)
		}
		sameRewritten(t, p, g, dims)
	})
	if plans == 0 {
		t.Error("no graph has a plan")
	}
}

// TestOddLargest: the largest size of a dim has a sound plan within the budgets, and one
// more has none.
func TestOddLargest(t *testing.T) {
	plans := 0
	rapid.Check(t, func(t *rapid.T) {
		g, dims := oddGraph(t, 8), oddDims(t)
		plain, err := planner.Make(g, planner.Request{Dims: dims})
		if err != nil || len(g.Names()) == 0 {
			return
		}
		times := func(bytes int64) planner.Size {
			return planner.Size{Bytes: max(bytes*rapid.Int64Range(1, 4).Draw(t, "times"), 1)}
		}
		r := planner.Request{Dims: dims, Budget: times(plain.Memory.Total)}
		if rapid.Bool().Draw(t, "arena") {
			r.ActivationBudget = times(plain.Arena)
		}
		dim := rapid.SampledFrom(g.Names()).Draw(t, "dim")
		p, err := planner.Largest(g, r, dim, 0)
		if err != nil {
			return // two dims differ, or the budgets are too small for any size
		}
		plans++
		sound(t, p)
		if room, _ := p.Room(); p.Arena > room {
			t.Fatalf("%s %d has an arena of %d bytes for %d\n%s", dim, p.Request.Dims[dim], p.Arena, room, g)
		}
		more := r
		more.Dims = maps.Clone(p.Request.Dims)
		if more.Dims[dim]++; more.Dims[dim] > 1<<40 {
			return // it takes no bytes
		}
		if _, err := planner.Make(g, more); err == nil {
			t.Fatalf("%s %d has a plan for %+v, %d is said to be the largest\n%s", dim, more.Dims[dim], r, p.Request.Dims[dim], g)
		}
	})
	if plans == 0 {
		t.Error("no size has a plan")
	}
}
