package memopt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/compare"
	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/memopt/devices"
	"memopt/memopt/feed"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
)

// models are PyTorch's exports with its loss and gradients: as cleaned up, as
// exported, and with symbolic dims.
var models = []struct {
	file string
	dims map[string]int64
}{
	{"mlp/model.onnx", nil},
	{"mlp/model_dyn.onnx", map[string]int64{"batch": 16}},
	{"gpt2-2L/model.onnx", nil},
	{"gpt2-2L/model_raw.onnx", nil},
	{"gpt2-2L/model_dyn.onnx", map[string]int64{"batch": 2, "seq": 32}},
	{"bert-2L/model.onnx", nil},
	{"bert-2L/model_raw.onnx", nil},
	{"bert-2L/model_dyn.onnx", map[string]int64{"batch": 2, "seq": 32}},
	{"resnet8/model.onnx", nil},
}

func eachModel(t *testing.T, f func(t *testing.T, path, reference string, c configs.Config)) {
	for _, m := range models {
		t.Run(m.file, func(t *testing.T) {
			path := filepath.Join("testdata", "models", m.file)
			c := configs.Default()
			c.Dims = m.dims
			f(t, path, filepath.Join(filepath.Dir(path), "ref.npz"), c)
		})
	}
}

// TestGradientsEqualPyTorch: loss and every parameter's gradient, to 1e-4.
func TestGradientsEqualPyTorch(t *testing.T) {
	eachModel(t, func(t *testing.T, path, reference string, c configs.Config) {
		check, err := checked(&step.Model{Path: path, Config: c}, reference)
		if err != nil {
			t.Fatal(err)
		}
		if len(check.Params) == 0 || len(check.Missing) > 0 {
			t.Fatalf("%d gradients compared, missing %v", len(check.Params), check.Missing)
		}
		if !(check.LossRelErr <= 1e-6) || !(check.Worst.RelErr <= 1e-4) {
			t.Errorf("loss differs by %.2e, worst gradient %q by %.2e", check.LossRelErr, check.Worst.Name, check.Worst.RelErr)
		}
		if check.Trace.Arena != check.Plan.Arena {
			t.Errorf("arena: promised %d, measured %d", check.Plan.Arena, check.Trace.Arena)
		}
	})
}

// TestTiledAttentionEqualsPyTorch: with attention by tiles, too, and the bits are the
// same for any number of workers.
func TestTiledAttentionEqualsPyTorch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	eachModel(t, func(t *testing.T, path, reference string, c configs.Config) {
		if c.Flash = "on"; !strings.Contains(path, "gpt2") && !strings.Contains(path, "bert") {
			t.Skip("has no attention")
		}
		var first map[string]*graph.Tensor
		for workers := 1; workers <= 2; workers++ {
			runtime.GOMAXPROCS(workers)
			m := &step.Model{Path: path, Config: c}
			got, check, err := training.Gradients(m, reference)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(check.Plan.Graph.Nodes, func(n *graph.Node) bool { return n.Op == kernels.FlashAttention }) {
				t.Fatal("no attention was found in its pieces")
			}
			if len(check.Params) == 0 || len(check.Missing) > 0 {
				t.Fatalf("%d gradients compared, missing %v", len(check.Params), check.Missing)
			}
			if !(check.LossRelErr <= 1e-6) || !(check.Worst.RelErr <= 1e-4) {
				t.Errorf("loss differs by %.2e, worst gradient %q by %.2e", check.LossRelErr, check.Worst.Name, check.Worst.RelErr)
			}
			if check.Trace.Arena != check.Plan.Arena {
				t.Errorf("arena: promised %d, measured %d", check.Plan.Arena, check.Trace.Arena)
			}
			all := fetched(t, got)
			if first == nil {
				first = all
			}
			for name, x := range all {
				if !bytes.Equal(x.Bytes, first[name].Bytes) {
					t.Errorf("%s has other bits with %d workers", name, workers)
				}
			}
		}
	})
}

// TestRunningStatistics: batch norm's new statistics, PyTorch's variance being
// the sample's.
func TestRunningStatistics(t *testing.T) {
	reference := "testdata/models/resnet8/ref.npz"
	got, _, err := training.Gradients(&step.Model{Path: "testdata/models/resnet8/model.onnx", Config: configs.Default()}, reference)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tensorfile.ReadNPZ(reference)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	compared, all := 0, fetched(t, got)
	for _, name := range want.Names {
		x := all[name]
		if filepath.Ext(name) != ".running_mean" || x == nil {
			continue
		}
		compared++
		if e := compare.RelErr(x, want.Tensors[name], 0); e > 1e-5 {
			t.Errorf("%s differs by %.2e", name, e)
		}
	}
	if compared == 0 {
		t.Error("no running mean was compared")
	}
}

