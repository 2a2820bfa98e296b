package planner_test

import (
	"fmt"

	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/planner"
)

// drawing builds a random graph over matrices [batch, w].
type drawing struct {
	t      *rapid.T
	g      *graph.Graph
	b      *graph.Builder
	values []*graph.Value // what nodes may read
	params int
}

func newDrawing(t *rapid.T) *drawing {
	g := graph.New(kernels.Library, "random")
	d := &drawing{t: t, g: g, b: graph.NewBuilder(g)}
	d.values = []*graph.Value{d.define(graph.Input, "x", 4), d.define(graph.Input, "y", 2)}
	return d
}

func (d *drawing) define(kind graph.Kind, name string, width int64) *graph.Value {
	v, err := d.b.Define(kind, name, graph.Float32, graph.Shape{graph.Sym("batch"), graph.Num(width)})
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

func (d *drawing) param(shape ...int) *graph.Value {
	d.params++
	x := graph.NewTensor(graph.Float32, shape...)
	for i := range x.Len() {
		x.SetFloat(i, float64((i*104729+d.params*17)%11-5)/8)
	}
	s := make(graph.Shape, len(shape))
	for i, n := range shape {
		s[i] = graph.Num(int64(n))
	}
	v, err := d.b.Define(graph.Param, fmt.Sprintf("p%d", d.params), graph.Float32, s)
	if err != nil {
		d.t.Fatal(err)
	}
	v.Data = graph.Bytes(x.Bytes)
	return v
}

func (d *drawing) pick() *graph.Value { return rapid.SampledFrom(d.values).Draw(d.t, "input") }

// alike picks a value of v's width.
func (d *drawing) alike(v *graph.Value) *graph.Value {
	var same []*graph.Value
	for _, w := range d.values {
		if w.Shape.Equal(v.Shape) {
			same = append(same, w)
		}
	}
	return rapid.SampledFrom(same).Draw(d.t, "other")
}

func width(v *graph.Value) int64 { n, _ := v.Shape[1].Const(); return n }

// menu is the nodes that a random graph is made of: cheap and dear ones, in
// place and not, views, several outputs, random ones, and ones that read a
// parameter without a gradient.
var menu = []func(d *drawing) []*graph.Value{
	func(d *drawing) []*graph.Value { return one(d.b.Op("Tanh", nil, d.pick())) },
	func(d *drawing) []*graph.Value { return one(d.b.Op("Gelu", nil, d.pick())) },
	func(d *drawing) []*graph.Value { return one(d.b.Op("Softmax", nil, d.pick())) },
	func(d *drawing) []*graph.Value { x := d.pick(); return one(d.b.Op("Add", nil, x, d.alike(x))) },
	func(d *drawing) []*graph.Value { x := d.pick(); return one(d.b.Op("Mul", nil, x, d.alike(x))) },
	func(d *drawing) []*graph.Value {
		x := d.pick()
		w := rapid.SampledFrom([]int{2, 4, 6}).Draw(d.t, "width")
		return one(d.b.Op("MatMul", nil, x, d.param(int(width(x)), w)))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return one(d.b.Op("LayerNormalization", nil, x, d.param(int(width(x))), d.param(int(width(x)))))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		flat := d.b.Op("Reshape", nil, x, d.b.Ints(graph.Num(-1)))
		back := d.b.Op("Reshape", nil, d.b.Op("Neg", nil, flat), d.b.Ints(x.Shape...))
		return []*graph.Value{back, d.b.Op("Reshape", nil, flat, d.b.Ints(x.Shape...))}
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		if width(x) < 2 {
			return nil
		}
		return d.b.Ops("Split", graph.A{"axis": 1}, 2, x, d.b.Ints(graph.Num(width(x)/2), graph.Num(width(x)-width(x)/2)))
	},
	func(d *drawing) []*graph.Value {
		x, y := d.pick(), d.pick()
		if width(x)+width(y) > 16 {
			return nil
		}
		return one(d.b.Op("Concat", graph.A{"axis": 1}, x, y))
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		return d.b.Ops("Dropout", nil, 2, x, d.b.Num(graph.Float32, 0.5), d.b.Num(graph.Bool, 1))[:1]
	},
	func(d *drawing) []*graph.Value {
		x := d.pick()
		if d.params == 0 {
			return nil
		}
		p := d.g.ByName(fmt.Sprintf("p%d", rapid.IntRange(1, d.params).Draw(d.t, "param")))
		sign := d.b.Op("Cast", graph.A{"to": 1}, d.b.Op("Greater", nil, p, d.b.Num(graph.Float32, 0)))
		return one(d.b.Op("Mul", nil, x, d.b.Op("ReduceMean", graph.A{"keepdims": 0}, sign)))
	},
}

func one(v *graph.Value) []*graph.Value { return []*graph.Value{v} }

func (d *drawing) nodes(most int) {
	for range rapid.IntRange(1, most).Draw(d.t, "nodes") {
		d.values = append(d.values, menu[rapid.IntRange(0, len(menu)-1).Draw(d.t, "op")](d)...)
	}
}

// randomStep is a training step of a random forward graph.
func randomStep(t *rapid.T, most int) *graph.Graph {
	d := newDrawing(t)
	d.nodes(most)
	var sums []*graph.Value
	for _, v := range d.values[2:] {
		sums = append(sums, d.b.Op("ReduceMean", graph.A{"keepdims": 0}, v))
	}
	sums = append(sums, d.b.Op("ReduceMean", graph.A{"keepdims": 0}, d.param(2)))
	loss := d.b.Op("Sum", nil, sums...)
	d.g.Outputs = []*graph.Value{loss}
	if len(d.values) > 2 && rapid.Bool().Draw(t, "two outputs") {
		if v := d.pick(); v.Def != nil {
			d.g.Outputs = append(d.g.Outputs, v)
		}
	}
	return d.step(loss, "", "sgd", "adamw")
}

// step is a training step of the graph, by one of some optimizers.
func (d *drawing) step(loss *graph.Value, optimizers ...string) *graph.Graph {
	opt := autograd.Options{
		Loss:      loss.Name,
		KeepGrads: rapid.Bool().Draw(d.t, "keep"),
		Optimizer: rapid.SampledFrom(optimizers).Draw(d.t, "optimizer"),
	}
	if opt.Optimizer != "" && rapid.Bool().Draw(d.t, "clip") {
		opt.ClipNorm = 0.5
	}
	if rapid.Bool().Draw(d.t, "micro") {
		opt.MicroBatches = 2
	}
	step, err := autograd.TrainStep(d.g, opt)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.g)
	}
	return step
}

