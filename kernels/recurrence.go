package kernels

import (
	"math"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// RNN, GRU and LSTM are rewritten into two parts: one product of the inputs of all time steps
// with W, and for each direction a Recurrence, which is sequential. Gates are concatenated in
// Z, R and Rb in ONNX's order: one for an RNN; z, r, h for a GRU; i, o, f, c for an LSTM.
const recurrenceAttrs = "cell string=rnn, reverse int=0, clip float=0, linear_before_reset int=0, input_forget int=0, " +
	"activations strings, activation_alpha floats, activation_beta floats"

var _ = define(graph.Op{
	Name:   "Recurrence",
	Domain: own,
	Doc:    "the time steps of a recurrent layer, one direction: h(t) from Z(t) = X(t)·Wᵀ + b, R·h(t−1) and the cell state",
	In:     "Z, R, Rb?, sequence_lens?, initial_h?, initial_c?, P?",
	Out:    "Y, Y_h?, Y_c?",
	Attrs:  recurrenceAttrs,
	Infer: func(n *graph.Node) {
		z, h := inferRecurrence(n, 0)
		n.Set(0, n.Inputs[0].Type, graph.Shape{z[0], z[1], h})
		for i := 1; i < len(n.Outputs); i++ {
			n.Set(i, n.Inputs[0].Type, graph.Shape{z[1], h})
		}
		if n.Output(2) != nil && cells[n.Str("cell")].states == 0 {
			n.Fail("cell %s has no output Y_c", n.Str("cell"))
		}
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		in := make([]*graph.Value, 10)
		copy(in, n.Inputs)
		copy(in[7:], dy)
		d := b.Apply(b.Graph.Lib.Find(own, "RecurrenceGrad", 0), convCopy(n), 6, in...)
		dx := []*graph.Value{d[0], d[1], ifGiven(n.In(2), d[2]), nil, ifGiven(n.In(4), d[3]), ifGiven(n.In(5), d[4]), ifGiven(n.In(6), d[5])}
		return dx[:len(n.Inputs)]
	},
	Eval: func(c *graph.Call) {
		r := newRecurrence(c.Node, c.In, make([]float64, recurrenceScratch(c.In[0].Shape, c.In[1].Shape)))
		r.forward(f32.Serial, c.Out)
	},
	Fast: func(c *graph.Call) {
		r := newRecurrence(c.Node, c.In, (&graph.Tensor{Type: graph.Float64, Bytes: c.Scratch}).F64())
		r.forward(c.Parallel, c.Out)
	},
	Scratch: func(n *graph.Node) graph.Dim { return recurrenceBytes(n) },
	Lower:   lowerRecurrence,
	Flops:   func(n *graph.Node) graph.Dim { return recurrenceFlops(n, 2) },
	Tests:   graph.Tests{Work: eachStep(2)},
	// Dominated by the products with R, which are sequential.
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[3,2,4], f32[4,4] -> y",
		"f32[3,2,4], f32[4,4], f32[4], i64{3, 1}, f32[2,4]; reverse=1 activations=[\"Relu\"] -> y, h",
		"f32[2,3,9], f32[9,3], f32[9]; cell=\"gru\" -> y, h",
		"f32[4,2,6], f32[6,2], f32[6], i64{2, 4}, f32[2,2]; cell=\"gru\" linear_before_reset=1 reverse=1 -> y, h",
		"f32[3,2,12], f32[12,3], f32[12]; cell=\"lstm\"",
		"f32[3,2,8], f32[8,2], f32[8], i64{0, 3}, f32[2,2], f32[2,2], f32[6]; cell=\"lstm\" reverse=1",
		"f32[2,2,8], f32[8,2], _, _, _, f32[2,2]; cell=\"lstm\" input_forget=1 clip=0.5 activations=[\"HardSigmoid\", \"Softsign\", \"Elu\"] activation_alpha=[0.3, 1.0, 0.7] activation_beta=[0.4] -> y, _, c",
		"f16[2,1,4], f16[4,1], f16[4]; cell=\"lstm\"",
		"f32[0,2,4], f32[4,4] -> y",
		"f32[3,0,8], f32[8,2]; cell=\"lstm\"",
	},
})

