package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var (
	crossEntropyKernel = lower.Halved(lower.Shader("crossentropy", "crossentropy.comp"))
	crossEntropyHeld   = lower.TeamShader("crossentropy-held", "crossentropyheld.comp")
)

// The passes of crossentropy.comp.
const (
	lossOfRows, lossOfAll, weightsOfRows, weightOfAll, scoresGrad = 0, 1, 2, 3, 4
)

// lossLowering holds what the passes of a loss share.
type lossLowering struct {
	l               *graph.Lowering
	scores          graph.Buffer
	shape           []int // of the scores
	labels, weights int   // input numbers; weights may be −1
	logProb, slope  graph.Buffer
	ignore          int    // number of the input ignore_index; 0: the attribute
	kept            uint32 // KEPT of the kernel: 1 if scores are log-softmax, 2 if there are none
}

// newLossLowering is a loss whose scores are input number scores, followed by labels and
// weights.
func newLossLowering(l *graph.Lowering, scores int) lossLowering {
	c := lossLowering{l: l, scores: lower.Reads(scores), shape: l.In[scores].Shape, labels: scores + 1, weights: scores + 2, logProb: lower.Unused(true), slope: lower.Unused(false)}
	if lower.In(l, c.weights) == nil {
		c.weights = -1
	}
	return c
}

func (c lossLowering) samples() int { return c.l.In[c.labels].Len() }

// work is the bytes of work space that passes share.
func (c lossLowering) work() int64 { return int64(8 * c.samples()) }

// pass runs pass n over all samples, as many rows at a time as fit the descriptor range.
func (c lossLowering) pass(n uint32) {
	to, scores, logProb := lower.Writes(0), c.scores, lower.Unused(true)
	var row int64 // bytes of the scores of an item of the batch
	switch n {
	case lossOfRows:
		row, logProb = int64(4*index.Elems(c.shape[1:])), c.logProb
		if c.l.Node.Str("reduction") != "none" {
			to = lower.Unused(true)
		}
	case scoresGrad:
		row = int64(4 * index.Elems(c.shape[1:]))
	default:
		scores = lower.Unused(false)
		if n != lossOfAll {
			to = lower.Unused(true)
		}
	}
	if n == lossOfAll || n == weightOfAll || row == 0 {
		c.some(n, 0, c.samples(), to, scores, logProb)
		return
	}
	toRow := int64(0)
	if n == scoresGrad {
		toRow = row
	}
	first, inner := 0, index.Elems(c.shape[2:])
	lower.InPieces(c.l, c.samples()/inner, []graph.Buffer{to, scores, logProb}, []int64{toRow, row, row}, func(rows int, b []graph.Buffer) {
		c.some(n, first, rows*inner, b[0], b[1], b[2])
		first += rows * inner
	})
}

// some appends a pass over rows [first, first+rows), which the buffers are restricted to.
func (c lossLowering) some(n uint32, first, rows int, to, scores, logProb graph.Buffer) {
	l := c.l
	var at int64
	ignores := false
	switch {
	case c.ignore == 0:
		at, _ = l.Node.Attr("ignore_index").(int64)
		ignores = l.Node.Has("ignore_index")
	case lower.In(l, c.ignore) != nil:
		label, known := l.Ints(c.ignore)
		if !known {
			l.Refuse("input ignore_index is only known when the step runs")
			return
		}
		at, ignores = label[0], true
	}
	labels := l.In[c.labels]
	step := uint32(1)
	if labels.Type == graph.Int64 {
		step = 2 // only the low words are read; no label exceeds 2³¹
	}
	reduction := map[string]uint32{"mean": 0, "sum": 1, "none": 2}[l.Node.Str("reduction")]
	weights := lower.Unused(false)
	if c.weights >= 0 {
		weights = lower.Reads(c.weights)
	}
	groups := [3]int{1, 1, 1}
	if n != lossOfAll && n != weightOfAll {
		groups = lower.InLine(l, rows)
	}
	inner := index.Elems(c.shape[2:])
	constants := []uint32{n, step, lower.OneIf(c.weights >= 0), lower.OneIf(ignores), reduction, lower.OneIf(logProb.Place == graph.PlaceOut), c.kept}
	kernel, spec, classes := crossEntropyKernel, append([]uint32{uint32(l.Limits.Subgroup)}, constants...), c.shape[1]
	switch t, ok := lower.TeamOf(l, "cross entropy", rows, classes, inner, 1, true); {
	case !ok || n == weightsOfRows:
	case n == lossOfAll || n == weightOfAll:
		t = lower.Team{Local: t.Local, Size: t.Local, Lanes: t.Lanes, Wide: 1, Rest: true}
		kernel, spec = t.Of(crossEntropyHeld), t.Spec(constants...)
	default:
		kernel, spec, groups, classes = t.Of(crossEntropyHeld), t.Spec(constants...), t.Groups(l, rows), classes/t.Wide
	}
	push := append(lower.Words(l, c.samples(), classes, inner), uint32(int32(at)))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  kernel,
		Spec:    spec,
		Push:    append(push, lower.Words(l, first, rows)...),
		Buffers: []graph.Buffer{to, scores, lower.Reads(c.labels), weights, lower.Scratch(0, c.work(), n <= weightOfAll), logProb, c.slope},
		Groups:  groups,
	})
}

// onlyLoss refuses element types and sizes that the kernel does not support.
func onlyLoss(l *graph.Lowering, scores, labels int) bool {
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

func lowerLoss(l *graph.Lowering, ignore int, kept uint32) {
	if !onlyLoss(l, 0, 1) {
		return
	}
	c := newLossLowering(l, 0)
	c.ignore, c.kept = ignore, kept
	if lower.Out(l, 1) != nil {
		c.logProb = lower.Writes(1)
	}
	l.Scratch = c.work()
	c.pass(lossOfRows)
	if l.Node.Str("reduction") != "none" {
		c.pass(lossOfAll)
	}
}

func (c lossLowering) backward() {
	c.slope = lower.Reads(0)
	c.l.Scratch = c.work()
	c.weigh()
	c.pass(scoresGrad)
}

// weigh sums the weights of all samples, the divisor of a mean.
func (c lossLowering) weigh() {
	if c.l.Node.Str("reduction") == "mean" {
		c.pass(weightsOfRows)
		c.pass(weightOfAll)
	}
}
