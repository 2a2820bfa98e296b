package kernels

import "memopt/memopt/graph"

var crossEntropyKernel = halved(shader("crossentropy", "crossentropy.comp"))

// The passes of the kernel.
const (
	lossOfRows, lossOfAll, weightsOfRows, weightOfAll, scoresGrad = 0, 1, 2, 3, 4
)

// lossLowering is what the passes of a loss have in common.
type lossLowering struct {
	l                       *graph.Lowering
	scores, labels, weights int // inputs; weights may be missing
	samples                 int
	logProb, slope          graph.Buffer
	ignore                  int    // the input that is the label to ignore; 0: the attribute
	kept                    uint32 // the kernel's: scores are log-softmax
	shape                   []int  // of the scores, where they are not at hand
}

func (c lossLowering) pass(n uint32) {
	l := c.l
	var at int64
	ignores := false
	switch {
	case c.ignore == 0:
		at, _ = l.Node.Attr("ignore_index").(int64)
		ignores = l.Node.Has("ignore_index")
	case loweredIn(l, c.ignore) != nil:
		label, known := l.Ints(c.ignore)
		if !known {
			l.Refuse("the label to ignore is only known when the step runs")
			return
		}
		at, ignores = label[0], true
	}
	labels := l.In[c.labels]
	step := uint32(1)
	if labels.Type == graph.Int64 {
		step = 2 // the low word: a label above 2³¹ is none
	}
	reduction := map[string]uint32{"mean": 0, "sum": 1, "none": 2}[l.Node.Str("reduction")]
	weights, weighted := unused(false), loweredIn(l, c.weights) != nil
	if weighted {
		weights = reads(c.weights)
	}
	work := scratch(0, int64(8*c.samples), n <= weightOfAll)
	shape, scores := c.shape, unused(false)
	if c.shape == nil {
		shape, scores = l.In[c.scores].Shape, reads(c.scores)
	}
	to := writes(0)
	if n == weightsOfRows || n == weightOfAll || n == lossOfRows && reduction != 2 {
		to = unused(true)
	}
	groups := [3]int{1, 1, 1}
	if n != lossOfAll && n != weightOfAll {
		groups = inLine(l, c.samples)
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  crossEntropyKernel,
		Spec:    []uint32{uint32(l.Limits.Subgroup), n, step, oneIf(weighted), oneIf(ignores), reduction, oneIf(c.logProb.Place == graph.PlaceOut && n == lossOfRows), c.kept},
		Push:    append(words(l, c.samples, shape[1], elems(shape[2:])), uint32(int32(at))),
		Buffers: []graph.Buffer{to, scores, reads(c.labels), weights, work, c.logProb, c.slope},
		Groups:  groups,
	})
}

// onlyLoss refuses element types and sizes that the kernel has not.
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

func lowerCrossEntropy(l *graph.Lowering) { lowerLoss(l, 0, 0) }

func lowerInternalCrossEntropy(l *graph.Lowering) { lowerLoss(l, 3, 0) }

func lowerLogLikelihood(l *graph.Lowering) { lowerLoss(l, 0, 1) }

func lowerLoss(l *graph.Lowering, ignore int, kept uint32) {
	if !onlyLoss(l, 0, 1) {
		return
	}
	c := lossLowering{l: l, ignore: ignore, kept: kept, scores: 0, labels: 1, weights: 2, samples: l.In[1].Len(), logProb: unused(true), slope: unused(false)}
	if loweredOut(l, 1) != nil {
		c.logProb = writes(1)
	}
	l.Scratch = int64(8 * c.samples)
	c.pass(lossOfRows)
	if l.Node.Str("reduction") != "none" {
		c.pass(lossOfAll)
	}
}

func lowerCrossEntropyGrad(l *graph.Lowering) {
	if loweredIn(l, 4) != nil {
		l.Refuse("a gradient flows into the log-softmax")
		return
	}
	if !onlyLoss(l, 1, 2) {
		return
	}
	lossLowering{l: l, scores: 1, labels: 2, weights: 3}.backward()
}

// lowerKeptGrad is the gradient from the log-softmax that was kept.
func lowerKeptGrad(l *graph.Lowering) {
	if onlyLoss(l, 1, 2) {
		lossLowering{l: l, scores: 1, labels: 2, weights: 3, kept: 1}.backward()
	}
}

// lowerInternalKeptGrad is the same, and in place adds what else flows there.
func lowerInternalKeptGrad(l *graph.Lowering) {
	if !onlyLoss(l, 1, 2) {
		return
	}
	lossLowering{l: l, scores: 1, labels: 2, weights: 3, ignore: 4, kept: 1}.backward()
	if more := loweredIn(l, 5); more != nil && l.Refused == "" {
		like := &graph.Operand{Type: more.Type, Shape: l.Out[0].Shape}
		activationForm.append(l, plusTerm, l.Out[0], []*graph.Operand{l.Out[0], like}, []graph.Buffer{writes(0), rereads(0), reads(5)})
	}
}

// lowerLogLikelihoodGrad has no scores, only their shape.
func lowerLogLikelihoodGrad(l *graph.Lowering) {
	if l.Out[0].Type != graph.Float32 || l.In[2].Len() == 0 || l.Out[0].Len() == 0 {
		l.Refuse("scores are %s, or there are none; there is a kernel for f32", l.Out[0].Type)
		return
	}
	lossLowering{l: l, labels: 2, weights: 3, kept: 2, shape: l.Out[0].Shape}.backward()
}

func (c lossLowering) backward() {
	c.samples, c.logProb, c.slope = c.l.In[c.labels].Len(), unused(true), reads(0)
	c.l.Scratch = int64(8 * c.samples)
	if c.l.Node.Str("reduction") == "mean" {
		c.pass(weightsOfRows)
		c.pass(weightOfAll)
	}
	c.pass(scoresGrad)
}
