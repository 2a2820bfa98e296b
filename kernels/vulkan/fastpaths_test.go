package vulkan_test

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"memopt/kernels"
	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

// pathChoice is what becomes of a path.
func pathChoice(t *testing.T, path string, asked []string, p *vk.Physical) vulkan.PathChoice {
	t.Helper()
	all, err := vulkan.FastPaths(asked, p)
	if err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(c vulkan.PathChoice) bool { return c.Name == path })]
}

// TestFastPaths: what a device offers, what is asked for and what auto thinks of it
// decide together, and a word that is no path is an error.
func TestFastPaths(t *testing.T) {
	t.Setenv("MEMOPT_FAST_PATHS", "")
	narrow := &vk.Physical{Name: "narrow", Kind: vk.Discrete, MaxInvocations: 1024, Subgroup: 32, Matrices: [][3]int{{16, 16, 16}, {16, 8, 16}}}
	wide := &vk.Physical{Name: "wide", Kind: vk.Discrete, MaxInvocations: 1024, Subgroup: 32, BFloat16Matrices: [][3]int{{32, 32, 16}}}
	both := &vk.Physical{Name: "both", Kind: vk.Discrete, MaxInvocations: 1024, Subgroup: 32, BFloat16Matrices: [][3]int{{16, 16, 16}}}
	const lacks = "the device has no VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16 for bfloat16 with float32 accumulators"
	for _, c := range []struct {
		device *vk.Physical
		why    string // those of bfloat16 are not taken
	}{
		{narrow, lacks + "; it has 16×16×16, 16×8×16 for float16"},
		{wide, lacks + "; it has 32×32×16, and kernels take sides up to 16"},
		{both, ""},
		{&vk.Physical{Kind: vk.Discrete}, lacks},
	} {
		for _, asked := range [][]string{{"auto"}, {vulkan.CooperativeBFloat16}} {
			if got := pathChoice(t, vulkan.CooperativeBFloat16, asked, c.device); got.Why != c.why || got.Taken != (c.why == "") {
				t.Errorf("%s, %q: %+v", c.device.Name, asked, got)
			}
		}
	}
	bare, able := &vk.Physical{Name: "bare", Kind: vk.Discrete}, &vk.Physical{Name: "able", Kind: vk.Discrete, Matrices: [][3]int{{16, 16, 16}}}
	imitating := &vk.Physical{Name: "imitating", Kind: vk.CPU, Matrices: [][3]int{{8, 8, 8}}}
	for _, c := range []struct {
		device *vk.Physical
		asked  string
		why    string // cooperative matrices are not taken
	}{
		{able, "", ""}, {able, "auto", ""}, {able, "none", "not asked for"}, {able, vulkan.CooperativeMatrix, ""},
		{bare, "auto", "the device has no VK_KHR_cooperative_matrix for float16 with float32 accumulators"},
		{bare, vulkan.CooperativeMatrix, "the device has no VK_KHR_cooperative_matrix for float16 with float32 accumulators"},
		{imitating, "auto", "CPU drivers only emulate it"}, {imitating, vulkan.CooperativeMatrix, ""},
	} {
		var asked []string
		if c.asked != "" {
			asked = strings.Split(c.asked, ",")
		}
		if got := pathChoice(t, vulkan.CooperativeMatrix, asked, c.device); got.Why != c.why || got.Taken != (c.why == "") {
			t.Errorf("%s, %q: %+v", c.device.Name, c.asked, got)
		}
	}
	for _, c := range []struct {
		device *vk.Physical
		asked  string
		why    string // addresses are not taken
	}{
		{&vk.Physical{Kind: vk.CPU, MaxPush: 256}, "auto", "the device has no bufferDeviceAddress"},
		{&vk.Physical{Kind: vk.CPU, MaxPush: 128, Addresses: true}, "auto", "the device has only 128 bytes of push constants; 168 are needed"},
		{&vk.Physical{Kind: vk.CPU, MaxPush: 256, Addresses: true}, "auto", ""},
		{&vk.Physical{Kind: vk.Discrete, MaxPush: 256, Addresses: true}, "auto", "it is only known to be faster on CPU drivers"},
		{&vk.Physical{Kind: vk.Discrete, MaxPush: 256, Addresses: true}, vulkan.BufferAddresses, ""},
	} {
		for validate, why := range map[string]string{"": c.why, "1": cmp.Or(c.why, map[string]string{"auto": "the validation layer cannot check accesses by address"}[c.asked])} {
			if t.Setenv("MEMOPT_VULKAN_VALIDATE", validate); validate != "" && c.device.Kind != vk.CPU {
				continue
			}
			if got := pathChoice(t, vulkan.BufferAddresses, []string{c.asked}, c.device); got.Why != why || got.Taken != (why == "") {
				t.Errorf("%+v, %q, validating %q: %+v", c.device, c.asked, validate, got)
			}
		}
	}
	for _, c := range []struct {
		device *vk.Physical
		why    string // bindings are not pushed
	}{
		{&vk.Physical{Kind: vk.Discrete}, "the device has no VK_KHR_push_descriptor"}, {&vk.Physical{Kind: vk.Discrete, PushDescriptors: 32}, ""},
		{&vk.Physical{Kind: vk.CPU, PushDescriptors: 32}, "CPU drivers take longer to push bindings than to bind sets"},
	} {
		if got := pathChoice(t, vulkan.PushDescriptors, []string{"auto"}, c.device); got.Why != c.why || got.Taken != (c.why == "") {
			t.Errorf("%+v: %+v", c.device, got)
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

// TestPushedBindings: a step whose bindings are pushed has the bits of one with descriptor sets, also where memory is taken in
// stages, and makes no sets.
func TestPushedBindings(t *testing.T) {
	gpu, o := pathDevice(t, vulkan.PushDescriptors)
	step, _ := lossStep(t, "x f32[9,7] = param\nw f32[7,5] = param\nplaces i64[9] = input\nh = Gelu(x)\ns = MatMul(h, w)\ncost = SoftmaxCrossEntropyLoss(s, places)\noutput cost", kernels.Fusions)
	for name, staged := range map[string]bool{"at once": false, "in stages": true} {
		want, _ := stepBytes(t, gpu, step, planner.Request{Strategy: "recompute-all"}, vulkan.Options{FastPaths: []string{vulkan.FastPathsNone}, Staged: staged})
		o.Staged = staged
		got, _ := stepBytes(t, gpu, step, planner.Request{Strategy: "recompute-all"}, o)
		for what, x := range want {
			if !bytes.Equal(got[what], x) {
				t.Errorf("%s: %s has other bits", name, what)
			}
		}
	}
}