var _ = define(graph.Op{
	Name:   "RecurrenceGrad",
	Domain: own,
	Doc:    "the gradients of Recurrence; runs its time steps again first",
	In:     "Z, R, Rb?, sequence_lens?, initial_h?, initial_c?, P?, dY?, dY_h?, dY_c?",
	Out:    "dZ?, dR?, dRb?, dinitial_h?, dinitial_c?, dP?",
	Attrs:  recurrenceAttrs,
	Infer: func(n *graph.Node) {
		z, h := inferRecurrence(n, 7)
		t, state := n.Inputs[0].Type, graph.Shape{z[1], h}
		for i, s := range []graph.Shape{z, n.Inputs[1].Shape, {z[2]}, state, state, {h.Mul(graph.Num(3))}} {
			n.Set(i, t, s)
		}
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		r := newRecurrence(c.Node, c.In, make([]float64, recurrenceScratch(c.In[0].Shape, c.In[1].Shape)))
		r.backward(f32.Serial, c.In[7:], c.Out)
	},
	Fast: func(c *graph.Call) {
		r := newRecurrence(c.Node, c.In, (&graph.Tensor{Type: graph.Float64, Bytes: c.Scratch}).F64())
		r.backward(c.Parallel, c.In[7:], c.Out)
	},
	Scratch:   func(n *graph.Node) graph.Dim { return recurrenceBytes(n) },
	Lower:     lowerRecurrenceGrad,
	Flops:     func(n *graph.Node) graph.Dim { return recurrenceFlops(n, 6) },
	Tests:     graph.Tests{Work: eachStep(6)},
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[3,2,4], f32[4,4], _, _, _, _, _, f32[3,2,4] -> z, r",
		"f32[3,2,4], f32[4,4], f32[4], i64{3, 1}, f32[2,4], _, _, f32[3,2,4], f32[2,4]; reverse=1 -> z, r, b, h",
		"f32[2,3,9], f32[9,3], f32[9], _, _, _, _, _, f32[3,3]; cell=\"gru\" -> z, r, b",
		"f32[3,2,12], f32[12,3], f32[12], i64{2, 3}, f32[2,3], f32[2,3], f32[9], f32[3,2,3], _, f32[2,3]; cell=\"lstm\"",
	},
})

func ifGiven(in, d *graph.Value) *graph.Value {
	if in == nil {
		return nil
	}
	return d
}

// cells has the kinds of recurrent layers by name.
var cells = map[string]struct {
	gates, states int
	activations   []string // their defaults, in ONNX's order
	step          func(r *recurrence, row int, s *step)
	back          func(r *recurrence, row int, s *step, g *stepGrad)
}{
	"rnn":  {1, 0, []string{"Tanh"}, stepRNN, backRNN},
	"gru":  {3, 0, []string{"Sigmoid", "Tanh"}, stepGRU, backGRU},
	"lstm": {4, 1, []string{"Sigmoid", "Tanh", "Tanh"}, stepLSTM, backLSTM},
}

