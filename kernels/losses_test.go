package kernels_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
)

// TestLosses runs the cases of testdata/losses.txt: a line "loss NAME", or
// "loss NAME OUTPUT", and a graph; ----; the graph with its loss, or the error.
func TestLosses(t *testing.T) {
	golden.Cases(t, "testdata/losses.txt", func(input string) string {
		line, text, _ := strings.Cut(input, "\n")
		words := append(strings.Fields(line), "")
		g, err := graph.Parse(kernels.Library, text)
		if err != nil {
			t.Fatalf("%v\n%s", err, input)
		}
		l, ok := kernels.FindLoss(words[1])
		if !ok {
			return "there is no such loss"
		}
		if err := kernels.AddLoss(g, l, words[2]); err != nil {
			return err.Error()
		}
		if err := g.Check(); err != nil {
			t.Errorf("%v\n%s", err, g)
		}
		return g.String()
	})
}

// TestLossValues compares each loss with its definition.
func TestLossValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const rows, classes = 6, 5
	x, target := graph.NewTensor(graph.Float64, rows, classes), graph.NewTensor(graph.Float64, rows, classes)
	labels := graph.NewTensor(graph.Int64, rows)
	for i := range x.Len() {
		x.SetFloat(i, 30*rng.NormFloat64())
		target.SetFloat(i, rng.Float64())
	}
	for i := range rows {
		labels.SetInt(i, rng.Int64N(classes))
	}
	labels.SetInt(2, -100)
	mean := func(f func(x, t float64) float64) float64 {
		sum := 0.0
		for i := range x.Len() {
			sum += f(x.Float(i), target.Float(i))
		}
		return sum / float64(x.Len())
	}
	want := map[string]float64{
		"mse":  mean(func(x, t float64) float64 { return (x - t) * (x - t) }),
		"l1":   mean(func(x, t float64) float64 { return math.Abs(x - t) }),
		"mean": mean(func(x, _ float64) float64 { return x }),
		"bce-with-logits": mean(func(x, t float64) float64 {
			return max(x, 0) - x*t + math.Log1p(math.Exp(-math.Abs(x)))
		}),
		"cross-entropy": func() float64 {
			sum, counted := 0.0, 0.0
			for i := range rows {
				if l := labels.Int(i); l >= 0 {
					all := 0.0
					for c := range classes {
						all += math.Exp(x.Float(i*classes+c) - x.Float(i*classes+int(l)))
					}
					sum, counted = sum+math.Log(all), counted+1
				}
			}
			return sum / counted
		}(),
	}
	for _, l := range kernels.Losses {
		g, err := graph.Parse(kernels.Library, "x f64[6,5] = input\ny = Identity(x)\noutput y")
		if err != nil {
			t.Fatal(err)
		}
		if err := kernels.AddLoss(g, l, ""); err != nil {
			t.Fatal(err)
		}
		b, err := graph.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		values, err := kernels.Interpret(g, b, map[string]*graph.Tensor{"x": x, "targets": target, "labels": labels})
		if err != nil {
			t.Fatal(err)
		}
		if got := values[g.Outputs[0].ID].Float(0); math.Abs(got-want[l.Name]) > 1e-12*math.Abs(want[l.Name]) {
			t.Errorf("%s is %v, want %v", l.Name, got, want[l.Name])
		}
	}
}
