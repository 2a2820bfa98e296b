package memopt

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/compare"
	"memopt/internal/graph"
	"memopt/internal/onnx"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/kernels/cpu"
	"memopt/memopt/devices"
	"memopt/memopt/step"
	"memopt/planner"
)

// trainingGraphs are graphs of ONNX Runtime's trainer; testdata/ort/README.md
// says more.
var trainingGraphs = []struct {
	file          string
	dims          map[string]int64
	names         string // all the dims that need a size
	forward, rest int    // nodes
	grads         int
	loss          bool
	large         bool // too large to run in a test
}{
	{"mlp", map[string]int64{"ids_dim0": 4, "x_dim1": 12}, "ids_dim0 x_dim1", 31, 39, 10, true, false},
	{"mlp-unfused", map[string]int64{"ids_dim0": 4, "x_dim1": 12}, "ids_dim0 x_dim1", 34, 58, 10, true, false},
	{"resnet", imageDims, "image_dim0 image_dim1 image_dim2 image_dim3", 24, 27, 20, true, false},
	{"resnet-unfused", imageDims, "image_dim0 image_dim1 image_dim2 image_dim3", 25, 33, 20, true, false},
	{"gpt2", map[string]int64{"input_ids_dim0": 2, "input_ids_dim1": 9}, "input_ids_dim0 input_ids_dim1", 88, 118, 29, true, false},
	{"gpt2-unfused", map[string]int64{"input_ids_dim0": 2, "input_ids_dim1": 9}, "input_ids_dim0 input_ids_dim1", 102, 171, 29, true, false},
	{"bert", map[string]int64{"attention_mask_dim0": 2, "token_type_ids_dim1": 9}, "attention_mask_dim0 token_type_ids_dim1", 83, 113, 41, true, false},
	{"bert-unfused", map[string]int64{"attention_mask_dim0": 2, "token_type_ids_dim1": 9}, "attention_mask_dim0 token_type_ids_dim1", 99, 161, 41, true, false},
	{"onnxruntime/recompute_gelu", map[string]int64{"input1_dim0": 3, "input1_dim1": 784}, "input1_dim0 input1_dim1", 4, 6, 3, false, false},
	{"onnxruntime/recompute_tile", map[string]int64{"input1_dim0": 24, "input1_dim1": 3, "query_layer_dim0": 48, "query_layer_dim1": 5, "query_layer_dim2": 4},
		"input1_dim0 input1_dim1 query_layer_dim0 query_layer_dim1 query_layer_dim2", 4, 5, 2, false, false},
	{"onnxruntime/3layer_bloom_optimized_training", map[string]int64{"inputs_input_ids_dim0": 2, "inputs_attention_mask_dim1": 1024},
		"inputs_attention_mask_dim1 inputs_input_ids_dim0", 167, 206, 41, true, true},
}

var imageDims = map[string]int64{"image_dim0": 4, "image_dim1": 3, "image_dim2": 32, "image_dim3": 32}