// inferRecurrence checks the inputs before number from, where gradients begin, and returns Z's
// shape and the hidden size.
func inferRecurrence(n *graph.Node, from int) (z graph.Shape, h graph.Dim) {
	cell, ok := cells[n.Str("cell")]
	if !ok {
		n.Fail("cell is %q, not rnn, gru or lstm", n.Str("cell"))
	}
	for i := range n.Inputs {
		if i != 3 {
			wantType(n, i, isFloat, "floats")
		}
	}
	r := n.Inputs[1].Shape
	if z = n.Inputs[0].Shape; len(z) != 3 || len(r) != 2 {
		n.Fail("Z must be [seq, batch, gates·hidden] and R [gates·hidden, hidden], but they are %s and %s", z, r)
	}
	h = r[1]
	n.Same(z[2], h.Mul(graph.Num(int64(cell.gates))), "rows of gates")
	n.Same(r[0], z[2], "rows of gates")
	seq, state := graph.Shape{z[0], z[1], h}, graph.Shape{z[1], h}
	want := map[int]graph.Shape{2: {z[2]}, 3: {z[1]}, 4: state, 5: state, 6: {h.Mul(graph.Num(3))}}
	if from > 0 {
		want[from], want[from+1], want[from+2] = seq, state, state
	}
	for i := 2; i < len(n.Inputs); i++ {
		v := n.Inputs[i]
		if v == nil {
			continue
		}
		if i == 3 {
			wantType(n, i, isIndex, "integers")
		} else if v.Type != n.Inputs[0].Type {
			n.Fail("input %d is %s, not %s", i, v.Type, n.Inputs[0].Type)
		}
		if len(v.Shape) != len(want[i]) {
			n.Fail("input %d has shape %s; %s expected", i, v.Shape, want[i])
		}
		for k, d := range v.Shape {
			n.Same(d, want[i][k], "sizes of input "+string(rune('0'+i)))
		}
	}
	if (n.In(5) != nil || n.In(6) != nil) && cell.states == 0 {
		n.Fail("cell %s takes no initial_c and no peepholes (P)", n.Str("cell"))
	}
	activationsOf(n, cell.activations)
	return z, h
}

// The gradient keeps of each time step, in float64: the gates' arguments, the hidden state
// before it, and two more vectors of that size: the cell state before and after (LSTM), or the
// operands of the new gate (GRU).
const keptStates = 3

func recurrenceScratch(z, r []int) int { return z[0] * z[1] * (z[2] + keptStates*r[1]) }

func recurrenceBytes(n *graph.Node) graph.Dim {
	z, r := n.Inputs[0].Shape, n.Inputs[1].Shape
	return z[0].Mul(z[1]).Mul(z[2].Add(r[1].Mul(graph.Num(keptStates)))).Mul(graph.Num(8))
}

func recurrenceFlops(n *graph.Node, perProduct int64) graph.Dim {
	z, r := n.Inputs[0].Shape, n.Inputs[1].Shape
	return z.Elems().Mul(r[1].Mul(graph.Num(perProduct)).Add(graph.Num(20)))
}

// gateFunc is a gate's activation; slope is its derivative, given argument and value.
type gateFunc struct{ value, slope func(x, y float64) float64 }

// gate is an activation with its name and parameters.
type gate struct {
	gateFunc
	name        string
	alpha, beta float64
}

// activationKinds has ONNX's activations by name, with their default alpha and beta.
var activationKinds = map[string]struct {
	alpha, beta           float64
	takesAlpha, takesBeta bool
	make                  func(a, b float64) gateFunc
}{
	"Relu": {make: func(_, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return max(x, 0) }, func(x, _ float64) float64 { return either(x > 0, 1, 0) }}
	}},
	"Tanh": {make: func(_, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return math.Tanh(x) }, func(_, y float64) float64 { return 1 - y*y }}
	}},
	"Sigmoid": {make: func(_, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return 1 / (1 + math.Exp(-x)) }, func(_, y float64) float64 { return y * (1 - y) }}
	}},
	"Affine": {alpha: 1, takesAlpha: true, takesBeta: true, make: func(a, b float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return a*x + b }, func(_, _ float64) float64 { return a }}
	}},
	"LeakyRelu": {alpha: 0.01, takesAlpha: true, make: func(a, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return either(x >= 0, x, a*x) }, func(x, _ float64) float64 { return either(x >= 0, 1, a) }}
	}},
	"ThresholdedRelu": {alpha: 1, takesAlpha: true, make: func(a, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return either(x > a, x, 0) }, func(x, _ float64) float64 { return either(x > a, 1, 0) }}
	}},
	"ScaledTanh": {alpha: 1, beta: 1, takesAlpha: true, takesBeta: true, make: func(a, b float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return a * math.Tanh(b*x) }, func(x, _ float64) float64 {
			t := math.Tanh(b * x)
			return a * b * (1 - t*t)
		}}
	}},
	"HardSigmoid": {alpha: 0.2, beta: 0.5, takesAlpha: true, takesBeta: true, make: func(a, b float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return min(max(a*x+b, 0), 1) }, func(x, _ float64) float64 { return either(a*x+b > 0 && a*x+b < 1, a, 0) }}
	}},
	"Elu": {alpha: 1, takesAlpha: true, make: func(a, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return either(x >= 0, x, a*math.Expm1(x)) }, func(x, y float64) float64 { return either(x >= 0, 1, y+a) }}
	}},
	"Softsign": {make: func(_, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return x / (1 + math.Abs(x)) }, func(x, _ float64) float64 { return 1 / ((1 + math.Abs(x)) * (1 + math.Abs(x))) }}
	}},
	"Softplus": {make: func(_, _ float64) gateFunc {
		return gateFunc{func(x, _ float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }, func(x, _ float64) float64 { return 1 / (1 + math.Exp(-x)) }}
	}},
}

