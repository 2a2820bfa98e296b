package vulkan_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/internal/schedule"
	"memopt/kernels/vulkan"
	"memopt/memopt/lab/zoo"
)

// TestAddresses: two steps leave the bits that they leave where kernels find
// buffers by descriptors.
func TestAddresses(t *testing.T) {
	gpu, _ := pathDevice(t, vulkan.BufferAddresses)
	for _, spec := range []zoo.Spec{
		{Family: "gpt", Layers: 1, Width: 24, Heads: 2, Vocab: 17, Positions: 8},
		{Family: "mlp", Inputs: 131, Width: 77, Layers: 2, Classes: 5},
	} {
		s := trainStep(t, spec)
		for _, groups := range []string{vulkan.GroupsAlone, vulkan.GroupsShared} {
			steps := func(path string) [][]byte {
				return twoSteps(t, s, func() *vulkan.Device {
					d, err := vulkan.Open(s, gpu, vulkan.Options{Groups: groups, FastPaths: []string{path}})
					if err != nil {
						t.Fatal(err)
					}
					return d
				})
			}
			want, got := steps(vulkan.FastPathsNone), steps(vulkan.BufferAddresses)
			for i := range want {
				if !bytes.Equal(want[i], got[i]) {
					t.Errorf("%s, %s: value %d has other bits", spec.Family, groups, i)
				}
			}
		}
	}
}

// TestAddressed: a product's kernel is the one for addresses where that is asked for,
// and only there.
func TestAddressed(t *testing.T) {
	gpu, _ := pathDevice(t, vulkan.BufferAddresses)
	g := drawn(t, "x f32[20, 30] = param\ny f32[30, 10] = param\nz = MatMul(x, y)\noutput z", rand.New(rand.NewPCG(1, 2)))
	s := keepAll(t, g)
	for path, is := range map[string]bool{vulkan.FastPathsNone: false, vulkan.BufferAddresses: true} {
		f := &failing{call: "vkQueueSubmit", code: -4}
		d, err := vulkan.Open(s, gpu, vulkan.Options{Faults: f.fault, FastPaths: []string{path}})
		if err != nil {
			t.Fatal(err)
		}
		f.armed = true // the error tells the kernels
		_, err = d.Run(schedule.Run{})
		if err == nil || !strings.Contains(err.Error(), "kernel product-") || strings.Contains(err.Error(), "-addressed") != is {
			t.Errorf("%s: %v", path, err)
		}
		d.Close()
	}
}
