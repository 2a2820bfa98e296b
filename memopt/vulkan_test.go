package memopt

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/schedule"
	"memopt/internal/tensorfile"
	"memopt/kernels/vulkan"
	"memopt/memopt/devices"
	"memopt/memopt/step"
	"memopt/memopt/training"
	"memopt/planner"
	"memopt/planner/profile"
)

// vulkanDevice is the name of the Vulkan device that tests run on:
// MEMOPT_TEST_VULKAN says which, MEMOPT_NEED_VULKAN that there must be one.
func vulkanDevice(t *testing.T) string {
	t.Helper()
	which := os.Getenv("MEMOPT_TEST_VULKAN")
	if _, err := vulkan.Choose(which); err != nil {
		if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if said := vulkan.Messages(); said != "" {
			t.Errorf("the validation layer says:\n%s", said)
		}
	})
	return strings.TrimSuffix("vulkan:"+which, ":")
}

// TestVulkanGradientsEqualPyTorch: as on the processor, with the promised bytes.
func TestVulkanGradientsEqualPyTorch(t *testing.T) {
	device := vulkanDevice(t)
	eachModel(t, func(t *testing.T, path, reference string, c configs.Config) {
		if strings.Contains(path, "_raw") {
			return // its graph is the clean one's
		}
		c.Device = device
		check, err := checked(&step.Model{Path: path, Config: c}, reference)
		if err != nil {
			t.Fatal(err)
		}
		if len(check.Params) == 0 || len(check.Missing) > 0 {
			t.Fatalf("%d gradients compared, missing %v", len(check.Params), check.Missing)
		}
		if !(check.LossRelErr <= 1e-5) || !(check.Worst.RelErr <= 1e-4) {
			t.Errorf("loss differs by %.2e, worst gradient %q by %.2e", check.LossRelErr, check.Worst.Name, check.Worst.RelErr)
		}
		if check.Trace.Arena != check.Plan.Arena {
			t.Errorf("arena: promised %d, measured %d", check.Plan.Arena, check.Trace.Arena)
		}
		t.Logf("loss %.2e, worst gradient %.2e (%s)", check.LossRelErr, check.Worst.RelErr, check.Worst.Name)
	})
}

// referenceModel is the gradients' step of a model that has numbers to feed it.
func referenceModel(t *testing.T, model string) (*step.Model, *tensorfile.Set) {
	t.Helper()
	path := filepath.Join("testdata", "models", model, "model.onnx")
	m, err := training.GradientModel(&step.Model{Path: path, Config: configs.Default()})
	if err != nil {
		t.Fatal(err)
	}
	data, err := tensorfile.ReadNPZ(filepath.Join(filepath.Dir(path), "ref.npz"))
	if err != nil {
		t.Fatal(err)
	}
	return m, data
}

// TestVulkanPlansSameBits: any plan gives the same bits, with launches in chains
// or one by one.
func TestVulkanPlansSameBits(t *testing.T) {
	device := vulkanDevice(t)
	for _, model := range []string{"mlp", "gpt2-2L", "resnet8"} {
		t.Run(model, func(t *testing.T) {
			m, data := referenceModel(t, model)
			want := outputs(t, device, m, planner.Request{Strategy: "keep-all"}, data)
			requests := map[string]planner.Request{"recompute-all": {Strategy: "recompute-all"}}
			plans := uint64(1)
			if thorough {
				plans = 20
			}
			for seed := range plans {
				requests[fmt.Sprint("random ", seed)] = planner.Request{Again: randomNodes(m.Graph, 5+seed)}
			}
			same := func(name string, got [][]byte) {
				for i, x := range got {
					if !bytes.Equal(x, want[i]) {
						t.Errorf("%s: %q has other bits", name, m.Graph.Outputs[i].Name)
					}
				}
			}
			for name, r := range requests {
				same(name, outputs(t, device, m, r, data))
				same(name+", in chains", outputsOf(t, device, m, r, data, inChains))
			}
			same("in chains", outputsOf(t, device, m, planner.Request{Strategy: "keep-all"}, data, inChains))
		})
	}
}