func either(first bool, a, b float64) float64 {
	if first {
		return a
	}
	return b
}

// activationsOf reads the activations and their parameters. activation_alpha and
// activation_beta list parameters of those functions that take one, in order; functions
// beyond the end of a list have their defaults.
func activationsOf(n *graph.Node, defaults []string) []gate {
	names := defaults
	if given, ok := n.Attr("activations").([]string); ok && len(given) > 0 {
		names = given
	}
	if len(names) != len(defaults) {
		n.Fail("%d activations are given; %d expected", len(names), len(defaults))
	}
	alphas, betas := n.Floats("activation_alpha"), n.Floats("activation_beta")
	take := func(list *[]float64, takes bool, otherwise float64) float64 {
		if !takes || len(*list) == 0 {
			return otherwise
		}
		x := (*list)[0]
		*list = (*list)[1:]
		return x
	}
	out := make([]gate, len(names))
	for i, name := range names {
		kind, ok := activationKinds[name]
		if !ok {
			n.Fail("activation %q is not supported", name)
		}
		a := take(&alphas, kind.takesAlpha, kind.alpha)
		b := take(&betas, kind.takesBeta, kind.beta)
		out[i] = gate{kind.make(a, b), name, a, b}
	}
	return out
}

// recurrence is a call of either operator. Rows of the batch are independent, so workers
// divide them.
type recurrence struct {
	seq, batch, hidden, gates int
	reverse, linear, forget   bool
	clip                      float64
	acts                      []gate
	z, r, bias, lens          *graph.Tensor
	h0, c0, peep              *graph.Tensor
	kept                      []float64
	advance                   func(r *recurrence, row int, s *step)
	retreat                   func(r *recurrence, row int, s *step, g *stepGrad)
}

// step is what the gradient keeps of one time step of a row: gate arguments z, which backward
// replaces by their gradients, the hidden state h before it, and a and b (see stepGRU, stepLSTM).
type step struct{ z, h, a, b []float64 }

// stepGrad holds the gradients of h and c after a time step, which backward turns into those
// before it.
type stepGrad struct{ h, c, next []float64 }

