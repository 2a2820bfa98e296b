package zoo_test

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/autograd"
	"memopt/internal/golden"
	"memopt/internal/graph"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
)

// tiny is one small model of each family, and its variants.
var tiny = map[string][]zoo.Spec{
	"gpt": {
		{Layers: 2, Width: 16, Heads: 2, Vocab: 32, Positions: 16},
		{Layers: 1, Width: 16, Heads: 4, Vocab: 32, Positions: 16, Dropout: 0.1, Untied: true, Gelu: "none"},
	},
	"bert": {
		{Layers: 1, Width: 16, Heads: 2, Vocab: 32, Positions: 16},
		{Layers: 1, Width: 16, Heads: 1, Vocab: 32, Positions: 16, Dropout: 0.1, Untied: true, Gelu: "tanh"},
	},
	"llama": {
		{Layers: 1, Width: 16, Heads: 4, Vocab: 32},
		{Layers: 2, Width: 16, Heads: 2, KVHeads: 2, Vocab: 32, Untied: true},
		{Layers: 1, Width: 12, Heads: 3, Vocab: 32},
	},
	"resnet": {
		{Width: 4, Image: 8, Classes: 5},
		{Layers: 2, Width: 2, Image: 9, Channels: 1},
		{Width: 2, Image: 96, Classes: 3},
	},
	"mlp": {
		{Width: 8, Inputs: 6, Classes: 4},
		{Layers: 5, Width: 3},
	},
}

// eachTiny runs a test on every family and variant.
func eachTiny(t *testing.T, f func(t *testing.T, spec zoo.Spec, g *graph.Graph)) {
	for _, family := range zoo.Families() {
		if len(tiny[family.Name]) == 0 {
			t.Errorf("family %s has no test", family.Name)
		}
		for i, spec := range tiny[family.Name] {
			spec.Family = family.Name
			t.Run(fmt.Sprint(family.Name, i), func(t *testing.T) { f(t, spec, build(t, spec)) })
		}
	}
}

