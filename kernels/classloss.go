package kernels

import (
	"math"
	"slices"

	"memopt/memopt/graph"
)

// classLoss is what the losses over class labels have in common: scores are
// [N, C, d…], labels [N, d…], the loss of a sample is weighed by its class,
// and one whose label is ignore_index weighs nothing. Samples are numbered in
// the order of the labels.
type classLoss struct {
	labels, weights *graph.Tensor // weights may be nil
	classes, inner  int           // inner is the product of d…
	ignore          int64
	ignores         bool
	reduction       string
}

var lossReductions = []string{"none", "sum", "mean"}

// inferClassLoss sets output 0.
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
		n.Fail("reduction is %q; there are none, sum and mean", n.Str("reduction"))
	}
	shape := graph.Shape{}
	if n.Str("reduction") == "none" {
		shape = labels.Shape
	}
	n.Set(0, scores.Type, shape)
}

// classLossAttrs is the attributes of a loss, for its gradient.
func classLossAttrs(n *graph.Node) graph.A {
	attrs := graph.A{"reduction": n.Str("reduction")}
	if n.Has("ignore_index") {
		attrs["ignore_index"] = n.Int("ignore_index")
	}
	return attrs
}

func newClassLoss(n *graph.Node, labels, weights *graph.Tensor, scores []int) classLoss {
	ignore, ok := n.Attr("ignore_index").(int64)
	return classLoss{labels, weights, scores[1], elems(scores[2:]), ignore, ok, n.Str("reduction")}
}

// first is where the scores of a sample begin; they are inner apart.
func (l classLoss) first(sample int) int {
	return sample/l.inner*l.inner*l.classes + sample%l.inner
}

// pick is the class of a sample and its weight; the class of an ignored one
// is −1. A label that is no class gives a weight of NaN, so that the mistake
// is seen.
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

// total is the weight of all samples, which a mean divides by.
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

// slope is the gradient of a sample's loss, before its weight.
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
