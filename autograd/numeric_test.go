package autograd_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"memopt/autograd"
	"memopt/internal/graph"
	"memopt/kernels"
)

// drawing builds a random forward graph in double precision over matrices
// [batch, w]. Its nodes are smooth, so that differences tell gradients.
type drawing struct {
	t      *rapid.T
	g      *graph.Graph
	b      *graph.Builder
	values []*graph.Value
	params int
}

func newDrawing(t *rapid.T) *drawing {
	g := graph.New(kernels.Library, "random")
	d := &drawing{t: t, g: g, b: graph.NewBuilder(g)}
	x, err := d.b.Define(graph.Input, "x", graph.Float64, graph.Shape{graph.Sym("batch"), graph.Num(4)})
	if err != nil {
		t.Fatal(err)
	}
	d.values = []*graph.Value{x}
	d.values = append(d.values, d.b.Op("Add", nil, x, d.param(4)))
	return d
}

func (d *drawing) param(shape ...int) *graph.Value {
	d.params++
	x := graph.NewTensor(graph.Float64, shape...)
	s := make(graph.Shape, len(shape))
	for i, n := range shape {
		s[i] = graph.Num(int64(n))
	}
	for i := range x.Len() {
		x.SetFloat(i, math.Sin(float64(i*13+d.params*7))*0.7)
	}
	v, err := d.b.Define(graph.Param, fmt.Sprintf("p%d", d.params), graph.Float64, s)
	if err != nil {
		d.t.Fatal(err)
	}
	v.Data = graph.Bytes(x.Bytes)
	return v
}

func (d *drawing) pick() *graph.Value { return rapid.SampledFrom(d.values).Draw(d.t, "input") }

func (d *drawing) alike(v *graph.Value) *graph.Value {
	var same []*graph.Value
	for _, w := range d.values {
		if w.Shape.Equal(v.Shape) {
			same = append(same, w)
		}
	}
	return rapid.SampledFrom(same).Draw(d.t, "other")
}

func (d *drawing) num(x float64) *graph.Value { return d.b.Num(graph.Float64, x) }

func width(v *graph.Value) int { n, _ := v.Shape[1].Const(); return int(n) }

var menu = []func(d *drawing) *graph.Value{
	func(d *drawing) *graph.Value { return d.b.Op("Tanh", nil, d.pick()) },
	func(d *drawing) *graph.Value { return d.b.Op("Sigmoid", nil, d.pick()) },
	func(d *drawing) *graph.Value { return d.b.Op("Gelu", nil, d.pick()) },
	func(d *drawing) *graph.Value { return d.b.Op("Sin", nil, d.pick()) },
	func(d *drawing) *graph.Value { return d.b.Op("Softmax", nil, d.pick()) },
	func(d *drawing) *graph.Value { x := d.pick(); return d.b.Op("Add", nil, x, d.alike(x)) },
	func(d *drawing) *graph.Value { x := d.pick(); return d.b.Op("Mul", nil, x, d.alike(x)) },
	func(d *drawing) *graph.Value { x := d.pick(); return d.b.Op("Sub", nil, d.param(width(x)), x) },
	func(d *drawing) *graph.Value { // a quotient that is never large
		x := d.pick()
		return d.b.Op("Div", nil, d.alike(x), d.b.Op("Add", nil, d.b.Op("Mul", nil, x, x), d.num(1)))
	},
	func(d *drawing) *graph.Value {
		x := d.pick()
		w := rapid.SampledFrom([]int{2, 3, 4}).Draw(d.t, "width")
		return d.b.Op("MatMul", nil, x, d.param(width(x), w))
	},
	func(d *drawing) *graph.Value { // one matrix used twice
		x := d.pick()
		w := d.param(width(x), width(x))
		return d.b.Op("MatMul", nil, d.b.Op("Tanh", nil, d.b.Op("MatMul", nil, x, w)), w)
	},
	func(d *drawing) *graph.Value { // a view and back
		x := d.pick()
		flat := d.b.Op("Reshape", nil, x, d.b.Ints(graph.Num(-1)))
		return d.b.Op("Reshape", nil, d.b.Op("Sin", nil, flat), d.b.Ints(x.Shape...))
	},
	func(d *drawing) *graph.Value { // one of two outputs, or both
		x := d.pick()
		if width(x) < 2 {
			return x
		}
		parts := d.b.Ops("Split", graph.A{"axis": 1}, 2, x, d.b.Ints(graph.Num(1), graph.Num(int64(width(x)-1))))
		if rapid.Bool().Draw(d.t, "both") {
			return d.b.Op("Concat", graph.A{"axis": 1}, parts[1], parts[0])
		}
		return parts[1]
	},
	func(d *drawing) *graph.Value { // broadcast along both dims
		x := d.pick()
		return d.b.Op("Mul", nil, x, d.b.Op("ReduceMean", nil, x))
	},
	func(d *drawing) *graph.Value { // an integer path beside
		x := d.pick()
		sign := d.b.Op("Cast", graph.A{"to": 11}, d.b.Op("Greater", nil, d.values[0], d.num(0)))
		if width(x) != 4 {
			return x
		}
		return d.b.Op("Mul", nil, x, sign)
	},
	func(d *drawing) *graph.Value { // rows of a table
		x := d.pick()
		rows := d.b.Ints(graph.Num(2), graph.Num(0), graph.Num(2))
		table := d.b.Op("Gather", nil, d.param(3, width(x)), rows)
		return d.b.Op("Add", nil, x, d.b.Op("ReduceSum", nil, table, d.b.Ints(graph.Num(0))))
	},
	func(d *drawing) *graph.Value {
		x := d.pick()
		return d.b.Op("Dropout", nil, x, d.num(0.25), d.b.Num(graph.Bool, 1))
	},
}

