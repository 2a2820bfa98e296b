package kernels

import "memopt/memopt/graph"

var recurrenceKernel = halved(shader("recurrence", "recurrence.comp"))

// The passes of the kernel.
const (
	recurForward, recurBack, recurWeights = 0, 1, 2
)

// recurrenceLocal is the invocations that take a row of the batch through its steps.
const recurrenceLocal = 64

// gateNumbers are the kernel's numbers for the functions of gates.
var gateNumbers = map[string]uint32{
	"Relu": 0, "Tanh": 1, "Sigmoid": 2, "Affine": 3, "LeakyRelu": 4, "ThresholdedRelu": 5,
	"ScaledTanh": 6, "HardSigmoid": 7, "Elu": 8, "Softsign": 9, "Softplus": 10,
}

// loweredRecurrence is what the passes have in common.
type loweredRecurrence struct {
	l                  *graph.Lowering
	cell               uint32 // gates
	seq, batch, hidden int
	kinds              [3]uint32
	alpha, beta        [3]float64
	lengths            uint32
	work               int64
}

func newLoweredRecurrence(l *graph.Lowering) (r loweredRecurrence, ok bool) {
	lens := loweredIn(l, 3)
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

// pass appends one; inputs and outputs are by the shader's order, −1 where it has
// no use for one.
func (r loweredRecurrence) pass(pass uint32, outs [3]int, ins [10]int, groups int) {
	l := r.l
	var buffers []graph.Buffer
	given, wanted := uint32(0), uint32(0)
	for k, o := range outs {
		if b := unused(true); o < 0 || loweredOut(l, o) == nil {
			buffers = append(buffers, b)
		} else {
			buffers, wanted = append(buffers, writes(o)), wanted|1<<k
		}
	}
	buffers = append(buffers, scratch(0, r.work, pass != recurWeights))
	for k, i := range ins {
		if i < 0 || loweredIn(l, i) == nil {
			buffers = append(buffers, unused(false))
			continue
		}
		buffers = append(buffers, reads(i))
		if bit := [...]int{-1, -1, 0, -1, 1, 2, 3, 4, 5, 6}[k]; bit >= 0 {
			given |= 1 << bit
		}
	}
	push := append(words(l, r.seq, r.batch, r.hidden), bits(l.Node.Float("clip")))
	for _, list := range [][3]float64{r.alpha, r.beta} {
		for _, x := range list {
			push = append(push, bits(x))
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: recurrenceKernel,
		Spec: []uint32{recurrenceLocal, pass, r.cell, oneIf(l.Node.Int("reverse") != 0), oneIf(l.Node.Int("linear_before_reset") != 0),
			oneIf(l.Node.Int("input_forget") != 0), r.lengths, given, wanted, r.kinds[0], r.kinds[1], r.kinds[2]},
		Push: push, Buffers: buffers, Groups: inLine(l, groups),
	})
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
		if loweredOut(l, o) != nil {
			r.pass(recurWeights, [3]int{1, 2, 5}, [10]int{-1, -1, -1, 3, -1, -1, -1, -1, -1, -1}, ceilDiv(int(r.cell)*r.hidden*r.hidden, recurrenceLocal))
			break
		}
	}
}
