package vulkan

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"memopt/kernels/vulkan/vk"
	"memopt/memopt/graph"
)

// The fast paths, by the names that settings have for them.
const (
	CooperativeMatrix = "cooperative-matrix"
	BufferAddresses   = "buffer-addresses"
)

// The words that stand for a list of fast paths.
const (
	FastPathsAuto = "auto"
	FastPathsNone = "none"
)

const fastPathsVariable = "MEMOPT_FAST_PATHS"

// fastPath is another way to run some launches, faster on devices that have what
// it takes. Who takes it is settled when a schedule is opened, for all of it: so a
// value that is computed again gets the bits that it had.
type fastPath struct {
	name, does string
	lacks      func(*vk.Physical) string // what a device has not; "" if it offers the path
	// unwanted says why auto leaves the path alone on a device that offers it, or
	// is empty.
	unwanted func(*vk.Physical) string
}

// fastPaths is all of them: a path is a row here, and where it is taken asks
// Device.takes.
var fastPaths = []fastPath{
	{
		name: CooperativeMatrix,
		does: "products of float16 by matrices that a subgroup multiplies at once, summed in float32",
		lacks: func(p *vk.Physical) string {
			switch {
			case matrixOf(p) == [3]int{}:
				return "no VK_KHR_cooperative_matrix of float16, summed in float32"
			case matrixSubgroups*p.Subgroup > p.MaxInvocations:
				return fmt.Sprintf("no room for %d subgroups of %d in a group", matrixSubgroups, p.Subgroup)
			}
			return ""
		},
		unwanted: onlyHardware,
	},
	{
		name: BufferAddresses,
		does: "products whose kernels find buffers by addresses, not by descriptors",
		lacks: func(p *vk.Physical) string {
			switch {
			case !p.Addresses:
				return "no addresses of buffers (bufferDeviceAddress)"
			case p.MaxPush < graph.AddressedPush:
				return fmt.Sprintf("%d bytes of push constants, and addresses want %d", p.MaxPush, graph.AddressedPush)
			}
			return ""
		},
		unwanted: func(p *vk.Physical) string {
			if os.Getenv(validateVariable) != "" {
				return "the validation layer sees nothing through addresses"
			}
			if p.Kind != vk.CPU {
				return "it is known to help drivers for the processor, and untried elsewhere"
			}
			return ""
		},
	},
}

// matrixSubgroups work together on products by cooperative matrices.
const matrixSubgroups = 4

// matrixOf is the shape of the matrices that a device multiplies at once: the
// largest up to 16 a side, of which kernels bring no more into a group's memory than
// every device has.
func matrixOf(p *vk.Physical) (best [3]int) {
	for _, s := range p.Matrices {
		if max(s[0], s[1], s[2]) <= 16 && s[0]*s[1]*s[2] > best[0]*best[1]*best[2] {
			best = s
		}
	}
	return best
}

// onlyHardware is the reason of a path that drivers for the processor imitate.
func onlyHardware(p *vk.Physical) string {
	if p.Kind == vk.CPU {
		return "a driver for the processor only imitates it"
	}
	return ""
}

// PathChoice is what becomes of a fast path on a device.
type PathChoice struct {
	Name, Does string
	Named      bool // in what was asked for
	Taken      bool
	Why        string // it is not taken
}

// FastPaths says what becomes of each path on a device: asked is auto, none, or the
// names of those to take, and nothing is what MEMOPT_FAST_PATHS says, or auto.
func FastPaths(asked []string, p *vk.Physical) ([]PathChoice, error) {
	if len(asked) == 0 {
		if text := os.Getenv(fastPathsVariable); text != "" {
			asked = strings.Split(text, ",")
		} else {
			asked = []string{FastPathsAuto}
		}
	}
	for _, name := range asked {
		known := slices.ContainsFunc(fastPaths, func(f fastPath) bool { return f.name == name })
		if alone := name == FastPathsAuto || name == FastPathsNone; !known && !alone || alone && len(asked) > 1 {
			return nil, fmt.Errorf("fast paths are %s, %s or some of %s, not %q", FastPathsAuto, FastPathsNone, strings.Join(FastPathNames(), ","), strings.Join(asked, ","))
		}
	}
	var all []PathChoice
	for _, f := range fastPaths {
		c := PathChoice{Name: f.name, Does: f.does, Named: slices.Contains(asked, f.name)}
		switch lacks := f.lacks(p); {
		case lacks != "":
			c.Why = "the device has " + lacks
		case asked[0] == FastPathsAuto:
			c.Why = f.unwanted(p)
		case !c.Named:
			c.Why = "not asked for"
		}
		c.Taken = c.Why == ""
		all = append(all, c)
	}
	return all, nil
}

// FastPathNames lists what settings may name.
func FastPathNames() (names []string) {
	for _, f := range fastPaths {
		names = append(names, f.name)
	}
	return names
}

// choosePaths settles which paths the device takes. One that is named and cannot be
// taken is an error.
func (d *Device) choosePaths(p *vk.Physical) error {
	all, err := FastPaths(d.options.FastPaths, p)
	d.paths = map[string]bool{}
	for _, c := range all {
		if c.Named && !c.Taken {
			return fmt.Errorf("fast path %s was asked for, and cannot be taken: %s; %s takes what %s offers", c.Name, c.Why, FastPathsAuto, p.Name)
		}
		d.paths[c.Name] = c.Taken
	}
	return err
}

// takes reports whether the device takes a fast path.
func (d *Device) takes(path string) bool { return d.paths[path] }