// randomForward has one loss that is a mean over the batch, built of several.
func randomForward(t *rapid.T, most int) *graph.Graph {
	d := newDrawing(t)
	for range rapid.IntRange(1, most).Draw(t, "nodes") {
		d.values = append(d.values, menu[rapid.IntRange(0, len(menu)-1).Draw(t, "op")](d))
	}
	last := d.values[len(d.values)-1]
	square := d.b.Op("Mul", nil, last, last)
	parts := []*graph.Value{
		d.b.Op("ReduceMean", graph.A{"keepdims": 0}, square),
		d.b.Op("ReduceMean", graph.A{"keepdims": 0}, d.b.Op("Sin", nil, d.pick())),
	}
	loss := d.b.Op("Sub", nil, d.b.Op("Sum", nil, parts...), d.b.Op("ReduceMean", graph.A{"keepdims": 0}, d.values[1]))
	d.g.Outputs = []*graph.Value{loss}
	return d.g
}

// machine interprets steps and keeps the states between them.
type machine struct {
	t      *rapid.T
	g      *graph.Graph
	b      *graph.Binding
	states map[string]*graph.Tensor
}

func newMachine(t *rapid.T, g *graph.Graph, batch int) *machine {
	b, err := graph.Bind(map[string]int64{"batch": int64(batch)})
	if err != nil {
		t.Fatal(err)
	}
	return &machine{t, g, b, map[string]*graph.Tensor{}}
}

// run feeds rows of x from a row on; accumulate leaves out the updates. The
// result is by value ID.
func (m *machine) run(row int, micro int64, accumulate bool) []*graph.Tensor {
	given := map[string]*graph.Tensor{}
	for name, x := range m.states {
		given[name] = x
	}
	for _, v := range m.g.Inputs {
		shape, err := m.b.Shape(v.Shape)
		if err != nil {
			m.t.Fatal(err)
		}
		x := graph.NewTensor(v.Type, shape...)
		switch v.Name {
		case autograd.LearningRate:
			x.SetFloat(0, learningRate)
		case autograd.MicroBatch:
			x.SetInt(0, micro)
		default:
			for i := range x.Len() {
				x.SetFloat(i, math.Cos(float64(row*4+i))*1.3)
			}
		}
		given[v.Name] = x
	}
	ts, err := kernels.Interpret(m.g, m.b, given)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, m.g)
	}
	for _, u := range m.g.Updates {
		if !accumulate || u.New.Def.Phase != graph.Updating {
			m.states[u.State.Name] = ts[u.New.ID]
		}
	}
	return ts
}

// learningRate is a power of two: float32 holds it exactly.
const learningRate = 0.125

