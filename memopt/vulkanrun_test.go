package memopt

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"memopt/configs"
	"memopt/internal/graph"
	"memopt/internal/tensorfile"
	"memopt/kernels"
	"memopt/memopt/exit"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/training"
)

// TestVulkanBudgets: under 80, 60 and 40 percent of the bytes that keeping
// everything takes, where there is such a plan, every step's loss has the same
// bits, and memory is as promised. Attention goes by rows,
// and the loss in chunks, where nothing else fits.
func TestVulkanBudgets(t *testing.T) {
	device := vulkanDevice(t)
	gptModel, gptData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 4, Width: 32, Heads: 4, Vocab: 64, Dropout: 0.1})
	longModel, longData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 32, Heads: 16, Vocab: 20})
	wordyModel, wordyData := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 1000})
	for _, c := range []struct {
		name, path, data string
		fields           map[string]string
		lowest           int64     // percent, that there must be a plan for
		twice            *graph.Op // what is computed twice where nothing else fits,
		from             int64     // percent on
	}{
		{"gpt", gptModel, gptData, map[string]string{"dims": "batch=4,seq=32", "optimizer": "adamw"}, 40, nil, 0},
		{"gpt of many scores", longModel, longData, map[string]string{"dims": "batch=8,seq=32", "optimizer": "sgd"}, 40, kernels.AttentionInRows, 80},
		{"gpt of many words", wordyModel, wordyData, map[string]string{"dims": "batch=32,seq=32", "optimizer": "adamw"}, 40, kernels.LinearCrossEntropy, 60},
		{"resnet8", filepath.Join("testdata", "models", "resnet8", "model.onnx"), "", map[string]string{"optimizer": "momentum"}, 60, nil, 0},
		{"mlp", filepath.Join("testdata", "models", "mlp", "model.onnx"), "", map[string]string{"optimizer": "sgd"}, 100, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []float64
			var kept int64
			for _, percent := range []int64{100, 80, 60, 40} {
				cfg := configs.Default()
				cfg.Device = device
				for name, value := range c.fields {
					if err := cfg.Set(name, value, configs.Source{Origin: configs.OriginFlag, Name: name}); err != nil {
						t.Fatal(err)
					}
				}
				if percent == 100 {
					cfg.Strategy = "keep-all"
				} else {
					cfg.ActivationBudget.Bytes = kept * percent / 100
				}
				m, err := Open(c.path, cfg)
				if err != nil {
					t.Fatal(err)
				}
				p, err := m.Plan()
				if err != nil {
					if percent < c.lowest && exit.Code(err) == exit.CodeCannot {
						continue
					}
					t.Fatalf("%d %%: %v", percent, err)
				}
				if c.twice != nil && (percent <= c.from) != slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Op == c.twice }) {
					t.Errorf("%d %%: %s: %v", percent, c.twice.Name, percent > c.from)
				}
				r, err := Run(m, p, training.Options{Steps: 6, LR: 1e-3, Seed: 3, Data: c.data})
				if err != nil {
					t.Fatal(err)
				}
				if percent == 100 {
					want, kept = r.Losses, p.Arena
				}
				if r.Trace.Arena != p.Arena || r.Trace.Arena > kept*percent/100 {
					t.Errorf("%d %%: arena promised %d, measured %d, of %d", percent, p.Arena, r.Trace.Arena, kept)
				}
				if total := r.Trace.Arena + r.Trace.State + r.Trace.Staging; total != p.Memory.Total || r.Memory.Requested < total {
					t.Errorf("%d %%: promised %d, measured %d, and %+v", percent, p.Memory.Total, total, r.Memory)
				}
				if !sameBits(r.Losses, want) {
					t.Errorf("%d %%: losses %v, not %v", percent, r.Losses, want)
				}
				t.Logf("%d %%: arena %d, %d computed again", percent, p.Arena, p.Result.Again)
			}
		})
	}
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// thorough is whether long tests run at their full length, as the checks of a
// change ask for.
var thorough = os.Getenv("MEMOPT_TEST_LONG") != ""

// longRun is what the child of TestVulkanKilled does, a line of JSON.
type longRun struct {
	Device, Model, Data, Save, Resume string
	Steps, SaveEvery                  int
}

