package memopt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"memopt/configs"
	"memopt/internal/loader"
	"memopt/internal/onnx"
	"memopt/kernels"
	"memopt/memopt/lab/zoo"
	"memopt/memopt/load"
)

// loadable writes a forward model and gives the dims to load it with: one whose largest weight is more than half of what is
// active, and one with more active than there are weights.
func loadable(t *testing.T, external bool) map[string]map[string]int64 {
	t.Helper()
	dir := t.TempDir()
	models := map[string]map[string]int64{}
	for name, of := range map[string]struct {
		spec zoo.Spec
		dims map[string]int64
	}{
		"heavy": {zoo.Spec{Family: "gpt", Layers: 2, Width: 256, Vocab: 12_000, Positions: 64}, map[string]int64{"batch": 1, "seq": 16}},
		"wide":  {zoo.Spec{Family: "resnet", Image: 64}, map[string]int64{"batch": 64}},
	} {
		g, err := zoo.New(of.spec, kernels.Library)
		if err != nil {
			t.Fatal(err)
		}
		var opts []onnx.Option
		if external {
			opts = append(opts, onnx.External)
		}
		path := filepath.Join(dir, name+".onnx")
		if err := onnx.Write(path, g, opts...); err != nil {
			t.Fatal(err)
		}
		models[path] = of.dims
	}
	return models
}

// TestLoadPhases: in every mode and phase the device holds what the formulas say, to the byte, and the process's
// anonymous memory grows by no more than the ring and 4 MiB where nothing is read before.
func TestLoadPhases(t *testing.T) { loadsAsPromised(t, "cpu", loader.Modes()) }

func TestVulkanLoadPhases(t *testing.T) {
	modes := loader.Modes()
	if os.Getenv("MEMOPT_VULKAN_HIDDEN") != "" {
		modes = slices.DeleteFunc(modes, func(m string) bool { return m == string(loader.InPlace) })
	}
	loadsAsPromised(t, vulkanDevice(t), modes)
}

func loadsAsPromised(t *testing.T, device string, modes []string) {
	const chunk = 1 << 20
	for path, dims := range loadable(t, device == "cpu") {
		for _, mode := range modes {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".onnx")+"/"+mode, func(t *testing.T) {
				c := configs.Default()
				c.Dims, c.Device, c.Chunk = dims, device, chunk
				l, err := load.Run(context.Background(), path, c, loader.Mode(mode), 3)
				var unsuited *loader.UnsuitedError
				if errors.As(err, &unsuited) && unsuited.Mode == loader.InPlace {
					t.Skip(err) // a discrete device
				}
				if err != nil {
					t.Fatal(err)
				}
				if heavy := strings.Contains(path, "heavy"); heavy != (2*l.Largest > l.A) || heavy == (l.A > l.W) {
					t.Errorf("W %d, w %d, A %d are not what this model is for", l.W, l.Largest, l.A)
				}
				var names []string
				for _, p := range l.Phases {
					names = append(names, p.Name)
					if p.Promised >= 0 && p.Device.High > p.Promised && p.Name != "U1" && p.Name != "U2" {
						t.Errorf("%s: the device held %d, and %d were promised", p.Name, p.Device.High, p.Promised)
					}
					switch p.Name {
					case "P6":
						if want := l.W; p.Device.Point != want && l.Mode != loader.Eager {
							t.Errorf("P6: the device holds %d, not W = %d", p.Device.Point, want)
						}
					case "P7":
						if p.Device.Point != l.W+l.A {
							t.Errorf("P7: the device holds %d, not W + A = %d", p.Device.Point, l.W+l.A)
						}
					case "P0", "P1", "U1", "U3":
						if p.Device.Point != 0 || p.Copies.Point != 0 {
							t.Errorf("%s: the device holds %d, and the host %d", p.Name, p.Device.Point, p.Copies.Point)
						}
					}
				}
				for _, want := range []string{"P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "U1", "U2", "U3"} {
					if !slices.Contains(names, want) {
						t.Errorf("no phase %s among %v", want, names)
					}
				}
				if l.Measured > l.Promised || l.Measured < l.Promised-512*int64(l.Weights) || l.DeviceMeasured != l.DevicePromised {
					t.Errorf("%d of %d, on the device %d of %d", l.Measured, l.Promised, l.DeviceMeasured, l.DevicePromised)
				}
				if (l.Mode == loader.Streamed || l.Mode == loader.InPlace) && l.Measured != l.Promised {
					t.Errorf("%d, and %s is %d", l.Measured, l.Formula, l.Promised)
				}
				if l.LeftDevice != 0 {
					t.Errorf("%d bytes are left on the device", l.LeftDevice)
				}
				if runtime.GOOS != "linux" {
					return
				}
				if l.Mode == loader.Streamed && l.HostGrowth > chunk+4<<20 {
					t.Errorf("the process's own memory grew by %d", l.HostGrowth)
				}
				if l.Mode == loader.Eager && l.System < l.W { // it is measured at all
					t.Errorf("the system saw %d, and W is %d twice", l.System, l.W)
				}
			})
		}
	}
}

// TestLoadRefuses: what cannot be loaded is said, and leaves nothing.
func TestLoadRefuses(t *testing.T) {
	c := configs.Default()
	c.Device = "cpu"
	if _, err := load.Run(context.Background(), "nonsuch.onnx", c, loader.Streamed, 0); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	for path := range loadable(t, false) {
		if _, err := load.Run(context.Background(), path, c, loader.Streamed, 0); err == nil || !strings.Contains(err.Error(), "batch") {
			t.Errorf("without sizes of dims: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for path, dims := range loadable(t, false) {
		c.Dims = dims
		if _, err := load.Run(ctx, path, c, loader.Streamed, 0); err == nil {
			t.Error("a load that was given up is an error")
		}
	}
}
