package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// The kernels of crossentropy.comp: a lane or a subgroup for a row, and a workgroup, which reads it once.
var (
	CrossEntropyKernel = Halved(Shader("crossentropy", "crossentropy.comp"))
	CrossEntropyHeld   = TeamShader("crossentropy-held", "crossentropyheld.comp")
)

// The passes of crossentropy.comp.
const (
	LossOfRows, LossOfAll, weightsOfRows, weightOfAll, ScoresGrad = 0, 1, 2, 3, 4
)

// Loss holds what the passes of a loss share.
type Loss struct {
	L               *graph.Lowering
	Scores          graph.Buffer
	Shape           []int // of the scores
	Labels, Weights int   // input numbers; weights may be −1
	LogProb, Slope  graph.Buffer
	Ignore          int    // number of the input ignore_index; 0: the attribute
	Kept            uint32 // KEPT of the kernel: 1 if scores are log-softmax, 2 if there are none
}

// NewLoss is a loss whose scores are input number scores, followed by labels and
// weights.
func NewLoss(l *graph.Lowering, scores int) Loss {
	c := Loss{L: l, Scores: Reads(scores), Shape: l.In[scores].Shape, Labels: scores + 1, Weights: scores + 2, LogProb: Unused(true), Slope: Unused(false)}
	if In(l, c.Weights) == nil {
		c.Weights = -1
	}
	return c
}

// Samples is how many labels there are.
func (c Loss) Samples() int { return c.L.In[c.Labels].Len() }

// Work is the bytes of work space that passes share.
func (c Loss) Work() int64 { return int64(8 * c.Samples()) }

// Pass runs pass n over all samples, as many rows at a time as fit the descriptor range.
func (c Loss) Pass(n uint32) {
	to, scores, logProb := Writes(0), c.Scores, Unused(true)
	var row int64 // bytes of the scores of an item of the batch
	switch n {
	case LossOfRows:
		row, logProb = int64(4*index.Elems(c.Shape[1:])), c.LogProb
		if c.L.Node.Str("reduction") != "none" {
			to = Unused(true)
		}
	case ScoresGrad:
		row = int64(4 * index.Elems(c.Shape[1:]))
	default:
		scores = Unused(false)
		if n != LossOfAll {
			to = Unused(true)
		}
	}
	if n == LossOfAll || n == weightOfAll || row == 0 {
		c.Some(n, 0, c.Samples(), to, scores, logProb)
		return
	}
	toRow := int64(0)
	if n == ScoresGrad {
		toRow = row
	}
	first, inner := 0, index.Elems(c.Shape[2:])
	InPieces(c.L, c.Samples()/inner, []graph.Buffer{to, scores, logProb}, []int64{toRow, row, row}, func(rows int, b []graph.Buffer) {
		c.Some(n, first, rows*inner, b[0], b[1], b[2])
		first += rows * inner
	})
}

// Some appends a pass over rows [first, first+rows), which the buffers are restricted to.
func (c Loss) Some(n uint32, first, rows int, to, scores, logProb graph.Buffer) {
	l := c.L
	var at int64
	ignores := false
	switch {
	case c.Ignore == 0:
		at, _ = l.Node.Attr("ignore_index").(int64)
		ignores = l.Node.Has("ignore_index")
	case In(l, c.Ignore) != nil:
		label, known := l.Ints(c.Ignore)
		if !known {
			l.Refuse("input ignore_index is only known when the step runs")
			return
		}
		at, ignores = label[0], true
	}
	labels := l.In[c.Labels]
	step := uint32(1)
	if labels.Type == graph.Int64 {
		step = 2 // only the low words are read; no label exceeds 2³¹
	}
	reduction := map[string]uint32{"mean": 0, "sum": 1, "none": 2}[l.Node.Str("reduction")]
	weights := Unused(false)
	if c.Weights >= 0 {
		weights = Reads(c.Weights)
	}
	groups := [3]int{1, 1, 1}
	if n != LossOfAll && n != weightOfAll {
		groups = InLine(l, rows)
	}
	inner := index.Elems(c.Shape[2:])
	constants := []uint32{n, step, OneIf(c.Weights >= 0), OneIf(ignores), reduction, OneIf(logProb.Place == graph.PlaceOut), c.Kept}
	kernel, spec, classes := CrossEntropyKernel, append([]uint32{uint32(l.Limits.Subgroup)}, constants...), c.Shape[1]
	switch t, ok := TeamOf(l, "cross entropy", rows, classes, inner, 1, true); {
	case !ok || n == weightsOfRows:
	case n == LossOfAll || n == weightOfAll:
		t = Team{Local: t.Local, Size: t.Local, Lanes: t.Lanes, Wide: 1, Rest: true}
		kernel, spec = t.Of(CrossEntropyHeld), t.Spec(constants...)
	default:
		kernel, spec, groups, classes = t.Of(CrossEntropyHeld), t.Spec(constants...), t.Groups(l, rows), classes/t.Wide
	}
	push := append(Words(l, c.Samples(), classes, inner), uint32(int32(at)))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  kernel,
		Spec:    spec,
		Push:    append(push, Words(l, first, rows)...),
		Buffers: []graph.Buffer{to, scores, Reads(c.Labels), weights, Scratch(0, c.Work(), n <= weightOfAll), logProb, c.Slope},
		Groups:  groups,
	})
}

// OnlyLoss refuses element types and sizes that the kernel does not support.
func OnlyLoss(l *graph.Lowering, scores, labels int) bool {
	for _, o := range append(l.Out, l.In[scores]) {
		if o != nil && o.Type != graph.Float32 {
			l.Refuse("scores are %s; there is a kernel for f32", o.Type)
			return false
		}
	}
	if l.In[labels].Len() == 0 || l.In[scores].Len() == 0 || l.Out[0] == nil {
		l.Refuse("there are no samples")
		return false
	}
	return true
}

// ForwardLoss lowers a loss of the scores in input 0. ignore and kept are those of Loss.
func ForwardLoss(l *graph.Lowering, ignore int, kept uint32) {
	if !OnlyLoss(l, 0, 1) {
		return
	}
	c := NewLoss(l, 0)
	c.Ignore, c.Kept = ignore, kept
	if Out(l, 1) != nil {
		c.LogProb = Writes(1)
	}
	l.Scratch = c.Work()
	c.Pass(LossOfRows)
	if l.Node.Str("reduction") != "none" {
		c.Pass(LossOfAll)
	}
}

// Backward appends the gradient of the scores to output 0.
func (c Loss) Backward() {
	c.Slope = Reads(0)
	c.L.Scratch = c.Work()
	c.Weigh()
	c.Pass(ScoresGrad)
}

// Weigh sums the weights of all samples, the divisor of a mean.
func (c Loss) Weigh() {
	if c.L.Node.Str("reduction") == "mean" {
		c.Pass(weightsOfRows)
		c.Pass(weightOfAll)
	}
}