func newRecurrence(n *graph.Node, in []*graph.Tensor, kept []float64) *recurrence {
	at := func(i int) *graph.Tensor {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	cell := cells[n.Str("cell")]
	r := &recurrence{seq: in[0].Shape[0], batch: in[0].Shape[1], hidden: in[1].Shape[1], gates: cell.gates,
		reverse: n.Int("reverse") != 0, linear: n.Int("linear_before_reset") != 0, forget: n.Int("input_forget") != 0,
		clip: n.Float("clip"), acts: activationsOf(n, cell.activations),
		z: in[0], r: in[1], bias: at(2), lens: at(3), h0: at(4), c0: at(5), peep: at(6), kept: kept,
		advance: cell.step, retreat: cell.back}
	if r.lens != nil {
		for b := range r.batch {
			if k := r.lens.Int(b); k < 0 || k > int64(r.seq) {
				n.Fail("sequence %d has length %d, of at most %d", b, k, r.seq)
			}
		}
	}
	return r
}

func (r *recurrence) steps(row int) int {
	if r.lens == nil {
		return r.seq
	}
	return int(r.lens.Int(row))
}

// time is the position in the sequence of the k-th time step of a row.
func (r *recurrence) time(row, k int) int {
	if r.reverse {
		return r.steps(row) - 1 - k
	}
	return k
}

func (r *recurrence) step(row, k int) *step {
	h, g := r.hidden, r.gates*r.hidden
	at := r.kept[(row*r.seq+k)*(g+keptStates*h):]
	return &step{at[:g], at[g : g+h], at[g+h : g+2*h], at[g+2*h : g+3*h]}
}

// product is row g of R times a state, plus the bias.
func (r *recurrence) product(g int, h []float64) float64 {
	sum := 0.0
	if r.bias != nil {
		sum = r.bias.Float(g)
	}
	if r.r.Type == graph.Float32 {
		for k, x := range r.r.F32()[g*r.hidden : (g+1)*r.hidden] {
			sum += float64(x) * h[k]
		}
		return sum
	}
	for k, x := range h {
		sum += r.r.Float(g*r.hidden+k) * x
	}
	return sum
}

// transposed adds Rᵀ·weights to to, for the rows of R from lo on.
func (r *recurrence) transposed(lo int, weights, to []float64) {
	for j, w := range weights {
		at := (lo + j) * r.hidden
		for k := range to {
			to[k] += w * r.r.Float(at+k)
		}
	}
}

func (r *recurrence) clipped(x float64) float64 {
	if r.clip > 0 {
		return min(max(x, -r.clip), r.clip)
	}
	return x
}

// value is activation a of the clipped argument.
func (r *recurrence) value(a int, x float64) float64 { return r.acts[a].value(r.clipped(x), 0) }

// slope is the derivative of value.
func (r *recurrence) slope(a int, x, y float64) float64 {
	if r.clip > 0 && (x <= -r.clip || x >= r.clip) {
		return 0
	}
	return r.acts[a].slope(x, y)
}

// peephole is the peephole weight of gate i, o or f for element j of the cell state.
func (r *recurrence) peephole(gate, j int) float64 {
	if r.peep == nil {
		return 0
	}
	return r.peep.Float(gate*r.hidden + j)
}

// initial sets a row's initial state.
func (r *recurrence) initial(x *graph.Tensor, row int, to []float64) {
	clear(to)
	if x != nil {
		for j := range to {
			to[j] = x.Float(row*r.hidden + j)
		}
	}
}

// run computes all time steps of a row and returns its last states.
func (r *recurrence) run(row int, y *graph.Tensor) (h, c []float64) {
	h, c = make([]float64, r.hidden), make([]float64, r.hidden)
	r.initial(r.h0, row, h)
	r.initial(r.c0, row, c)
	g := r.gates * r.hidden
	for k := range r.steps(row) {
		s, t := r.step(row, k), r.time(row, k)
		for j := range s.z {
			s.z[j] = r.z.Float((t*r.batch+row)*g + j)
		}
		copy(s.h, h)
		copy(s.a, c)
		r.advance(r, row, s)
		copy(c, s.b)
		for j := range h {
			h[j] = r.after(s, j)
			if y != nil {
				y.SetFloat((t*r.batch+row)*r.hidden+j, h[j])
			}
		}
	}
	return h, c
}

// after is element j of the hidden state after a step.
func (r *recurrence) after(s *step, j int) float64 {
	h := r.hidden
	switch r.gates {
	case 1:
		return r.value(0, s.z[j])
	case 3:
		z := r.value(0, s.z[j])
		return (1-z)*r.value(1, s.z[2*h+j]) + z*s.h[j]
	}
	return r.value(0, s.z[h+j]) * r.acts[2].value(s.b[j], 0)
}

func (r *recurrence) forward(par f32.Parallel, out []*graph.Tensor) {
	if y := out[0]; r.lens != nil {
		clear(y.Bytes)
	}
	par(r.batch, 1, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			h, c := r.run(row, out[0])
			for i, state := range [][]float64{h, c} {
				if i+1 < len(out) && out[i+1] != nil {
					for j, x := range state {
						out[i+1].SetFloat(row*r.hidden+j, x)
					}
				}
			}
		}
	})
}

