package kernels

import (
	"fmt"
	"slices"
	"strings"

	"memopt/memopt/graph"
)

// Loss is a loss that a model which ends in scores or values can be given. It
// is no operator but a few nodes after the model's own.
type Loss struct {
	Name string
	Doc  string
	// Target is the input that the loss adds: its name, and its type and shape
	// for scores. No name is no input.
	Target func(scores *graph.Value) (name string, t graph.DType, s graph.Shape)
	make   func(b *graph.Builder, scores, target *graph.Value) *graph.Value
}

// Losses is what AddLoss can add.
var Losses = []Loss{
	{Name: "cross-entropy",
		Doc:    "of scores and labels, the classes in the last dim, or in the second where images are told apart pixel by pixel; a label of -100 does not count",
		Target: labels,
		make: func(b *graph.Builder, scores, labels *graph.Value) *graph.Value {
			if c := scores.Rank() - 1; classDim(scores) != 1 {
				rows := scores.Shape[:c].Elems()
				scores = b.Op("Reshape", nil, scores, b.Ints(rows, scores.Shape[c]))
				labels = b.Op("Reshape", nil, labels, b.Ints(rows))
			}
			return b.Op("SoftmaxCrossEntropyLoss", graph.A{"ignore_index": -100}, scores, labels)
		}},
	{Name: "mse", Doc: "the mean of squared differences from targets", Target: values,
		make: func(b *graph.Builder, x, target *graph.Value) *graph.Value {
			d := b.Op("Sub", nil, x, target)
			return meanOfAll(b, b.Op("Mul", nil, d, d))
		}},
	{Name: "l1", Doc: "the mean of absolute differences from targets", Target: values,
		make: func(b *graph.Builder, x, target *graph.Value) *graph.Value {
			return meanOfAll(b, b.Op("Abs", nil, b.Op("Sub", nil, x, target)))
		}},
	{Name: "bce-with-logits", Doc: "the mean binary cross entropy of scores and targets from 0 to 1", Target: values,
		make: func(b *graph.Builder, x, target *graph.Value) *graph.Value {
			// −t ln σ(x) − (1 − t) ln σ(−x)
			return meanOfAll(b, b.Op("Sub", nil, b.Op("Softplus", nil, x), b.Op("Mul", nil, x, target)))
		}},
	{Name: "mean", Doc: "the mean of the output itself: nothing to learn from, but the memory of a step",
		Target: func(*graph.Value) (string, graph.DType, graph.Shape) { return "", 0, nil },
		make:   func(b *graph.Builder, x, _ *graph.Value) *graph.Value { return meanOfAll(b, x) }},
}

func meanOfAll(b *graph.Builder, x *graph.Value) *graph.Value {
	return b.Op("ReduceMean", graph.A{"keepdims": 0}, x)
}

// classDim is where the classes of scores lie: [batch, classes], [batch, words,
// classes], [batch, classes, height, width].
func classDim(scores *graph.Value) int {
	if scores.Rank() == 3 {
		return 2
	}
	return 1
}

func labels(scores *graph.Value) (string, graph.DType, graph.Shape) {
	c := classDim(scores)
	return "labels", graph.Int64, slices.Delete(slices.Clone(scores.Shape), c, c+1)
}

func values(scores *graph.Value) (string, graph.DType, graph.Shape) {
	return "targets", scores.Type, slices.Clone(scores.Shape)
}

// FindLoss is the loss of a name, in PyTorch's spelling too (CrossEntropyLoss,
// BCEWithLogitsLoss).
func FindLoss(name string) (Loss, bool) {
	plain := func(s string) string {
		s = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
		return strings.TrimSuffix(s, "loss")
	}
	for _, l := range Losses {
		if plain(l.Name) == plain(name) {
			return l, true
		}
	}
	return Loss{}, false
}

// AddLoss puts a loss on the value named, or on the only output it fits where
// the name is "", and makes it the graph's only output: what a step does not
// need for its loss is neither fed nor computed.
func AddLoss(g *graph.Graph, l Loss, value string) error {
	scores, err := l.scored(g, value)
	if err != nil {
		return fmt.Errorf("the loss %s: %w", l.Name, err)
	}
	if l.Name == "cross-entropy" && scores.Rank() < 2 {
		return fmt.Errorf("the loss %s needs scores of a batch in several classes, but %s is not that", l.Name, scores)
	}
	return graph.Try(func() {
		g.Outputs, g.Loss = []*graph.Value{scores}, nil
		g.Prune()
		g.Inputs = slices.DeleteFunc(g.Inputs, func(v *graph.Value) bool { return v != scores && !read(g, v) })
		g.Prune()
		b := graph.NewBuilder(g)
		var target *graph.Value
		if name, t, s := l.Target(scores); name != "" {
			if target, err = b.Define(graph.Input, b.Fresh(name), t, s); err != nil {
				panic(err) // the name is fresh
			}
		}
		g.Outputs = []*graph.Value{l.make(b, scores, target)}
	})
}

func read(g *graph.Graph, v *graph.Value) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return slices.Contains(n.Inputs, v) })
}

// scored finds the value that a loss is put on.
func (l Loss) scored(g *graph.Graph, name string) (*graph.Value, error) {
	if v := g.ByName(name); name != "" && v != nil {
		if !v.Type.IsFloat() {
			return nil, fmt.Errorf("%s has no floats", v)
		}
		return v, nil
	}
	var fit []*graph.Value
	var names []string
	for _, v := range g.Outputs {
		if v.Type.IsFloat() && v.Rank() > 0 {
			fit, names = append(fit, v), append(names, v.Name)
		}
	}
	switch {
	case name != "":
		if len(names) == 0 {
			return nil, fmt.Errorf("the model has no value %q, and no output that a loss could be put on", name)
		}
		return nil, fmt.Errorf("the model has no value %q; its outputs are %s", name, strings.Join(names, ", "))
	case len(fit) == 0:
		return nil, fmt.Errorf("the model has no output of floats to put it on")
	case len(fit) == 1:
		return fit[0], nil
	}
	if i := slices.Index(names, "logits"); i >= 0 { // what language models call theirs, beside their caches
		return fit[i], nil
	}
	return nil, fmt.Errorf("it fits several outputs, %s; say which, as in %s:%s", strings.Join(names, ", "), l.Name, names[0])
}