// randomWhole is a graph whose backward nodes read whatever they like.
func randomWhole(t *rapid.T, most int) *graph.Graph {
	d := newDrawing(t)
	d.nodes(most)
	d.b.Phase = graph.Backward
	d.nodes(most)
	var last *graph.Value
	for _, v := range d.values {
		if v.Def != nil && (last == nil || v.Def.ID > last.Def.ID) {
			last = v
		}
	}
	if last == nil {
		last = d.b.Op("Tanh", nil, d.values[0])
	}
	d.g.Outputs = append(d.g.Outputs, last)
	for _, v := range d.values {
		if v.Def != nil && v != last && rapid.IntRange(0, 4).Draw(t, "output") == 0 {
			d.g.Outputs = append(d.g.Outputs, v)
		}
	}
	m := d.define(graph.State, "m", width(last))
	d.g.Updates = []graph.Update{{State: m, New: last}}
	return d.g
}

// randomGraph is one or the other. Of some, somebody holds values, and some are run by whoever
// has an allocator of his own.
func randomGraph(t *rapid.T, most int) *graph.Graph {
	draw := randomWhole
	if rapid.Bool().Draw(t, "step") {
		draw = randomStep
	}
	g := draw(t, most)
	if rapid.IntRange(0, 2).Draw(t, "held") == 0 {
		hold(t, g)
	}
	if rapid.IntRange(0, 3).Draw(t, "allocated") == 0 {
		g.Recorded = []graph.Recorded{{Name: graph.Allocator, Value: "somebody's"}}
	}
	return g
}

// hold has somebody hold some values, up to nodes behind their makers.
func hold(t *rapid.T, g *graph.Graph) {
	for range rapid.IntRange(1, 4).Draw(t, "holds") {
		v := rapid.SampledFrom(g.Values).Draw(t, "held value")
		from := 0
		if v.Def != nil {
			from = int(v.Def.ID)
		}
		until := g.Nodes[rapid.IntRange(from, len(g.Nodes)-1).Draw(t, "until")]
		if !until.Op.View {
			g.Holds = append(g.Holds, graph.Hold{Value: v, Until: until})
		}
	}
}

func randomDims(t *rapid.T) map[string]int64 {
	return map[string]int64{"batch": rapid.Int64Range(1, 40).Draw(t, "batch")}
}

// randomAgain is some of the nodes that may run again.
func randomAgain(t *rapid.T, g *graph.Graph, dims map[string]int64) (names []string) {
	lab, err := planner.NewLab(g, dims)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	for _, n := range lab.Repeatable() {
		if rapid.Bool().Draw(t, "again") {
			names = append(names, n.Name)
		}
	}
	return names
}