func stepRNN(r *recurrence, _ int, s *step) {
	for j := range s.h {
		s.z[j] += r.product(j, s.h)
	}
}

// stepGRU is a time step of a GRU. b is the reset gate, and a is b·h; with linear_before_reset
// a is R·h + Rb of the new gate.
func stepGRU(r *recurrence, _ int, s *step) {
	h := r.hidden
	for j := range 2 * h {
		s.z[j] += r.product(j, s.h)
	}
	for j := range h {
		s.b[j] = r.value(0, s.z[h+j])
		s.a[j] = s.b[j] * s.h[j]
	}
	for j := range h {
		if r.linear {
			continue
		}
		s.z[2*h+j] += r.product(2*h+j, s.a)
	}
	if r.linear {
		for j := range h {
			s.a[j] = r.product(2*h+j, s.h)
			s.z[2*h+j] += s.b[j] * s.a[j]
		}
	}
}

// stepLSTM is a time step of an LSTM. a and b are the cell state before and after it.
func stepLSTM(r *recurrence, _ int, s *step) {
	h := r.hidden
	for j := range s.z {
		s.z[j] += r.product(j, s.h)
	}
	for j := range h {
		s.z[j] += r.peephole(0, j) * s.a[j]
		s.z[2*h+j] += r.peephole(2, j) * s.a[j]
		in := r.value(0, s.z[j])
		forget := 1 - in
		if !r.forget {
			forget = r.value(0, s.z[2*h+j])
		}
		s.b[j] = forget*s.a[j] + in*r.value(1, s.z[3*h+j])
		s.z[h+j] += r.peephole(1, j) * s.b[j]
	}
}

func (r *recurrence) backward(par f32.Parallel, dy, out []*graph.Tensor) {
	at := func(ts []*graph.Tensor, i int) *graph.Tensor {
		if i < len(ts) {
			return ts[i]
		}
		return nil
	}
	dz, g := at(out, 0), r.gates*r.hidden
	if dz != nil && r.lens != nil {
		clear(dz.Bytes)
	}
	par(r.batch, 1, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			r.run(row, nil)
			d := &stepGrad{make([]float64, r.hidden), make([]float64, r.hidden), make([]float64, r.hidden)}
			r.initial(at(dy, 1), row, d.h)
			r.initial(at(dy, 2), row, d.c)
			for k := r.steps(row) - 1; k >= 0; k-- {
				s, t := r.step(row, k), r.time(row, k)
				if y := at(dy, 0); y != nil {
					for j := range d.h {
						d.h[j] += y.Float((t*r.batch+row)*r.hidden + j)
					}
				}
				clear(d.next)
				r.retreat(r, row, s, d)
				d.h, d.next = d.next, d.h
				if dz != nil {
					for j, x := range s.z {
						dz.SetFloat((t*r.batch+row)*g+j, x)
					}
				}
			}
			for i, state := range [][]float64{d.h, d.c} {
				if x := at(out, 3+i); x != nil {
					for j, v := range state {
						x.SetFloat(row*r.hidden+j, v)
					}
				}
			}
		}
	})
	r.weights(par, at(out, 1), at(out, 2), at(out, 5))
}

func backRNN(r *recurrence, _ int, s *step, g *stepGrad) {
	for j, x := range s.z {
		s.z[j] = g.h[j] * r.slope(0, x, r.value(0, x))
	}
	r.transposed(0, s.z, g.next)
}

func backGRU(r *recurrence, _ int, s *step, g *stepGrad) {
	h := r.hidden
	for j := range h {
		z, fresh := r.value(0, s.z[j]), r.value(1, s.z[2*h+j])
		g.next[j] = g.h[j] * z
		dz, dn := g.h[j]*(s.h[j]-fresh), g.h[j]*(1-z)
		s.z[j] = dz * r.slope(0, s.z[j], z)
		s.z[2*h+j] = dn * r.slope(1, s.z[2*h+j], fresh)
	}
	// The reset gate is applied before the product with R, or after it (linear_before_reset).
	reset := make([]float64, h)
	if r.linear {
		for j := range h {
			reset[j] = s.z[2*h+j] * s.a[j]
			s.a[j] = s.z[2*h+j] * s.b[j]
		}
		r.transposed(2*h, s.a, g.next)
	} else {
		into := make([]float64, h)
		r.transposed(2*h, s.z[2*h:], into)
		for j := range h {
			reset[j] = into[j] * s.h[j]
			g.next[j] += into[j] * s.b[j]
		}
	}
	for j := range h {
		s.z[h+j] = reset[j] * r.slope(0, s.z[h+j], s.b[j])
	}
	r.transposed(0, s.z[:2*h], g.next)
}

