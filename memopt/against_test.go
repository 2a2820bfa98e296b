package memopt

import (
	"path/filepath"
	"testing"

	"memopt/configs"
	"memopt/internal/compare"
	"memopt/memopt/step"
	"memopt/memopt/training"
)

// TestAgainst: a device does not part from itself, and from another by no more than
// rounding, which a limit of nothing shows.
func TestAgainst(t *testing.T) {
	dir := filepath.Join("testdata", "models", "mlp")
	against := func(one, other string, limit float64) []compare.Parting {
		c := configs.Default()
		c.Device = one
		got, err := training.Against(&step.Model{Path: filepath.Join(dir, "model.onnx"), Config: c}, filepath.Join(dir, "ref.npz"), other, limit)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := against("cpu", "cpu", 0); len(got) > 0 {
		t.Errorf("from itself: %+v", got)
	}
	device := vulkanDevice(t)
	if got := against(device, "cpu", 1e-4); len(got) > 0 {
		t.Errorf("from %s: %+v", device, got)
	}
	if got := against(device, "cpu", 0); len(got) == 0 {
		t.Errorf("%s has the very bits of the processor", device)
	}
}
