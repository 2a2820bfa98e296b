package vulkan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"memopt/kernels/vulkan/vk"
)

// validateVariable turns the validation layer on.
const validateVariable = "MEMOPT_VULKAN_VALIDATE"

// hiddenVariable has tests run as on a device with memory of its own.
const hiddenVariable = "MEMOPT_VULKAN_HIDDEN"

func load() (*vk.Instance, error) { return vk.Load(os.Getenv(validateVariable) != "") }

// Devices lists what Vulkan offers here. Without Vulkan the error says so and
// what to install.
func Devices() ([]*vk.Physical, error) {
	i, err := load()
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	all, err := i.Devices()
	if err != nil {
		return nil, fmt.Errorf("vulkan: %w", err)
	}
	return all, nil
}

// Messages are the validation layer's since the last call.
func Messages() string {
	i, err := load()
	if err != nil {
		return ""
	}
	return i.Messages()
}

// Choose finds a device by a number, by part of its name (any case), or, for
// "", the best: discrete, then integrated, then any other. One that cannot be
// used is only looked at if it was asked for.
func Choose(which string) (*vk.Physical, error) {
	all, err := Devices()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("vulkan: there is no device: Vulkan is installed, but no driver that offers one (mesa-vulkan-drivers on Debian and Ubuntu)")
	}
	if which != "" {
		if n, err := strconv.Atoi(which); err == nil {
			if n < 0 || n >= len(all) {
				return nil, fmt.Errorf("vulkan: there is no device %d; there are %s", n, list(all))
			}
			return usable(all[n])
		}
		for _, p := range all {
			if strings.Contains(strings.ToLower(p.Name), strings.ToLower(which)) {
				return usable(p)
			}
		}
		return nil, fmt.Errorf("vulkan: no device's name has %q in it; there are %s", which, list(all))
	}
	var best *vk.Physical
	for _, p := range all {
		if p.Unfit() == "" && (best == nil || rank(p) < rank(best)) {
			best = p
		}
	}
	if best == nil {
		return usable(all[0])
	}
	return best, nil
}

func usable(p *vk.Physical) (*vk.Physical, error) {
	if why := p.Unfit(); why != "" {
		return nil, fmt.Errorf("vulkan: %s cannot be used: %s", p.Name, why)
	}
	return p, nil
}

// rank orders kinds of devices, best first.
func rank(p *vk.Physical) int {
	return map[vk.Kind]int{vk.Discrete: 0, vk.Integrated: 1, vk.Virtual: 2, vk.Other: 3, vk.CPU: 4}[p.Kind]
}

// Hardware is the best device that is no driver for the processor, or nil:
// memopt's own device is faster than those. Every plan asks, and the answer
// stays the same while the process runs.
var Hardware = sync.OnceValue(func() *vk.Physical {
	if !mayBe("/dev") {
		return nil
	}
	p, err := Choose("")
	if err != nil || p.Kind != vk.Discrete && p.Kind != vk.Integrated {
		return nil
	}
	return p
})

// nodes is what the kernel calls graphics processors: all with a driver of its own,
// NVIDIA's on cards and on boards, Windows' below Linux, Qualcomm's and ARM's.
var nodes = []string{"dri/*", "nvidia*", "nvhost*", "nvgpu*", "dxg", "kgsl*", "mali*"}

// mayBe reports whether a folder of devices has a graphics processor. Where it has
// none no driver needs to be asked: those for processors alone take 60 MB to load.
func mayBe(folder string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool {
		found, _ := filepath.Glob(filepath.Join(folder, node)) // the patterns are good
		return len(found) > 0
	})
}

func list(all []*vk.Physical) string {
	var names []string
	for i, p := range all {
		names = append(names, fmt.Sprintf("vulkan:%d (%s)", i, p.Name))
	}
	return strings.Join(names, ", ")
}