// TestVulkanTrainingGraphs: the steps of ONNX Runtime's trainer give what they
// give on the processor, and nothing is left to that.
func TestVulkanTrainingGraphs(t *testing.T) {
	device := vulkanDevice(t)
	for _, c := range trainingGraphs {
		if c.large {
			continue
		}
		t.Run(c.file, func(t *testing.T) {
			g := readTraining(t, c.file)
			p, err := planner.Make(g, planner.Request{Dims: c.dims, Strategy: "keep-all", Lowered: true})
			if err != nil {
				t.Fatal(err)
			}
			want := runTraining(t, p)
			got := runOn(t, p, trainingNumbers, func(s *schedule.Schedule) (devices.Device, error) {
				d, err := devices.Open(device, s, devices.Opening{})
				if w, ok := d.(interface{ Warnings() []string }); ok && err == nil && len(w.Warnings()) > 0 {
					t.Error(w.Warnings())
				}
				return d, err
			})
			// Some gradients are zero but for rounding, so all are told by the largest.
			off, most := map[string]float64{}, 0.0
			for name, x := range want {
				norm := 0.0
				for i := range x.Len() {
					d := got[name].Float(i) - x.Float(i)
					off[name], norm = off[name]+d*d, norm+x.Float(i)*x.Float(i)
				}
				most = max(most, norm)
			}
			for name, x := range off {
				if !(math.Sqrt(x/most) < 1e-5) {
					t.Errorf("%q differs by %.2e of the largest", name, math.Sqrt(x/most))
				}
			}
		})
	}
}

// TestVulkanLossy: what is kept rounded is rounded, and widened again, on the
// device, as on the processor.
func TestVulkanLossy(t *testing.T) {
	device := vulkanDevice(t)
	for _, lossy := range []string{"bf16", "fp16", "fp8"} {
		losses := map[string][]float64{}
		for _, name := range []string{"cpu", device} {
			c := configs.Default()
			c.Device, c.Lossy, c.Optimizer = name, lossy, "adamw"
			r := trainAs(t, filepath.Join("testdata", "models", "gpt2-2L", "model.onnx"), c, training.Options{Steps: 3, LR: 1e-3, Seed: 3})
			losses[name] = r.Losses
			if said := strings.Join(r.Warnings, ""); strings.Contains(said, "run on the processor") {
				t.Errorf("%s: %s", lossy, said)
			}
		}
		for i, want := range losses["cpu"] {
			if got := losses[device][i]; math.Abs(got-want) > 1e-3*want {
				t.Errorf("%s, step %d: loss %v, on the processor %v", lossy, i, got, want)
			}
		}
	}
}

// TestVulkanTrains: the losses of training are the processor's up to rounding,
// under a budget too, every byte is as promised, and nothing is left to the
// processor.
func TestVulkanTrains(t *testing.T) {
	device := vulkanDevice(t)
	for _, model := range []string{"mlp", "gpt2-2L", "bert-2L", "resnet8"} {
		t.Run(model, func(t *testing.T) {
			losses := map[string][]float64{}
			for _, name := range []string{"cpu", device} {
				c := configs.Default()
				c.Device, c.Optimizer, c.ClipNorm = name, "adamw", 1
				if model != "mlp" { // which has nothing to compute again
					c.ActivationBudget.Percent = 80
				}
				r := trainAs(t, filepath.Join("testdata", "models", model, "model.onnx"), c, training.Options{Steps: 3, LR: 1e-3, Seed: 3})
				losses[name] = r.Losses
				if said := strings.Join(r.Warnings, ""); strings.Contains(said, "run on the processor") {
					t.Error(said)
				}
			}
			for i, want := range losses["cpu"] {
				if got := losses[device][i]; math.Abs(got-want) > 1e-4*want {
					t.Errorf("step %d: loss %v, on the processor %v", i, got, want)
				}
			}
		})
	}
}

