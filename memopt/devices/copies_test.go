package devices

import (
	"os"
	"testing"

	"memopt/configs"
	"memopt/kernels/vulkan"
	"memopt/planner/profile"
)

// TestCopies: copies are timed to where a device can move values, and nowhere else.
func TestCopies(t *testing.T) {
	measured := func(c configs.Config, place string) {
		copies, err := measureCopies(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		x, known := copies[place]
		if !known || len(copies) != 1 || !(x.Out > 0 && x.In > 0 && x.Delay >= 0) || x.Out > fastestBytes || x.In > fastestBytes {
			t.Errorf("%s: %+v", c.Device, copies)
		}
	}
	c := configs.Default()
	c.Device, c.SpillFolder = "cpu", t.TempDir()
	measured(c, profile.Disk)
	c.SpillFolder += "/gone"
	if copies, err := measureCopies(t.Context(), c); copies != nil || err != nil {
		t.Errorf("to no folder: %+v, %v", copies, err)
	}
	which := os.Getenv("MEMOPT_TEST_VULKAN")
	if _, err := vulkan.Choose(which); err != nil {
		if os.Getenv("MEMOPT_NEED_VULKAN") != "" {
			t.Fatal(err)
		}
		return
	}
	if c.Device = "vulkan"; which != "" {
		c.Device += ":" + which
	}
	measured(c, profile.Host)
}