func mustStep(t *rapid.T, g *graph.Graph, o autograd.Options) *graph.Graph {
	step, err := autograd.TrainStep(g, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	return step
}

func floats(x *graph.Tensor) []float64 {
	out := make([]float64, x.Len())
	for i := range out {
		out[i] = x.Float(i)
	}
	return out
}

func near(t *rapid.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	diff, norm := 0.0, 0.0
	for i := range want {
		diff += (got[i] - want[i]) * (got[i] - want[i])
		norm += want[i] * want[i]
	}
	if !(math.Sqrt(diff) <= tolerance*(math.Sqrt(norm)+1e-3)) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// TestGradients holds every gradient against central differences of the loss.
func TestGradients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomForward(t, 8)
		step := mustStep(t, g, autograd.Options{})
		m := newMachine(t, step, 3)
		ts := m.run(0, 0, false)
		given := map[*graph.Value]bool{}
		for _, d := range step.Grads {
			given[d.Param] = true
			want := make([]float64, ts[d.Param.ID].Len())
			for i := range want {
				const h = 1e-5
				loss := func(by float64) float64 {
					x := graph.TensorOf(graph.Float64, floats(ts[d.Param.ID]), ts[d.Param.ID].Shape...)
					x.SetFloat(i, x.Float(i)+by)
					n := newMachine(t, g, 3)
					n.states[d.Param.Name] = x
					return n.run(0, 0, false)[n.g.Outputs[0].ID].Float(0)
				}
				want[i] = (loss(h) - loss(-h)) / (2 * h)
			}
			near(t, fmt.Sprintf("gradient of %s in\n%s", d.Param.Name, g), floats(ts[d.Grad.ID]), want, 1e-6)
		}
	})
}

// TestMicroBatches: the mean of the gradients of equal parts of a batch is the
// gradient of the batch, and updates it alike.
func TestMicroBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := linear(t)
		parts := rapid.IntRange(2, 4).Draw(t, "parts")
		clip := rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "clip")
		o := autograd.Options{Optimizer: rapid.SampledFrom([]string{"sgd", "momentum", "adamw"}).Draw(t, "optimizer"), ClipNorm: clip}
		one := newMachine(t, mustStep(t, g, o), 2*parts)
		o.MicroBatches = parts
		many := newMachine(t, mustStep(t, g, o), 2)
		for range 3 {
			one.run(0, 0, false)
			for i := range parts {
				many.run(2*i, int64(i), i < parts-1)
			}
			for _, d := range one.g.Grads {
				near(t, d.Param.Name, floats(many.states[d.Param.Name]), floats(one.states[d.Param.Name]), 1e-5)
			}
		}
	})
}

// linear is a graph whose loss is a plain mean over rows.
func linear(t *rapid.T) *graph.Graph {
	d := newDrawing(t)
	for range rapid.IntRange(1, 3).Draw(t, "layers") {
		x := d.values[len(d.values)-1]
		h := d.b.Op("Add", nil, d.b.Op("MatMul", nil, x, d.param(width(x), 3)), d.param(3))
		d.values = append(d.values, d.b.Op("Tanh", nil, h))
	}
	last := d.values[len(d.values)-1]
	loss := d.b.Op("ReduceMean", graph.A{"keepdims": 0}, d.b.Op("Mul", nil, last, last))
	d.g.Outputs = []*graph.Value{loss}
	return d.g
}

// TestClipping: the update goes along the gradient and is no longer than the
// limit, all parameters taken together.
func TestClipping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomForward(t, 6)
		limit := rapid.Float64Range(1e-3, 10).Draw(t, "limit")
		m := newMachine(t, mustStep(t, g, autograd.Options{Optimizer: "sgd", ClipNorm: limit}), 3)
		ts := m.run(0, 0, false)
		norm := 0.0
		for _, d := range m.g.Grads {
			for _, x := range floats(ts[d.Grad.ID]) {
				norm += x * x
			}
		}
		factor := min(1, limit/math.Sqrt(norm))
		moved := 0.0
		for _, d := range m.g.Grads {
			before, after, grad := floats(ts[d.Param.ID]), floats(m.states[d.Param.Name]), floats(ts[d.Grad.ID])
			want := make([]float64, len(grad))
			for i := range grad {
				want[i] = before[i] - learningRate*factor*grad[i]
				moved += (after[i] - before[i]) * (after[i] - before[i]) / learningRate / learningRate
			}
			near(t, d.Param.Name, after, want, 1e-3)
		}
		if length := math.Sqrt(moved); length > limit*(1+1e-6) || math.Sqrt(norm) < 0.99*limit && math.Abs(length-math.Sqrt(norm)) > 1e-6*length {
			t.Fatalf("an update of length %v for a gradient of %v and a limit of %v", length, math.Sqrt(norm), limit)
		}
	})
}