// TestVulkanOffload: what moves to the host's memory changes no loss, takes what was promised there, and leaves nothing
// behind; a place in the same memory is warned of.
func TestVulkanOffload(t *testing.T) {
	path := filepath.Join("testdata", "models", "gpt2-2L", "model.onnx")
	c := configs.Default()
	c.Device, c.Optimizer = vulkanDevice(t), "adamw"
	train := training.Options{Steps: 3, LR: 1e-3, Seed: 3}
	plain := trainAs(t, path, c, train)
	c.Offload, c.ActivationBudget.Percent = profile.Host, 50
	moved := trainAs(t, path, c, train)
	if len(moved.Plan.Moves) == 0 {
		t.Fatal("nothing is moved")
	}
	for i, loss := range moved.Losses {
		if loss != plain.Losses[i] {
			t.Errorf("step %d: loss %v, %v without moves", i, loss, plain.Losses[i])
		}
	}
	if p, m := moved.Plan, moved.Trace; m.Arena != p.Arena || m.Moved.Far != p.Moved.Peak || m.Moved.Bytes != p.Moved.Bytes {
		t.Errorf("%+v, the plan says an arena of %d and %+v", m, p.Arena, p.Moved)
	}
	v, err := vulkan.Choose(os.Getenv("MEMOPT_TEST_VULKAN"))
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Contains(strings.Join(moved.Warnings, ""), "shares the host's memory"); said != v.Unified() {
		t.Errorf("warnings %q", moved.Warnings)
	}
	found, err := FindLeaks(t.Context(), path, c, 4, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found.Owners {
		if o.Grows && strings.HasSuffix(o.Name, "of the device") {
			t.Errorf("%+v", o)
		}
	}
	c.Offload = profile.Disk
	if m, err := Open(path, c); err == nil || !strings.Contains(err.Error(), "copies to the host's memory, and to no file: ") {
		m.Close()
		t.Errorf("to a file: %v", err)
	}
}

// TestVulkanStates: states that lie in the host's memory give the losses and the checkpoint that they give on the device, also
// where one is resumed as the other.
func TestVulkanStates(t *testing.T) {
	path := filepath.Join("testdata", "models", "gpt2-2L", "model.onnx")
	c := configs.Default()
	c.Device, c.Optimizer, c.ClipNorm = vulkanDevice(t), "adamw", 1
	away := c
	away.States = profile.Host
	folder := t.TempDir()
	plain, moved := filepath.Join(folder, "plain.st"), filepath.Join(folder, "moved.st")
	for _, from := range [][2]string{{"", ""}, {moved, plain}} {
		trainAs(t, path, c, training.Options{Steps: 2, LR: 1e-3, Seed: 3, Resume: from[0], Save: plain + "2"})
		r := trainAs(t, path, away, training.Options{Steps: 2, LR: 1e-3, Seed: 3, Resume: from[1], Save: moved + "2"})
		if s := r.Plan.Streamed(); r.Trace.Streamed.Far != s.Bytes || r.Trace.State != r.Plan.Memory.Weights+r.Plan.Memory.Optimizer {
			t.Errorf("%+v, the plan says %+v", r.Trace, s)
		}
		a, errA := os.ReadFile(plain + "2")
		b, errB := os.ReadFile(moved + "2")
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("from %q: the checkpoints differ, or %v %v", from, errA, errB)
		}
		os.Rename(plain+"2", plain)
		os.Rename(moved+"2", moved)
	}
}

// TestVulkanArchitectures: two steps of each kind of model give the losses that
// they give on the processor.
func TestVulkanArchitectures(t *testing.T) {
	device := vulkanDevice(t)
	files, err := filepath.Glob("testdata/architectures/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatal("no models", err)
	}
	sizes := map[string]int64{"b": 2, "n": 2, "batch": 2, "s": 8, "t": 8, "seq": 8, "len": 32, "h": 16, "w": 16, "h2": 32, "w2": 32}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			losses := map[string][]float64{}
			for _, name := range []string{"cpu", device} {
				c := configs.Default()
				c.Device, c.Dims = name, sizes
				losses[name] = trainAs(t, path, c, training.Options{Steps: 2, LR: 1e-3}).Losses
			}
			for i, want := range losses["cpu"] {
				if got := losses[device][i]; math.Abs(got-want) > 1e-4*math.Abs(want) {
					t.Errorf("step %d: loss %v, on the processor %v", i, got, want)
				}
			}
		})
	}
}
