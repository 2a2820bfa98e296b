package vulkan_test

import (
	"os"
	"testing"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
)

// TestSteady: the bytes add up, and steps after the second take no memory: none
// of the driver, and none of Go where the processor sees the device's.
func TestSteady(t *testing.T) {
	gpu := device(t)
	for _, spec := range []zoo.Spec{faultSpec, {Family: "gpt", Layers: 1, Width: 24, Heads: 2, Vocab: 17, Positions: 8, Dropout: 0.2}} {
		s := trainStep(t, spec)
		d, err := vulkan.Open(s, gpu, vulkan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		opened := d.Memory()
		if opened.Requested != s.Arena+s.State+s.Staging {
			t.Errorf("%s: %d bytes requested, the plan has %d", spec.Family, opened.Requested, s.Arena+s.State+s.Staging)
		}
		if opened.Granted < opened.Requested || opened.Held != opened.Granted+opened.Own || opened.Peak != opened.Held || opened.Calls < 4 {
			t.Errorf("%s: %+v", spec.Family, opened)
		}
		for i, bytes := range []int64{s.Arena, s.State, s.Staging} {
			if o := opened.Owners[i]; o.Requested != bytes || o.Granted < bytes {
				t.Errorf("%s: the plan has %d bytes of what is %+v", spec.Family, bytes, o)
			}
		}
		held := int64(0)
		for _, o := range opened.Owners {
			held += o.Granted
		}
		if held != opened.Held {
			t.Errorf("%s: owners have %d bytes, and %d are held", spec.Family, held, opened.Held)
		}
		run := schedule.Run{Inputs: someInputs(s)}
		step := func() {
			if _, err := d.Run(run); err != nil {
				t.Fatal(err)
			}
			run.Step++
		}
		step()
		step()
		if n := testing.AllocsPerRun(10, step); n != 0 && gpu.Unified() && os.Getenv("MEMOPT_VULKAN_HIDDEN") == "" {
			t.Errorf("%s: a step makes %v pieces of garbage", spec.Family, n)
		}
		if m := d.Memory(); m.Held != opened.Held || m.Peak != opened.Peak || m.Calls != opened.Calls {
			t.Errorf("%s: memory went from %+v to %+v", spec.Family, opened, m)
		}
		if name := d.Name(); d.Close() != nil || d.Name() != name {
			t.Errorf("%s: what was %s is %s after it is closed", spec.Family, name, d.Name())
		}
	}
}
