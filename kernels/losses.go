package kernels

import (
	"fmt"
	"slices"
	"strings"

	"memopt/internal/graph"
)

// Loss is a loss that can be appended to a model that ends in scores or values. It is not an
// operator, but a few nodes.
type Loss struct {
	Name string
	Doc  string
	// Target returns the name, type and shape of the input that the loss adds, given
	// the scores; an empty name means none.
	Target func(scores *graph.Value) (name string, t graph.DType, s graph.Shape)
	make   func(b *graph.Builder, scores, target *graph.Value) *graph.Value
}

// Losses lists the losses that AddLoss can add.
var Losses = []Loss{
	{Name: "cross-entropy",
		Doc:    "of scores and labels; classes are the last dim, for images [N, C, H, W] the second; label -100 is ignored",
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
	{Name: "mean", Doc: "the mean of the output itself; trains nothing useful, but shows the memory of a step",
		Target: func(*graph.Value) (string, graph.DType, graph.Shape) { return "", 0, nil },
		make:   func(b *graph.Builder, x, _ *graph.Value) *graph.Value { return meanOfAll(b, x) }},
}

func meanOfAll(b *graph.Builder, x *graph.Value) *graph.Value {
	return b.Op("ReduceMean", graph.A{"keepdims": 0}, x)
}

// classDim is the dim of the classes in scores: [batch, classes], [batch, words, classes] or
// [batch, classes, height, width].
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

// FindLoss finds a loss by name; PyTorch's spelling is accepted, too (CrossEntropyLoss,
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

// AddLoss appends a loss of the named value, or if the name is "" of the only output that
// fits. The loss becomes the graph's only output; nodes and inputs that it does not need are
// removed.
func AddLoss(g *graph.Graph, l Loss, value string) error {
	scores, err := l.scored(g, value)
	if err != nil {
		return fmt.Errorf("the loss %s: %w", l.Name, err)
	}
	if l.Name == "cross-entropy" && scores.Rank() < 2 {
		return fmt.Errorf("the loss %s needs scores [batch, classes, …], but %s has rank %d", l.Name, scores, scores.Rank())
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

// scored finds the value that the loss is computed of.
func (l Loss) scored(g *graph.Graph, name string) (*graph.Value, error) {
	if v := g.ByName(name); name != "" && v != nil {
		if !v.Type.IsFloat() {
			return nil, fmt.Errorf("%s is not of a float type", v)
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
			return nil, fmt.Errorf("the model has no value %q, and no float output", name)
		}
		return nil, fmt.Errorf("the model has no value %q; its outputs are %s", name, strings.Join(names, ", "))
	case len(fit) == 0:
		return nil, fmt.Errorf("the model has no float output")
	case len(fit) == 1:
		return fit[0], nil
	}
	if i := slices.Index(names, "logits"); i >= 0 { // language models have outputs for caches, too
		return fit[i], nil
	}
	return nil, fmt.Errorf("several outputs fit (%s); name one, as in %s:%s", strings.Join(names, ", "), l.Name, names[0])
}
