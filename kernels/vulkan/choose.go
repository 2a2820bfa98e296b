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

// validateVariable enables the validation layer.
const validateVariable = "MEMOPT_VULKAN_VALIDATE"

// hiddenVariable makes tests treat device memory as not visible to the host.
const hiddenVariable = "MEMOPT_VULKAN_HIDDEN"

func load() (*vk.Instance, error) { return vk.Load(os.Getenv(validateVariable) != "") }

// Devices lists the Vulkan devices. Without Vulkan the error says what to install.
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

// Messages returns the validation layer's messages since the last call.
func Messages() string {
	i, err := load()
	if err != nil {
		return ""
	}
	return i.Messages()
}

// Choose finds a device by number, by part of its name (ignoring case), or for "" the best:
// discrete, then integrated, then others. Unusable devices are only considered if they are
// asked for, to report why.
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
				return nil, fmt.Errorf("vulkan: there is no device %d; available: %s", n, list(all))
			}
			return usable(all[n])
		}
		for _, p := range all {
			if strings.Contains(strings.ToLower(p.Name), strings.ToLower(which)) {
				return usable(p)
			}
		}
		return nil, fmt.Errorf("vulkan: no device name contains %q; available: %s", which, list(all))
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

// rank is the preference of a kind of device; 0 is best.
func rank(p *vk.Physical) int {
	return map[vk.Kind]int{vk.Discrete: 0, vk.Integrated: 1, vk.Virtual: 2, vk.Other: 3, vk.CPU: 4}[p.Kind]
}

// Hardware is the best GPU, or nil. CPU drivers do not count: package cpu is faster. The result
// is cached, as every plan asks for it.
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

// nodes are the names of GPUs under /dev: DRM drivers, NVIDIA's on cards and boards, WSL's,
// Qualcomm's and ARM's.
var nodes = []string{"dri/*", "nvidia*", "nvhost*", "nvgpu*", "dxg", "kgsl*", "mali*"}

// mayBe reports whether a folder like /dev may have a GPU. If not, Vulkan need not be loaded:
// CPU drivers alone take 60 MB.
func mayBe(folder string) bool {
	return slices.ContainsFunc(nodes, func(node string) bool {
		found, _ := filepath.Glob(filepath.Join(folder, node)) // the patterns are valid
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