func backLSTM(r *recurrence, _ int, s *step, g *stepGrad) {
	h := r.hidden
	for j := range h {
		in, out, fresh := r.value(0, s.z[j]), r.value(0, s.z[h+j]), r.value(1, s.z[3*h+j])
		forget := 1 - in
		if !r.forget {
			forget = r.value(0, s.z[2*h+j])
		}
		shown := r.acts[2].value(s.b[j], 0)
		do := g.h[j] * shown * r.slope(0, s.z[h+j], out)
		dc := g.c[j] + g.h[j]*out*r.acts[2].slope(s.b[j], shown) + do*r.peephole(1, j)
		di, df := dc*fresh, dc*s.a[j]
		if r.forget {
			di, df = di-df, 0
		}
		di *= r.slope(0, s.z[j], in)
		df *= r.slope(0, s.z[2*h+j], forget)
		g.c[j] = dc*forget + di*r.peephole(0, j) + df*r.peephole(2, j)
		s.z[j], s.z[h+j], s.z[2*h+j] = di, do, df
		s.z[3*h+j] = dc * in * r.slope(1, s.z[3*h+j], fresh)
	}
	r.transposed(0, s.z, g.next)
}

// weights sums the gradients of R, its bias and the peepholes over rows and time steps in a
// fixed order; workers divide the gates.
func (r *recurrence) weights(par f32.Parallel, dr, db, dp *graph.Tensor) {
	h := r.hidden
	par(r.gates*h, 1, func(lo, hi int) {
		row := make([]float64, h)
		for g := lo; g < hi; g++ {
			clear(row)
			bias, peep := 0.0, 0.0
			for b := range r.batch {
				for k := range r.steps(b) {
					s := r.step(b, k)
					d, from := s.z[g], s.h
					if r.gates == 3 && g >= 2*h {
						if r.linear {
							d = s.a[g-2*h]
						} else {
							from = s.a
						}
					}
					bias += d
					for j, x := range from {
						row[j] += d * x
					}
					if r.gates == 4 && g < 3*h {
						state := s.a
						if g/h == 1 {
							state = s.b
						}
						peep += d * state[g%h]
					}
				}
			}
			if dr != nil {
				for j, x := range row {
					dr.SetFloat(g*h+j, x)
				}
			}
			if db != nil {
				db.SetFloat(g, bias)
			}
			if dp != nil && g < 3*h {
				dp.SetFloat(g, peep)
			}
		}
	})
}

var recurrenceKernel = lower.Halved(lower.Shader("recurrence", "recurrence.comp"))

// The passes of recurrence.comp.
const (
	recurForward, recurBack, recurWeights = 0, 1, 2
)

// recurrenceLocal is the number of invocations that compute a row of the batch.
const recurrenceLocal = 64

// gateNumbers are the kernel's numbers of the activations.
var gateNumbers = map[string]uint32{
	"Relu": 0, "Tanh": 1, "Sigmoid": 2, "Affine": 3, "LeakyRelu": 4, "ThresholdedRelu": 5,
	"ScaledTanh": 6, "HardSigmoid": 7, "Elu": 8, "Softsign": 9, "Softplus": 10,
}

// loweredRecurrence holds what the passes share.
type loweredRecurrence struct {
	l                  *graph.Lowering
	cell               uint32 // gates
	seq, batch, hidden int
	kinds              [3]uint32
	alpha, beta        [3]float64
	lengths            uint32
	work               int64
}