func readTraining(t *testing.T, file string) *graph.Graph {
	t.Helper()
	g, _, err := onnx.Open(filepath.Join("testdata", "ort", file+".onnx"), kernels.Library)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestTrainingGraphs: each is read, parted into its passes, planned and run:
// the results are numbers, and bit for bit the same whatever is computed again,
// also when the plan has gone through a file.
func TestTrainingGraphs(t *testing.T) {
	for _, c := range trainingGraphs {
		t.Run(c.file, func(t *testing.T) {
			g := readTraining(t, c.file)
			if err := g.CheckTypes(); err != nil {
				t.Fatal(err)
			}
			passes := map[graph.Phase]int{}
			borders := 0
			for _, n := range g.Nodes {
				passes[n.Phase]++
				if n.Op.Border {
					borders++
				}
			}
			if passes[graph.Forward] != c.forward || passes[graph.Backward] != c.rest || borders != 1 {
				t.Errorf("%d nodes forward, %d backward, %d borders; not %d, %d and 1", passes[graph.Forward], passes[graph.Backward], borders, c.forward, c.rest)
			}
			if names := strings.Join(g.Names(), " "); names != c.names {
				t.Errorf("dims are %q, not %q", names, c.names)
			}
			if (g.Loss != nil) != c.loss || len(g.Grads) != c.grads {
				t.Errorf("loss is %v, and there are %d gradients, not %d", g.Loss, len(g.Grads), c.grads)
			}
			var again []string
			for _, n := range g.Nodes {
				if n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View {
					again = append(again, n.Name)
				}
			}
			kept, err := planner.Make(g, planner.Request{Dims: c.dims, Strategy: "keep-all"})
			if err != nil {
				t.Fatal(err)
			}
			repeated, err := planner.Make(g, planner.Request{Dims: c.dims, Again: again})
			if err != nil {
				t.Fatal(err)
			}
			if c.large {
				return
			}
			want := runTraining(t, kept)
			for name, b := range want {
				for i := range b.Len() {
					if x := b.Float(i); math.IsNaN(x) || math.IsInf(x, 0) {
						t.Fatalf("element %d of %q is %v", i, name, x)
					}
				}
			}
			sameTensors(t, "with all computed again", runTraining(t, repeated), want)

			rewritten, err := repeated.Rewrite()
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			if err := onnx.Encode(&file, rewritten); err != nil {
				t.Fatal(err)
			}
			back, err := onnx.Parse(file.Bytes(), "back.onnx", kernels.Library)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := planner.Make(back, planner.Request{Dims: c.dims, Strategy: "keep-all"})
			if err != nil {
				t.Fatal(err)
			}
			sameTensors(t, "after a file", runTraining(t, plan), want)
		})
	}
}

// TestTrainersExtracts: what a trainer's graph can keep in less is in its table,
// is kept so where settings say it, and is the same bits, also in a file.
func TestTrainersExtracts(t *testing.T) {
	for _, c := range []struct{ file, setting, row string }{
		{"resnet", "shrink=on", "Relu+"}, {"resnet-unfused", "config=Relu+:2:-1", "Relu+"},
		{"gpt2", "config=Dropout+:2:{1,3}", "Dropout+"}, {"bert", "shrink=on", "Dropout+"}, {"mlp", "shrink=on", ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			dims := map[string]int64{}
			for _, g := range trainingGraphs {
				if g.file == c.file {
					dims = g.dims
				}
			}
			plain, err := openTraining(t, c.file, dims).Plan()
			if err != nil {
				t.Fatal(err)
			}
			m := openTraining(t, c.file, dims, c.setting)
			p, err := m.Plan()
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range []*planner.Plan{plain, p} {
				at := slices.IndexFunc(q.Clusters, func(r planner.Cluster) bool { return r.ID == c.row && r.Strategy == 2 && r.How != "" })
				if c.row != "" && (at < 0 || (q.Clusters[at].Applied > 0) != (q == p)) {
					t.Errorf("row %s is not in the table as it should be: %+v", c.row, q.Clusters)
				}
			}
			if c.row != "" && p.Result.Stashed >= plain.Result.Stashed {
				t.Errorf("%d bytes are kept, and %d without", p.Result.Stashed, plain.Result.Stashed)
			}
			want := runTraining(t, plain)
			sameTensors(t, "with extracts", runTraining(t, p), want)
			_, back := emitted(t, m)
			sameTensors(t, "after a file", runTraining(t, keepAll(t, back, dims)), want)
		})
	}
}

func sameTensors(t *testing.T, what string, got, want map[string]*graph.Tensor) {
	t.Helper()
	for name, x := range want {
		if got[name] == nil || !bytes.Equal(got[name].Bytes, x.Bytes) {
			t.Errorf("%s: %q has other bits", what, name)
		}
	}
}

// runTraining does a step with numbers that depend on the inputs' names alone.
// Integers are 0 or 1, which every table of an embedding has.
func runTraining(t *testing.T, p *planner.Plan) map[string]*graph.Tensor {
	t.Helper()
	return runWith(t, p, trainingNumbers)
}

func trainingNumbers(v *graph.Value, x *graph.Tensor) {
	rng := rand.New(rand.NewPCG(uint64(len(v.Name)), uint64(v.Name[len(v.Name)/2])))
	for i := range x.Len() {
		switch {
		case v.Type.IsFloat():
			x.SetFloat(i, rng.NormFloat64()/4)
		case v.Type == graph.Bool:
			x.SetInt(i, 1)
		default:
			x.SetInt(i, rng.Int64N(2))
		}
	}
}

// runWith does the first step, or those of the given numbers, on a device that
// poisons what it should not read, and returns the graph's outputs of the last.
func runWith(t *testing.T, p *planner.Plan, fill func(v *graph.Value, x *graph.Tensor), steps ...uint64) map[string]*graph.Tensor {
	t.Helper()
	return runOn(t, p, fill, func(s *schedule.Schedule) (devices.Device, error) { return cpu.Open(s, cpu.Options{Poison: true}) }, steps...)
}

