package vulkan_test

import (
	"slices"
	"strings"
	"testing"

	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
)

// TestFastPaths: what a device offers, what is asked for and what auto thinks of it
// decide together, and a word that is no path is an error.
func TestFastPaths(t *testing.T) {
	t.Setenv("MEMOPT_FAST_PATHS", "")
	bare, able := &vk.Physical{Name: "bare", Kind: vk.Discrete}, &vk.Physical{Name: "able", Kind: vk.Discrete, Matrices: [][3]int{{16, 16, 16}}}
	imitating := &vk.Physical{Name: "imitating", Kind: vk.CPU, Matrices: [][3]int{{8, 8, 8}}}
	for _, c := range []struct {
		device *vk.Physical
		asked  string
		why    string // cooperative matrices are not taken
	}{
		{able, "", ""}, {able, "auto", ""}, {able, "none", "not asked for"}, {able, vulkan.CooperativeMatrix, ""},
		{bare, "auto", "the device has no VK_KHR_cooperative_matrix of float16, summed in float32"},
		{bare, vulkan.CooperativeMatrix, "the device has no VK_KHR_cooperative_matrix of float16, summed in float32"},
		{imitating, "auto", "a driver for the processor only imitates it"}, {imitating, vulkan.CooperativeMatrix, ""},
	} {
		var asked []string
		if c.asked != "" {
			asked = strings.Split(c.asked, ",")
		}
		all, err := vulkan.FastPaths(asked, c.device)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(p vulkan.PathChoice) bool { return p.Name == vulkan.CooperativeMatrix })
		if all[i].Why != c.why || all[i].Taken != (c.why == "") {
			t.Errorf("%s, %q: %+v", c.device.Name, c.asked, all[i])
		}
	}
	t.Setenv("MEMOPT_FAST_PATHS", "none")
	if all, err := vulkan.FastPaths(nil, able); err != nil || slices.ContainsFunc(all, func(p vulkan.PathChoice) bool { return p.Taken }) {
		t.Errorf("the environment says none: %+v, %v", all, err)
	}
	for _, bad := range []string{"fastest", "none,cooperative-matrix"} {
		if _, err := vulkan.FastPaths(strings.Split(bad, ","), able); err == nil || !strings.Contains(err.Error(), "not \""+bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