func build(t testing.TB, spec zoo.Spec) *graph.Graph {
	t.Helper()
	g, err := zoo.New(spec, kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func bind(t *testing.T, batch, seq int64) *graph.Binding {
	t.Helper()
	b, err := graph.Bind(map[string]int64{"batch": batch, "seq": seq})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every model is a valid graph over batch and seq, of standard operators, whose
// text reads back.
func TestGraphs(t *testing.T) {
	eachTiny(t, func(t *testing.T, spec zoo.Spec, g *graph.Graph) {
		if err := g.Check(); err != nil {
			t.Error(err)
		}
		if err := g.CheckTypes(); err != nil {
			t.Error(err)
		}
		want := []string{"batch", "seq"}
		if spec.Family == "resnet" || spec.Family == "mlp" {
			want = want[:1]
		}
		if got := g.Names(); !slices.Equal(got, want) {
			t.Errorf("dims %v, want %v", got, want)
		}
		if len(g.Assumed) > 0 {
			t.Errorf("it is assumed that %v", g.Assumed)
		}
		for _, n := range g.Nodes {
			if n.Op.Domain != "" || n.Op.Since > 23 {
				t.Errorf("node %s: %s since %d is not in opset 23", n.Name, n.Op.FullName(), n.Op.Since)
			}
		}
		if g.Loss == nil || g.Loss.Name != "loss" || g.Loss.Rank() != 0 {
			t.Errorf("loss is %v", g.Loss)
		}
		text := g.String()
		back, err := graph.Parse(kernels.Library, text)
		if err != nil {
			t.Fatal(err)
		}
		if back.String() != text {
			t.Error("its text reads back as another graph")
		}
	})
}

// Nothing is left that nobody reads.
func TestNoWaste(t *testing.T) {
	eachTiny(t, func(t *testing.T, _ zoo.Spec, g *graph.Graph) {
		before := g.String()
		g.Prune()
		if g.String() != before {
			t.Error("pruning finds something to take away")
		}
		seen := map[string]string{}
		for _, n := range g.Nodes {
			call := n.Op.Name + fmt.Sprint(n.Attrs)
			for _, v := range n.Inputs {
				call += " " + v.Name
			}
			if other := seen[call]; other != "" && !n.Op.Random {
				t.Errorf("%s and %s compute the same", other, n.Name)
			}
			seen[call] = n.Name
		}
	})
}

func TestGolden(t *testing.T) {
	for _, family := range zoo.Families() {
		spec := tiny[family.Name][0]
		spec.Family = family.Name
		golden.File(t, filepath.Join("testdata", family.Name+".txt"), build(t, spec).String())
	}
}

// A training step can be derived from every model, and all parameters are
// reached by the loss.
func TestTrainStep(t *testing.T) {
	eachTiny(t, func(t *testing.T, _ zoo.Spec, g *graph.Graph) {
		step, err := autograd.TrainStep(g, autograd.Options{Optimizer: "adamw"})
		if err != nil {
			t.Fatal(err)
		}
		if err := step.CheckTypes(); err != nil {
			t.Error(err)
		}
		if len(step.Assumed) > 0 {
			t.Errorf("it is assumed that %v", step.Assumed)
		}
		for _, v := range g.Values {
			if v.Kind == graph.Param && !slices.ContainsFunc(step.Grads, func(d graph.Grad) bool { return d.Param.Name == v.Name }) {
				t.Errorf("parameter %s has no gradient", v.Name)
			}
		}
	})
}

// A new model knows nothing: its loss is that of guessing.
func TestFirstLoss(t *testing.T) {
	const batch, seq = 2, 6
	eachTiny(t, func(t *testing.T, spec zoo.Spec, g *graph.Graph) {
		spec, err := spec.Complete()
		if err != nil {
			t.Fatal(err)
		}
		data, err := zoo.Data(spec, batch, seq, 7)
		if err != nil {
			t.Fatal(err)
		}
		b := bind(t, batch, seq)
		values, err := kernels.Interpret(g, b, data)
		if err != nil {
			t.Fatal(err)
		}
		got, want := values[g.Loss.ID].Float(0), math.Log(float64(max(spec.Vocab, spec.Classes)))
		if !(math.Abs(got-want) < 0.1*want) {
			t.Errorf("loss is %.4f, want about %.4f", got, want)
		}
	})
}

// The models are the published ones: given their numbers they have as many
// parameters. Weights of hundreds of gigabytes take no memory until read.
func TestParameters(t *testing.T) {
	for _, c := range []struct {
		name string
		spec zoo.Spec
		want int64
	}{
		{"GPT-2", zoo.Spec{Family: "gpt", Layers: 12, Width: 768, Heads: 12, Vocab: 50257}, 124_439_808},
		{"GPT-3", zoo.Spec{Family: "gpt", Layers: 96, Width: 12288, Heads: 96, Vocab: 50257, Positions: 2048}, 174_604_259_328},
		{"BERT base without its 2 segment vectors", zoo.Spec{Family: "bert", Layers: 12, Width: 768, Heads: 12, Vocab: 30522}, 109_514_298 - 2*768},
		{"Llama 7B", zoo.Spec{Family: "llama", Layers: 32, Width: 4096, Heads: 32, KVHeads: 32, Hidden: 11008, Vocab: 32000, Untied: true}, 6_738_415_616},
		{"Llama 3 8B", zoo.Spec{Family: "llama", Layers: 32, Width: 4096, Heads: 32, KVHeads: 8, Hidden: 14336, Vocab: 128256, Untied: true}, 8_030_261_248},
		{"ResNet-18", zoo.Spec{Family: "resnet", Layers: 2, Width: 64, Image: 224, Classes: 1000}, 11_689_512},
		{"MLP", zoo.Spec{Family: "mlp"}, 784*512 + 512 + 512*512 + 512 + 512*10 + 10},
	} {
		if got := parameters(build(t, c.spec)); got != c.want {
			t.Errorf("%s has %d parameters, want %d", c.name, got, c.want)
		}
	}
}

func parameters(g *graph.Graph) (sum int64) {
	for _, v := range g.Values {
		if v.Kind == graph.Param {
			n, _ := v.Shape.Elems().Const()
			sum += n
		}
	}
	return sum
}

// The same numbers make the same bytes; another seed makes others.
func TestSameBytes(t *testing.T) {
	eachTiny(t, func(t *testing.T, spec zoo.Spec, g *graph.Graph) {
		again := build(t, spec)
		spec.Seed = 1
		other := build(t, spec)
		if again.String() != g.String() || other.String() != g.String() {
			t.Error("the same numbers make another graph")
		}
		drawn := 0
		for i, v := range g.Values {
			if v.Data == nil {
				continue
			}
			x, y, z := contents(t, v), contents(t, again.Values[i]), contents(t, other.Values[i])
			if int64(len(x)) != v.Data.Len() {
				t.Errorf("%s says it has %d bytes and has %d", v.Name, v.Data.Len(), len(x))
			}
			if !bytes.Equal(x, y) {
				t.Errorf("%s: the same numbers make other bytes", v.Name)
			}
			if !bytes.Equal(x, z) {
				drawn++
			}
		}
		if drawn == 0 {
			t.Error("another seed makes the same bytes")
		}
		a, b := data(t, spec, 1), data(t, spec, 1)
		for name, x := range a {
			if !bytes.Equal(x.Bytes, b[name].Bytes) {
				t.Errorf("data %s: the same numbers make other bytes", name)
			}
		}
	})
}

func contents(t *testing.T, v *graph.Value) []byte {
	t.Helper()
	b, err := v.Data.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func data(t *testing.T, spec zoo.Spec, seed uint64) map[string]*graph.Tensor {
	t.Helper()
	d, err := zoo.Data(spec, 3, 5, seed)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Initial values have the mean, the deviation and the independence that they
// are drawn for.
func TestNormal(t *testing.T) {
	g := build(t, zoo.Spec{Family: "gpt", Layers: 1})
	v := g.ByName("transformer.wte.weight")
	x := graph.Tensor{Type: v.Type, Bytes: contents(t, v)}
	n := len(x.Bytes) / 4
	var sum, squares, neighbours float64
	for i := range n {
		y := x.Float(i) / 0.02
		sum, squares = sum+y, squares+y*y
		if i > 0 {
			neighbours += y * x.Float(i-1) / 0.02
		}
	}
	// Five deviations of each statistic.
	slack := 5 / math.Sqrt(float64(n))
	if mean := sum / float64(n); math.Abs(mean) > slack {
		t.Errorf("mean is %v deviations", mean)
	}
	if v := squares / float64(n); math.Abs(v-1) > 2*slack {
		t.Errorf("variance is %v of what it should be", v)
	}
	if c := neighbours / float64(n); math.Abs(c) > slack {
		t.Errorf("neighbours are correlated by %v", c)
	}
	if bytes.Equal(x.Bytes[:64], contents(t, g.ByName("transformer.wpe.weight"))[:64]) {
		t.Error("two parameters begin with the same numbers")
	}
}

// Data fits the model: every input is there with its shape, tokens and labels
// in their ranges.
func TestData(t *testing.T) {
	const samples, seq = 4, 5
	eachTiny(t, func(t *testing.T, spec zoo.Spec, g *graph.Graph) {
		d, err := zoo.Data(spec, samples, seq, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(d) != len(g.Inputs) {
			t.Errorf("%d arrays for %d inputs", len(d), len(g.Inputs))
		}
		b := bind(t, samples, seq)
		full, err := spec.Complete()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Inputs {
			x := d[v.Name]
			if x == nil {
				t.Fatalf("no data for %s", v.Name)
			}
			shape, err := b.Shape(v.Shape)
			if err != nil {
				t.Fatal(err)
			}
			if x.Type != v.Type || !slices.Equal(x.Shape, shape) {
				t.Errorf("%s is %s%v, want %s%v", v.Name, x.Type, x.Shape, v.Type, shape)
			}
			if x.Type != graph.Int64 {
				continue
			}
			told := false
			for _, id := range x.I64() {
				if ignored := v.Name == "labels" && spec.Family == "bert" && id == -100; ignored {
					continue
				}
				told = true
				if id < 0 || id >= int64(max(full.Vocab, full.Classes)) {
					t.Errorf("%s holds %d", v.Name, id)
				}
			}
			if !told {
				t.Errorf("%s tells nothing", v.Name)
			}
		}
	})
}

// Even the least numbers make data and a model.
func TestLeast(t *testing.T) {
	for _, family := range zoo.Families() {
		spec := zoo.Spec{Family: family.Name}
		for _, n := range zoo.Numbers() {
			if *n.Of(&family.Defaults) > 0 {
				*n.Of(&spec) = 1
			}
		}
		if family.Name == "llama" {
			spec.Width = 2 // a pair to turn
		}
		if family.Name == "resnet" {
			spec.Image = 8
		}
		build(t, spec)
		if _, err := zoo.Data(spec, 1, 1, 0); err != nil {
			t.Error(err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		spec zoo.Spec
		want string
	}{
		{zoo.Spec{}, `no family is called ""; there are gpt, bert, llama, resnet, mlp`},
		{zoo.Spec{Family: "gpt", Width: 60, Heads: 7}, "gpt: 7 heads do not divide a width of 60; 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60 would"},
		{zoo.Spec{Family: "llama", Heads: 4, KVHeads: 3}, "llama: 3 kv-heads do not divide 4 heads; 1, 2, 4 would"},
		{zoo.Spec{Family: "llama", Width: 12, Heads: 4}, "llama: rotary positions turn pairs: width/heads should be even"},
		{zoo.Spec{Family: "gpt", Layers: -1}, "gpt: -1 layers; it should be from 1 to 100000"},
		{zoo.Spec{Family: "gpt", Layers: 1e9}, "gpt: 1000000000 layers; it should be from 1 to 100000"},
		{zoo.Spec{Family: "gpt", Dropout: 1}, "gpt: dropout 1; it should be from 0 to below 1"},
		{zoo.Spec{Family: "gpt", Dropout: math.NaN()}, "gpt: dropout NaN; it should be from 0 to below 1"},
		{zoo.Spec{Family: "gpt", Gelu: "erf"}, `gpt: gelu "erf"; there are none and tanh`},
		{zoo.Spec{Family: "gpt", Classes: 3}, "gpt has no classes; it reads layers, width, heads, hidden, vocab, positions, dropout, gelu, untied, seed"},
		{zoo.Spec{Family: "mlp", Untied: true}, "mlp has no untied; it reads layers, width, inputs, classes, seed"},
		{zoo.Spec{Family: "resnet", Image: 7}, "resnet: image should be at least 8: the stages halve it three times"},
	} {
		_, err := zoo.New(c.spec, kernels.Library)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.spec, got, c.want)
		}
	}
	if _, err := zoo.New(zoo.Spec{Family: "mlp"}, &graph.Library{}); fmt.Sprint(err) != "the operator library has no Gemm" {
		t.Errorf("without operators: %v", err)
	}
	for _, c := range []struct {
		samples, seq int
		want         string
	}{
		{0, 8, "0 samples; there should be at least 1"},
		{1, 0, "sequences of 0; the model takes 1 to 1024"},
		{1, 1025, "sequences of 1025; the model takes 1 to 1024"},
	} {
		if _, err := zoo.Data(zoo.Spec{Family: "gpt"}, c.samples, c.seq, 0); fmt.Sprint(err) != c.want {
			t.Errorf("%d samples of %d: got %v, want %s", c.samples, c.seq, err, c.want)
		}
	}
}

// Every family says what it is with defaults that can be built, and its
// numbers are documented.
func TestFamilies(t *testing.T) {
	for _, f := range zoo.Families() {
		if f.Doc == "" || f.Batch < 1 || f.LR <= 0 {
			t.Errorf("%s: %+v", f.Name, f)
		}
		g := build(t, zoo.Spec{Family: f.Name})
		t.Logf("%-6s %9d parameters, %3d nodes", f.Name, parameters(g), len(g.Nodes))
		if n := parameters(g); n < 5e5 || n > 1e7 {
			t.Errorf("%s has %d parameters by default", f.Name, n)
		}
	}
	for _, n := range zoo.Numbers() {
		if n.Doc == "" || n.Name != strings.ToLower(n.Name) {
			t.Errorf("%+v", n)
		}
	}
}

// A graph of 100 000 nodes should be there within a second.
func BenchmarkHundredThousandNodes(b *testing.B) {
	b.ReportAllocs()
	nodes := 0
	for b.Loop() {
		nodes = len(build(b, zoo.Spec{Family: "gpt", Layers: 3700, Width: 64}).Nodes)
	}
	b.ReportMetric(float64(nodes), "nodes")
}