func (l longRun) run(t *testing.T, progress func(step, steps int, loss float64)) *training.Result {
	tr := training.Options{Steps: l.Steps, LR: 1e-3, Seed: 9, Data: l.Data, Save: l.Save, SaveEvery: l.SaveEvery, Resume: l.Resume}
	if progress != nil {
		tr.Progress = func(step, steps int, loss float64, _ time.Duration) { progress(step, steps, loss) }
	}
	return trainGPT(t, l.Model, map[string]string{"device": l.Device, "activation_budget": "60%", "optimizer": "adamw", "clip_norm": "1"}, tr)
}

const longRunVariable = "MEMOPT_TEST_LONG_RUN"

// TestVulkanLongRun is the child of the test below.
func TestVulkanLongRun(t *testing.T) {
	text := os.Getenv(longRunVariable)
	if text == "" {
		t.Skip("it is started by TestVulkanKilled")
	}
	var l longRun
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	l.run(t, func(step, _ int, _ float64) { fmt.Printf("\nstep %d\n", step) })
}

// TestVulkanKilled: a run under a budget, killed in the middle and resumed from
// its last checkpoint, gives the losses of the run that was left alone, bit for
// bit. It is of 300 steps when there is time.
func TestVulkanKilled(t *testing.T) {
	device := vulkanDevice(t)
	steps, killed, every := 60, 28, 5
	if thorough {
		steps, killed, every = 300, 140, 25
	}
	model, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 64, Dropout: 0.1})
	save := filepath.Join(t.TempDir(), "run.safetensors")
	whole := longRun{Device: device, Model: model, Data: data, Steps: steps, SaveEvery: every}
	child := whole
	child.Save = save
	text, err := json.Marshal(child)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestVulkanLongRun$")
	c.Env = append(os.Environ(), longRunVariable+"="+string(text))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	said := bufio.NewScanner(out)
	for said.Scan() && said.Text() != fmt.Sprint("step ", killed) {
		if text := said.Text(); text != "" && !strings.HasPrefix(text, "step ") {
			t.Log(text)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Log(err)
	}
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != -1 {
		t.Fatalf("the child was not killed: %v", err)
	}
	rest := whole
	rest.Resume = save
	_, meta, err := tensorfile.ReadSafetensors(save)
	if err != nil {
		t.Fatal(err)
	}
	done, err := strconv.Atoi(meta["memopt.steps"])
	if err != nil || done%every != 0 || done < every || done >= steps {
		t.Fatalf("the checkpoint is of step %q", meta["memopt.steps"])
	}
	rest.Steps = steps - done
	want, got := whole.run(t, nil), rest.run(t, nil)
	if got.FirstStep != done || !sameBits(got.Losses, want.Losses[done:]) {
		t.Errorf("from step %d on the losses differ: %v, not %v", done, got.Losses[:3], want.Losses[done:done+3])
	}
	if last := want.Losses[steps-1]; !(last < want.Losses[0]) {
		t.Errorf("the loss went from %v to %v", want.Losses[0], last)
	}
}

// TestVulkanLeak: models come and go, and the process stays as large as it is.
// Closing a device panics if anything is left of it.
func TestVulkanLeak(t *testing.T) {
	device := vulkanDevice(t)
	if !thorough {
		t.Skip("MEMOPT_TEST_LONG is not set")
	}
	model, data := madeGPT(t, zoo.Spec{Family: "gpt", Layers: 1, Width: 16, Heads: 2, Vocab: 64})
	cycle := func() {
		trainGPT(t, model, map[string]string{"device": device}, training.Options{Steps: 1, LR: 1e-3, Data: data})
	}
	resident := func() int64 {
		debug.FreeOSMemory()
		stat, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(stat))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return pages * int64(os.Getpagesize())
	}
	const cycles = 20
	// The allocator's and the compiler's pools fill up first, so growth must come
	// to an end: a leak shows in every batch.
	grown := int64(0)
	for range 5 {
		before := resident()
		for range cycles {
			cycle()
		}
		grown = resident() - before
		t.Logf("%d cycles: %+d bytes, to %d", cycles, grown, before+grown)
		if grown < 4<<20 {
			return
		}
	}
	t.Errorf("%d cycles still grow the process by %d bytes", cycles, grown)
}