// pass appends a pass. outs and ins are output and input numbers in the order of the shader's
// bindings, −1 where the pass does not use one.
func (r loweredRecurrence) pass(pass uint32, outs [3]int, ins [10]int, groups int) {
	l := r.l
	var buffers []graph.Buffer
	given, wanted := uint32(0), uint32(0)
	for k, o := range outs {
		if b := lower.Unused(true); o < 0 || lower.Out(l, o) == nil {
			buffers = append(buffers, b)
		} else {
			buffers, wanted = append(buffers, lower.Writes(o)), wanted|1<<k
		}
	}
	buffers = append(buffers, lower.Scratch(0, r.work, pass != recurWeights))
	for k, i := range ins {
		if i < 0 || lower.In(l, i) == nil {
			buffers = append(buffers, lower.Unused(false))
			continue
		}
		buffers = append(buffers, lower.Reads(i))
		if bit := [...]int{-1, -1, 0, -1, 1, 2, 3, 4, 5, 6}[k]; bit >= 0 {
			given |= 1 << bit
		}
	}
	push := append(lower.Words(l, r.seq, r.batch, r.hidden), lower.Bits(l.Node.Float("clip")))
	for _, list := range [][3]float64{r.alpha, r.beta} {
		for _, x := range list {
			push = append(push, lower.Bits(x))
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: recurrenceKernel,
		Spec: []uint32{recurrenceLocal, pass, r.cell, lower.OneIf(l.Node.Int("reverse") != 0), lower.OneIf(l.Node.Int("linear_before_reset") != 0),
			lower.OneIf(l.Node.Int("input_forget") != 0), r.lengths, given, wanted, r.kinds[0], r.kinds[1], r.kinds[2]},
		Push: push, Buffers: buffers, Groups: lower.InLine(l, groups),
	})
}

func newLoweredRecurrence(l *graph.Lowering) (r loweredRecurrence, ok bool) {
	lens := lower.In(l, 3)
	for i, o := range append(l.In[:len(l.In):len(l.In)], l.Out...) {
		if o != nil && o.Type != graph.Float32 && i != 3 {
			l.Refuse("an operand is %s; there is a kernel for f32", o.Type)
			return r, false
		}
	}
	n, z := l.Node, l.In[0].Shape
	cell := cells[n.Str("cell")]
	r = loweredRecurrence{l: l, cell: uint32(cell.gates), seq: z[0], batch: z[1], hidden: l.In[1].Shape[1]}
	if lens != nil {
		r.lengths = uint32(lens.Type.Size() / 4)
	}
	for i, f := range activationsOf(n, cell.activations) {
		r.kinds[i], r.alpha[i], r.beta[i] = gateNumbers[f.name], f.alpha, f.beta
	}
	r.work = int64(4 * r.batch * (r.seq*(cell.gates+keptStates) + 3) * r.hidden)
	return r, r.batch*r.hidden > 0
}

func lowerRecurrence(l *graph.Lowering) {
	if r, ok := newLoweredRecurrence(l); ok {
		l.Scratch = r.work
		r.pass(recurForward, [3]int{0, 1, 2}, [10]int{0, 1, 2, 3, 4, 5, 6, -1, -1, -1}, r.batch)
	}
}

func lowerRecurrenceGrad(l *graph.Lowering) {
	r, ok := newLoweredRecurrence(l)
	if !ok {
		return
	}
	l.Scratch = r.work
	r.pass(recurBack, [3]int{0, 3, 4}, [10]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, r.batch)
	for _, o := range []int{1, 2, 5} {
		if lower.Out(l, o) != nil {
			r.pass(recurWeights, [3]int{1, 2, 5}, [10]int{-1, -1, -1, 3, -1, -1, -1, -1, -1, -1}, index.CeilDiv(int(r.cell)*r.hidden*r.hidden, recurrenceLocal))
			break
		}
	}
}

// eachStep is the work of a recurrence: each for every element of R in a time step and row, and
// that of the activations.
func eachStep(each int64) work {
	return counted(func(c sampled) int64 {
		z, hidden := c.In[0].Shape, c.In[1].Shape[1]
		return each*visits(z[0], z[1], z[2], hidden) + 20*visits(z...)
	})
}
