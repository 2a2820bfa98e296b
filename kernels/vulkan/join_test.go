package vulkan_test

import (
	"bytes"
	"testing"

	"memopt/autograd"
	"memopt/internal/schedule"
	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
	"memopt/planner"
)

// TestJoined: small updates that are one dispatch leave the bits that they leave one
// by one, by every rule, also where the device shows less than all of them see. Of
// each layer the weight and the bias are there one behind the other; all are, if
// gradients wait for their common norm.
func TestJoined(t *testing.T) {
	for _, c := range []struct {
		optimizer string
		clip      float64
		launches  int // that are joined
		runs      int
	}{{"adamw", 1, 7, 1}, {"adamw", 0, 6, 3}, {"adam", 1, 7, 1}, {"sgd", 1, 7, 1}, {"momentum", 1, 7, 1}, {"adagrad", 1, 7, 1}} {
		step, err := zoo.Step(zoo.Spec{Family: "mlp", Inputs: 131, Width: 77, Layers: 3, Classes: 5}, kernels.Library, autograd.Options{Optimizer: c.optimizer, ClipNorm: c.clip})
		if err != nil {
			t.Fatal(err)
		}
		_, s := planned(t, step, planner.Request{Dims: map[string]int64{"batch": 3}, Strategy: "keep-all"})
		// The largest parameter is just seen whole, and the smaller ones not together.
		const large = 4 * 131 * 77
		want := twoSteps(t, s, func() *vulkan.Device { return joined(t, s, vulkan.Options{Poison: true}) })
		for _, o := range []vulkan.Options{{}, {Range: large}} {
			got := twoSteps(t, s, func() *vulkan.Device {
				d := joined(t, s, o)
				switch launches, dispatches := d.Joined(); {
				case o.Range == 0 && (launches != c.launches || dispatches != c.runs):
					t.Errorf("%s, clip %v: %d updates are %d dispatches, not %d %d", c.optimizer, c.clip, launches, dispatches, c.launches, c.runs)
				case o.Range > 0 && c.clip > 0 && dispatches == c.runs && launches == c.launches:
					t.Errorf("%s, clip %v: %d updates are %d dispatches where the device shows %d bytes", c.optimizer, c.clip, launches, dispatches, o.Range)
				}
				return d
			})
			for i := range want {
				if !bytes.Equal(want[i], got[i]) {
					t.Errorf("%s, clip %v, %d bytes shown: value %d has other bits", c.optimizer, c.clip, o.Range, i)
				}
			}
		}
	}
}

func joined(t *testing.T, s *schedule.Schedule, o vulkan.Options) *vulkan.Device {
	d, err := vulkan.Open(s, device(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