// TestPlansSameBits: loss and gradients are bit for bit the same under every
// strategy and under random plans, with one worker and with two, and with
// launches in chains or one by one.
func TestPlansSameBits(t *testing.T) {
	eachModel(t, func(t *testing.T, path, reference string, c configs.Config) {
		m, err := training.GradientModel(&step.Model{Path: path, Config: c})
		if err != nil {
			t.Fatal(err)
		}
		data, err := tensorfile.ReadNPZ(reference)
		if err != nil {
			t.Fatal(err)
		}
		requests := map[string]planner.Request{
			"recompute-cheap": {Strategy: "recompute-cheap"},
			"recompute-all":   {Strategy: "recompute-all"},
			"optimize":        {Strategy: "optimize", MaxOverhead: 0.5},
		}
		for seed := range uint64(3) {
			requests[fmt.Sprintf("random plan %d", seed)] = planner.Request{Again: randomNodes(m.Graph, seed)}
		}
		want := outputs(t, "cpu", m, planner.Request{Strategy: "keep-all"}, data)
		for name, r := range requests {
			t.Run(name, func(t *testing.T) {
				procs := runtime.GOMAXPROCS(2)
				defer runtime.GOMAXPROCS(procs)
				alone, chained := outputs(t, "cpu", m, r, data), outputsOf(t, "cpu", m, r, data, inChains)
				for i, x := range want {
					if !bytes.Equal(x, alone[i]) || !bytes.Equal(x, chained[i]) {
						t.Errorf("%q has other bits", m.Graph.Outputs[i].Name)
					}
				}
			})
		}
	})
}

func randomNodes(g *graph.Graph, seed uint64) (names []string) {
	rng := rand.New(rand.NewPCG(seed, 9))
	for _, n := range g.Nodes {
		if n.Phase == graph.Forward && n.Op.Recompute != graph.Never && !n.Op.View && rng.IntN(2) == 0 {
			names = append(names, n.Name)
		}
	}
	return names
}

func outputs(t *testing.T, device string, m *step.Model, r planner.Request, data *tensorfile.Set) [][]byte {
	t.Helper()
	return outputsOf(t, device, m, r, data, (*planner.Plan).Schedule)
}

// inChains is a plan's schedule with elementwise launches in chains.
func inChains(p *planner.Plan) (*schedule.Schedule, error) {
	s, _, err := p.Chained()
	return s, err
}

func outputsOf(t *testing.T, device string, m *step.Model, r planner.Request, data *tensorfile.Set, flatten func(*planner.Plan) (*schedule.Schedule, error)) [][]byte {
	t.Helper()
	r.Dims, r.Lowered = m.Config.Dims, devices.Lowered(device)
	p, err := planner.Make(m.Graph, r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := flatten(p)
	if err != nil {
		t.Fatal(err)
	}
	d, err := devices.Open(device, s, devices.Opening{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	feed, err := feed.New(m.Graph, s.Binding, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := d.Run(schedule.Run{Inputs: feed.Inputs(0)})
	if err != nil {
		t.Fatal(err)
	}
	if trace.Arena != p.Arena {
		t.Errorf("arena: promised %d, measured %d", p.Arena, trace.Arena)
	}
	var out [][]byte
	for _, v := range m.Graph.Outputs {
		x, err := d.Output(v.Name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x.Bytes)
	}
	return out
}

// TestSizesFromReference: a reference's arrays size the dims that nobody gave.
func TestSizesFromReference(t *testing.T) {
	check, err := checked(&step.Model{Path: "testdata/models/gpt2-2L/model_dyn.onnx", Config: configs.Default()}, "testdata/models/gpt2-2L/ref.npz")
	if err != nil {
		t.Fatal(err)
	}
	if !(check.Worst.RelErr <= 1e-4) || len(check.Params) == 0 {
		t.Errorf("worst gradient %v of %d", check.Worst, len(check.Params))
	}
}

// checked is Gradients without its numbers.
func checked(m *step.Model, reference string) (*training.Check, error) {
	set, check, err := training.Gradients(m, reference)
	set.Close()
	return check, err
}

// fetched are a set's tensors, which then needs its device no more.
func fetched(t *testing.T, set *tensorfile.Set) map[string]*graph.Tensor {
	t.Helper()
	defer set.Close()
	all := map[string]*graph.Tensor{}
	for _, name := range set.Names {
		x, err := set.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = x
	}
	return all
}
