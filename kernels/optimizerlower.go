package kernels

import (
	"math"

	"memopt/memopt/graph"
)

var (
	optimizerKernel = joined(halved(shader("optimizer", "optimizer.comp")))
	clipNormKernel  = shader("clipnorm", "clipnorm.comp")
	countKernel     = shader("count", "count.comp")
)

// loweredRule is an update rule as the kernel has it: its number there, and
// what a node tells it.
type loweredRule struct {
	rule    uint32
	other   func(n *graph.Node) bool
	numbers func(n *graph.Node) []float64 // decay, epsilon, keep1, beta2, keep2, log1, log2
}

func decayOf(n *graph.Node) float64 { return n.Float("weight_decay") }

func adamNumbers(n *graph.Node) []float64 {
	b1, b2 := n.Float("beta1"), n.Float("beta2")
	return []float64{decayOf(n), n.Float("epsilon"), 1 - b1, b2, 1 - b2, math.Log(b1), math.Log(b2)}
}

// loweredRules by the operator's name.
var loweredRules = map[string]loweredRule{
	"SGD": {0, nil, func(n *graph.Node) []float64 { return []float64{decayOf(n)} }},
	"Momentum": {1, func(n *graph.Node) bool { return n.Int("nesterov") != 0 }, func(n *graph.Node) []float64 {
		return []float64{decayOf(n), 0, 1 - n.Float("dampening"), n.Float("momentum")}
	}},
	"Adam":  {2, nil, adamNumbers},
	"AdamW": {2, func(*graph.Node) bool { return true }, adamNumbers},
	"Adagrad": {3, nil, func(n *graph.Node) []float64 {
		return []float64{decayOf(n), n.Float("epsilon"), 0, 0, 0, n.Float("lr_decay")}
	}},
}

func lowerUpdate(l *graph.Lowering) {
	f, i := graph.Float32, graph.Int64
	if !onlyTypes(l, []graph.DType{f, f, f, f, i, f}, []graph.DType{f}) {
		return
	}
	r, ok := loweredRules[l.Node.Op.Name]
	if !ok {
		l.Refuse("the rule has no kernel")
		return
	}
	n := l.Out[0].Len()
	if n == 0 {
		return
	}
	scale, scaled := reads(2), loweredIn(l, 3) != nil
	if scaled {
		scale = reads(3)
	}
	buffers := []graph.Buffer{writes(0), reads(1), reads(2), scale, reads(4)}
	for o := 1; o <= 2; o++ {
		if loweredOut(l, o) != nil {
			buffers = append(buffers, writes(o))
		} else {
			buffers = append(buffers, unused(true))
		}
	}
	numbers := append(r.numbers(l.Node), make([]float64, 7)...)[:7]
	// Rate, scale and the number of the step are single numbers.
	inPieces(l, n, buffers, []int64{4, 4, 0, 0, 0, 4, 4}, func(n int, buffers []graph.Buffer) {
		push := words(l, n)
		for _, x := range numbers {
			push = append(push, bits(x))
		}
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: optimizerKernel, Spec: []uint32{r.rule, oneIf(scaled), oneIf(r.other != nil && r.other(l.Node))},
			Push: push, Buffers: buffers, Groups: inLine(l, ceilDiv(n, 4*256)),
		})
	})
}

// lowerClipNorm adds the squares of each gradient, in parts.
func lowerClipNorm(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	parts := loweredReduction{fold: foldSum, term: termSquare}.inParts(l, 1)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: clipNormKernel, Spec: []uint32{uint32(l.Limits.Subgroup)}, Push: words(l, parts),
		Buffers: []graph.Buffer{writes(0), reads(0), scratch(0, l.Scratch, false)}, Groups: [3]int{1, 1, 1},
	})
}

func lowerCount(l *graph.Lowering) {
	if loweredIn(l, 1) != nil {
		lowerScaledCount(l)
		return
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{Kernel: countKernel, Buffers: []graph.Buffer{writes(0), reads(0)}, Groups: [3]int{1, 1, 1}})
}
