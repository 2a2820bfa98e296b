package autograd_test

import (
	"strconv"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
)

// TestSteps runs the cases of testdata: comment lines, a request, a forward
// graph, ----, the training step or the error, and an empty line between
// cases. A request is a line of options:
//
//	train loss=l optimizer=adamw trainable=w,!b clip=1 micro=2 keep beta1=0.8
//
// where words that are no options are settings of the optimizer.
func TestSteps(t *testing.T) {
	golden.Files(t, "testdata/*.txt", stepText)
}

func stepText(t *testing.T, input string) string {
	var opt autograd.Options
	var text []string
	for line := range strings.SplitSeq(input, "\n") {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "train" {
			opt = options(t, words[1:])
			continue
		}
		text = append(text, line)
	}
	g, err := graph.Parse(library, strings.Join(text, "\n"))
	if err != nil {
		t.Fatalf("%v\n%s", err, input)
	}
	before := g.String()
	step, err := autograd.TrainStep(g, opt)
	if g.String() != before {
		t.Errorf("the forward graph was changed:\n%s", input)
	}
	if err != nil {
		return err.Error()
	}
	if err := step.CheckTypes(); err != nil {
		t.Errorf("%v\n%s", err, step)
	}
	back, err := graph.Parse(library, step.String())
	if err != nil || back.String() != step.String() {
		t.Errorf("the step does not read back: %v\n%s", err, step)
	}
	return step.String()
}

func options(t *testing.T, words []string) (opt autograd.Options) {
	opt.Hyper = map[string]float64{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		n, err := strconv.ParseFloat(value, 64)
		number := func() float64 {
			if err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			return n
		}
		switch key {
		case "loss":
			opt.Loss = value
		case "optimizer":
			opt.Optimizer = value
		case "trainable":
			opt.Trainable = strings.Split(value, ",")
		case "clip":
			opt.ClipNorm = number()
		case "micro":
			opt.MicroBatches = int(number())
		case "scale":
			opt.LossScale.Initial = number()
		case "window":
			opt.LossScale.Window = int(number())
		case "keep":
			opt.KeepGrads = true
		default:
			opt.Hyper[key] = number()
		}
	}
	return opt
}

// library is the real one, and an operator whose gradient is not known.
var library = func() *graph.Library {
	lib := &graph.Library{}
	for _, op := range kernels.Library.All() {
		lib.Define(*op)
	}
	lib.Define(graph.Op{
		Name: "Riddle", In: "X, Y?", Out: "Z", Doc: "nobody knows",
		Infer: func(n *graph.Node) { n.Set(0, n.Inputs[0].Type, n.Inputs[0].Shape) },
		Eval:  func(c *graph.Call) { copy(c.Out[0].Bytes, c.In[0].Bytes) },
	})
	return lib
}()