// rules are the optimizers as their authors write them: one element, step t.
var rules = []struct {
	name  string
	hyper map[string]float64
	slots int
	step  func(p, g float64, s []float64, t float64) float64
	trust bool // step's stride is only a direction, as long as the parameter
}{
	{"sgd", nil, 0, func(p, g float64, _ []float64, _ float64) float64 { return p - learningRate*g }, false},
	{"sgd", map[string]float64{"weight_decay": 0.25}, 0, func(p, g float64, _ []float64, _ float64) float64 {
		return p - learningRate*(g+0.25*p)
	}, false},
	{"momentum", nil, 1, func(p, g float64, s []float64, _ float64) float64 {
		s[0] = 0.9*s[0] + g
		return p - learningRate*s[0]
	}, false},
	{"momentum", map[string]float64{"momentum": 0.5, "nesterov": 1, "weight_decay": 0.1}, 1, func(p, g float64, s []float64, _ float64) float64 {
		g += 0.1 * p
		s[0] = 0.5*s[0] + g
		return p - learningRate*(g+0.5*s[0])
	}, false},
	{"momentum", map[string]float64{"dampening": 0.5}, 1, func(p, g float64, s []float64, t float64) float64 {
		if t == 1 {
			s[0] = g
		} else {
			s[0] = 0.9*s[0] + 0.5*g
		}
		return p - learningRate*s[0]
	}, false},
	{"adamw", nil, 2, adamw(0.9, 0.999, 1e-8, 0.01), false},
	{"adamw", map[string]float64{"beta1": 0.5, "beta2": 0.75, "epsilon": 0.01, "weight_decay": 0}, 2, adamw(0.5, 0.75, 0.01, 0), false},
	{"adagrad", nil, 1, adagrad(1e-10, 0, 0), false},
	{"adagrad", map[string]float64{"epsilon": 0.01, "weight_decay": 0.25, "lr_decay": 0.5}, 1, adagrad(0.01, 0.25, 0.5), false},
	{"lamb", nil, 2, lamb(0.9, 0.999, 1e-6, 0.01), true},
	{"lamb", map[string]float64{"beta1": 0.5, "beta2": 0.75, "epsilon": 0.01, "weight_decay": 0}, 2, lamb(0.5, 0.75, 0.01, 0), true},
}

func adagrad(epsilon, decay, slower float64) func(p, g float64, s []float64, t float64) float64 {
	return func(p, g float64, s []float64, t float64) float64 {
		g += decay * p
		s[0] += g * g
		return p - learningRate/(1+(t-1)*slower)*g/(math.Sqrt(s[0])+epsilon)
	}
}

func lamb(beta1, beta2, epsilon, decay float64) func(p, g float64, s []float64, t float64) float64 {
	return func(p, g float64, s []float64, t float64) float64 {
		s[0] = beta1*s[0] + (1-beta1)*g
		s[1] = beta2*s[1] + (1-beta2)*g*g
		m, v := s[0]/(1-math.Pow(beta1, t)), s[1]/(1-math.Pow(beta2, t))
		return p - learningRate*(m/(math.Sqrt(v)+epsilon)+decay*p)
	}
}

func adamw(beta1, beta2, epsilon, decay float64) func(p, g float64, s []float64, t float64) float64 {
	return func(p, g float64, s []float64, t float64) float64 {
		p *= 1 - learningRate*decay
		s[0] = beta1*s[0] + (1-beta1)*g
		s[1] = beta2*s[1] + (1-beta2)*g*g
		m, v := s[0]/(1-math.Pow(beta1, t)), s[1]/(1-math.Pow(beta2, t))
		return p - learningRate*m/(math.Sqrt(v)+epsilon)
	}
}

func length(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// TestOptimizers runs three steps beside the rules.
func TestOptimizers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := linear(t)
		rule := rapid.SampledFrom(rules).Draw(t, "rule")
		m := newMachine(t, mustStep(t, g, autograd.Options{Optimizer: rule.name, Hyper: rule.hyper}), 3)
		params, slots := map[string][]float64{}, map[string][][]float64{}
		for step := range 3 {
			ts := m.run(step, 0, false)
			for _, d := range m.g.Grads {
				name, grad := d.Param.Name, floats(ts[d.Grad.ID])
				if step == 0 {
					params[name] = floats(ts[d.Param.ID])
					slots[name] = make([][]float64, len(grad))
				}
				for i := range grad {
					if step == 0 {
						slots[name][i] = make([]float64, rule.slots)
					}
				}
				old, stride := params[name], make([]float64, len(grad))
				for i := range grad {
					stride[i] = rule.step(old[i], grad[i], slots[name][i], float64(step+1)) - old[i]
				}
				ratio := 1.0
				if p, d := length(old), length(stride)/learningRate; rule.trust && p > 0 && d > 0 {
					ratio = p / d
				}
				for i := range stride {
					old[i] += ratio * stride[i]
				}
				near(t, fmt.Sprintf("%s after step %d of %s", name, step+1, rule.name), floats(m.states[name]), params[name], 1e-9)
			}
		}
		if n := m.states[autograd.Step].Int(0); n != 3 {
			t.Fatalf("the step counter is at %d", n)
		}
	})
}
