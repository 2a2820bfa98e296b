package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// classLoss is shared by the losses over class labels: scores are [N, C, d…], labels
// [N, d…]. A sample's loss is weighted by its class; samples with label ignore_index have
// weight 0. Samples are numbered in the order of the labels.
type classLoss struct {
	labels, weights *graph.Tensor // weights may be nil
	classes, inner  int           // inner is the product of d…
	ignore          int64
	ignores         bool
	reduction       string
}

var lossReductions = []string{"none", "sum", "mean"}

// inferClassLoss checks the inputs and sets output 0.
func inferClassLoss(n *graph.Node, scores, labels, weights *graph.Value) {
	if !isFloat(scores.Type) {
		n.Fail("scores are %s; floats expected", scores.Type)
	}
	if !isIndex(labels.Type) {
		n.Fail("labels are %s; int32 or int64 expected", labels.Type)
	}
	if scores.Rank() < 2 || labels.Rank() != scores.Rank()-1 {
		n.Fail("scores must be [N, C, …] and labels [N, …], but they are %s and %s", scores.Shape, labels.Shape)
	}
	for i, d := range slices.Delete(slices.Clone(scores.Shape), 1, 2) {
		n.Same(labels.Shape[i], d, "labels and scores")
	}
	if weights != nil {
		if weights.Type != scores.Type || weights.Rank() != 1 {
			n.Fail("weights must be %s [C], but are %s%s", scores.Type, weights.Type, weights.Shape)
		}
		n.Same(weights.Shape[0], scores.Shape[1], "weights and classes")
	}
	if !slices.Contains(lossReductions, n.Str("reduction")) {
		n.Fail("reduction is %q, not none, sum or mean", n.Str("reduction"))
	}
	shape := graph.Shape{}
	if n.Str("reduction") == "none" {
		shape = labels.Shape
	}
	n.Set(0, scores.Type, shape)
}

// classLossAttrs copies a loss's attributes for its gradient operator.
func classLossAttrs(n *graph.Node) graph.A {
	attrs := graph.A{"reduction": n.Str("reduction")}
	if n.Has("ignore_index") {
		attrs["ignore_index"] = n.Int("ignore_index")
	}
	return attrs
}

func newClassLoss(n *graph.Node, labels, weights *graph.Tensor, scores []int) classLoss {
	ignore, ok := n.Attr("ignore_index").(int64)
	return classLoss{labels, weights, scores[1], index.Elems(scores[2:]), ignore, ok, n.Str("reduction")}
}

// first is the index of a sample's first score; the next ones follow at stride inner.
func (l classLoss) first(sample int) int {
	return sample/l.inner*l.inner*l.classes + sample%l.inner
}

// pick returns the class of a sample and its weight. An ignored sample has class −1 and
// weight 0; a label out of range has weight NaN, so that the loss shows the mistake.
func (l classLoss) pick(sample int) (class int, weight float64) {
	y := l.labels.Int(sample)
	switch {
	case l.ignores && y == l.ignore:
		return -1, 0
	case y < 0 || y >= int64(l.classes):
		return -1, math.NaN()
	case l.weights != nil:
		return int(y), l.weights.Float(int(y))
	}
	return int(y), 1
}

// total is the sum of the weights, the divisor of reduction mean.
func (l classLoss) total() float64 {
	sum := 0.0
	for s := range l.labels.Len() {
		_, w := l.pick(s)
		sum += w
	}
	return sum
}

// reduce writes output 0 from the loss of each sample.
func (l classLoss) reduce(out *graph.Tensor, loss func(sample int) float64) {
	if l.reduction == "none" {
		for s := range out.Len() {
			out.SetFloat(s, loss(s))
		}
		return
	}
	sum := 0.0
	for s := range l.labels.Len() {
		sum += loss(s)
	}
	if l.reduction == "mean" {
		sum /= l.total()
	}
	out.SetFloat(0, sum)
}

// slope is the gradient that reaches a sample's loss, without the sample's weight.
func (l classLoss) slope(dy *graph.Tensor) func(sample int) float64 {
	switch l.reduction {
	case "none":
		return dy.Float
	case "mean":
		d := dy.Float(0) / l.total()
		return func(int) float64 { return d }
	}
	d := dy.Float(0)
	return func(int) float64 { return d }
}
