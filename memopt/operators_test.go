package memopt

import (
	"path/filepath"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/tensorfile"
	"memopt/memopt/step"
	"memopt/memopt/training"
)

// exportedDims are the sizes of what exports have named dims for.
var exportedDims = map[string]map[string]int64{"bagmean": {"ids": 9, "bags": 4}, "bagmean_ts": {"ids": 9, "bags": 4},
	"outlook": {"batch": 2}, "outlook_ts": {"batch": 2}}

// TestOperatorsEqualPyTorch: loss and every parameter's gradient of models that PyTorch
// exports with loops over bags, Fourier transforms, sampling grids and
// folded patches.
func TestOperatorsEqualPyTorch(t *testing.T) {
	paths, err := filepath.Glob("testdata/operators/*.onnx")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d exports: %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		t.Run(name, func(t *testing.T) { equalsPyTorch(t, path, name, "cpu") })
	}
}

func equalsPyTorch(t *testing.T, path, name, device string) {
	reference := strings.TrimSuffix(path, ".onnx") + ".npz"
	c := configs.Default()
	c.Dims, c.Device = exportedDims[name], device
	_, check, err := training.Gradients(&step.Model{Path: path, Config: c}, reference)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tensorfile.ReadNPZ(reference)
	if err != nil {
		t.Fatal(err)
	}
	grads := 0
	for _, name := range want.Names {
		if strings.HasPrefix(name, "grad.") {
			grads++
		}
	}
	if len(check.Params) != grads || len(check.Missing) > 0 {
		t.Fatalf("%d of %d gradients compared, missing %v", len(check.Params), grads, check.Missing)
	}
	if !(check.LossRelErr <= 1e-4) || !(check.Worst.RelErr <= 1e-4) {
		t.Errorf("loss differs by %.2e, worst gradient %q by %.2e", check.LossRelErr, check.Worst.Name, check.Worst.RelErr)
	}
	if check.Trace.Arena != check.Plan.Arena {
		t.Errorf("arena: promised %d, measured %d", check.Plan.Arena, check.Trace.Arena)
	}
}

// TestVulkanOperatorsEqualPyTorch: on a device that runs kernels, too.
func TestVulkanOperatorsEqualPyTorch(t *testing.T) {
	device := vulkanDevice(t)
	paths, err := filepath.Glob("testdata/operators/*.onnx")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d exports: %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		t.Run(name, func(t *testing.T) { equalsPyTorch(t, path, name, device) })
	}
}

// TestLoopOverBags: a loop over bags is one reduction of all bags, however many turns it
// has; the last bag of means is one of its own where PyTorch writes it otherwise.
func TestLoopOverBags(t *testing.T) {
	for name, reductions := range map[string]int{"bagmean": 2, "bagmean_ts": 1, "bagmax_ts": 1, "bagweighted_ts": 1, "dlrm_ts": 2} {
		c := configs.Default()
		c.Dims = exportedDims[name]
		m, err := Open("testdata/operators/"+name+".onnx", c)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		for _, n := range m.Graph.Nodes {
			if n.Op.FullName() == "memopt.SegmentReduce" {
				made++
			}
		}
		if made != reductions {
			t.Errorf("%s: %d reductions, not %d:\n%s", name, made, reductions, m.Graph)
		}
		m.Close()
	}
}

// TestLoopWantsSizes: what is missing is said with the flag that gives it.
func TestLoopWantsSizes(t *testing.T) {
	for name, want := range map[string]string{"bagmean_ts": "the number of iterations, bags, must be known while the file is read; give bags a size (--dims bags=N)",
		"bagmean": "the condition of iteration"} {
		_, err := Open("testdata/operators/"+name+".onnx", configs.Default())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := configs.Default()
	c.Dims = map[string]int64{"ids": 9, "bags": 4}
	m, err := Open("testdata/operators/bagmean_ts.onnx", c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Config.Dims = map[string]int64{"ids": 9, "bags": 5}
	if _, err := m.Plan(); err == nil || !strings.Contains(err.Error(), "bags") {
		t.Errorf("a loop read for 4 bags is planned for 5: %v", err)
	}
}