// runOn is runWith on another device.
func runOn(t *testing.T, p *planner.Plan, fill func(v *graph.Value, x *graph.Tensor), open func(*schedule.Schedule) (devices.Device, error), steps ...uint64) map[string]*graph.Tensor {
	t.Helper()
	if len(steps) == 0 {
		steps = []uint64{0}
	}
	s, err := p.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]*graph.Tensor{}
	for _, r := range s.Fixed {
		if r.Value.Kind == graph.Input {
			x := graph.NewTensor(r.Value.Type, r.Shape...)
			fill(r.Value, x)
			in[r.Value.Name] = x
		}
	}
	d, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, step := range steps {
		if _, err := d.Run(schedule.Run{Inputs: in, Seed: 7, Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]*graph.Tensor{}
	for _, v := range p.Graph.Outputs {
		x, err := d.Output(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[v.Name] = x
	}
	return out
}

// TestTrainingGraphsNumbers: loss and every gradient are what ONNX Runtime and
// PyTorch computed of the same numbers, and the same bits after recomputation is
// written into the graph.
func TestTrainingGraphsNumbers(t *testing.T) {
	for _, c := range trainingGraphs {
		model, _, _ := strings.Cut(c.file, "-")
		if model != "mlp" && model != "resnet" {
			continue
		}
		t.Run(c.file, func(t *testing.T) {
			data, err := tensorfile.ReadNPZ(filepath.Join("testdata", "ort", model+".npz"))
			if err != nil {
				t.Fatal(err)
			}
			run := func(g *graph.Graph) map[string]*graph.Tensor {
				p, err := planner.Make(g, planner.Request{Dims: c.dims})
				if err != nil {
					t.Fatal(err)
				}
				return runWith(t, p, func(v *graph.Value, x *graph.Tensor) {
					from := data.Tensors["input."+v.Name]
					if from == nil {
						t.Fatalf("no numbers for input %q", v.Name)
					}
					copy(x.Bytes, from.Bytes)
				})
			}
			g := readTraining(t, c.file)
			got := run(g)
			if e := compare.RelErr(got[g.Loss.Name], data.Tensors["loss"], 0); !(e <= 1e-6) {
				t.Errorf("loss is %v, not %v", got[g.Loss.Name].Float(0), data.Tensors["loss"].Float(0))
			}
			compared := 0
			for _, d := range g.Grads {
				want := data.Tensors["grad."+d.Param.Name]
				if want == nil {
					continue
				}
				compared++
				if e := compare.RelErr(got[d.Grad.Name], want, 1e-6); !(e <= 1e-4) {
					t.Errorf("gradient of %q differs by %.2e", d.Param.Name, e)
				}
			}
			if compared != c.grads {
				t.Errorf("%d gradients were compared, not %d", compared, c.grads)
			}
			for _, settings := range [][]string{{"level=1"}, {"level=2"}, {"level=1", "compat=1.19"}} {
				_, after := emitted(t, openTraining(t, c.file, c.dims, settings...))
				sameTensors(t, strings.Join(settings, " "), run(after), got)
			}
		})
	}
}

// TestCheckTrainingGraph: a graph that has its gradients is checked as it is.
func TestCheckTrainingGraph(t *testing.T) {
	c := configs.Default()
	c.Dims = map[string]int64{"ids_dim0": 4, "x_dim1": 12, "labels_dim0": 4}
	check, err := checked(&step.Model{Path: "testdata/ort/mlp.onnx", Config: c}, "testdata/ort/mlp.npz")
	if err != nil {
		t.Fatal(err)
	}
	if len(check.Params) != 10 || len(check.Missing) > 0 || !(check.LossRelErr <= 1e-6) || !(check.Worst.RelErr <= 1e-4) {
		t.Errorf("%d gradients, missing %v, loss differs by %.2e, worst gradient %q by %.2e",
			len(check.Params), check.Missing, check.LossRelErr, check.Worst.Name, check.Worst.RelErr)
	}
	if len(check.Plan.Warnings) > 0 {
		t.Errorf("warnings: %q", check.Plan.Warnings)
	}
	c.Dims["labels_dim0"] = 5
	if _, err := checked(&step.Model{Path: "testdata/ort/mlp.onnx", Config: c}, "testdata/ort/mlp.npz"); err == nil || !strings.Contains(err.Error(), "labels_dim0 = ids_dim0") {
		t.Errorf("labels for another batch: %v", err)
	}
}
