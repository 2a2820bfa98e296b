package vulkan

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/kernels/vulkan/vk"
)

// The names of fast paths in settings.
const (
	CooperativeMatrix   = "cooperative-matrix"
	CooperativeBFloat16 = "cooperative-bfloat16"
	BufferAddresses     = "buffer-addresses"
	CopyQueues          = "copy-queues"
	PushDescriptors     = "push-descriptors"
)

// Settings instead of a list of fast paths.
const (
	FastPathsAuto = "auto"
	FastPathsNone = "none"
)

const fastPathsVariable = "MEMOPT_FAST_PATHS"

// fastPath is another implementation of some kernels, faster on devices that support it. Whether
// it is used is decided when a schedule is opened, for all launches, so that recomputed values
// have the same bits.
type fastPath struct {
	name, does string
	lacks      func(*vk.Physical) string // what the device does not support; "" if it can use the path
	// unwanted is why auto does not use the path on a device that supports it; "" if it does.
	unwanted func(*vk.Physical) string
}

// fastPaths lists all fast paths. Code that implements one asks Device.takes.
var fastPaths = []fastPath{
	{
		name:     CooperativeMatrix,
		does:     "float16 matrix products, convolutions and attention with cooperative matrices, accumulated in float32",
		lacks:    func(p *vk.Physical) string { return float16Matrices.lacks(p, bfloat16Matrices) },
		unwanted: onlyHardware,
	},
	{
		name:     CooperativeBFloat16,
		does:     "bfloat16 matrix products, convolutions and attention with cooperative matrices, accumulated in float32",
		lacks:    func(p *vk.Physical) string { return bfloat16Matrices.lacks(p, float16Matrices) },
		unwanted: onlyHardware,
	},
	{
		name: BufferAddresses,
		does: "matrix products that access buffers by address instead of by descriptor",
		lacks: func(p *vk.Physical) string {
			switch {
			case !p.Addresses:
				return "no bufferDeviceAddress"
			case p.MaxPush < graph.AddressedPush:
				return fmt.Sprintf("only %d bytes of push constants; %d are needed", p.MaxPush, graph.AddressedPush)
			}
			return ""
		},
		unwanted: func(p *vk.Physical) string {
			if os.Getenv(validateVariable) != "" {
				return "the validation layer cannot check accesses by address"
			}
			if p.Kind != vk.CPU {
				return "it is only known to be faster on CPU drivers"
			}
			return ""
		},
	},
	{
		name:  CopyQueues,
		does:  "values and states that move to the host's memory are copied beside the launches",
		lacks: func(*vk.Physical) string { return "" },
		unwanted: func(p *vk.Physical) string {
			if p.CopyQueues() == 0 {
				return "it has no queue that only copies"
			}
			return ""
		},
	},
	{
		name: PushDescriptors,
		does: "where a kernel's buffers are is recorded with it, and no descriptor sets are made",
		lacks: func(p *vk.Physical) string {
			if p.PushDescriptors == 0 {
				return "no VK_KHR_push_descriptor"
			}
			return ""
		},
		unwanted: func(p *vk.Physical) string {
			if p.Kind == vk.CPU {
				return "CPU drivers take longer to push bindings than to bind sets"
			}
			return ""
		},
	},
}

// matrixSubgroups is the number of subgroups of a workgroup with cooperative matrices.
const matrixSubgroups = 4

// matrixKind is a type of elements that a device may multiply in cooperative matrices.
type matrixKind struct {
	word, extensions string
	shapes           func(*vk.Physical) [][3]int
}

var (
	float16Matrices  = matrixKind{"float16", "VK_KHR_cooperative_matrix", func(p *vk.Physical) [][3]int { return p.Matrices }}
	bfloat16Matrices = matrixKind{"bfloat16", "VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16", func(p *vk.Physical) [][3]int { return p.BFloat16Matrices }}
)

// lacks says what a device lacks for products of the kind, and what it has: of other shapes, or of another kind.
func (k matrixKind) lacks(p *vk.Physical, other matrixKind) string {
	shapes, others := k.shapes(p), other.shapes(p)
	switch {
	case matrixOf(shapes) == [3]int{}:
		has := ""
		if len(shapes) > 0 {
			has = fmt.Sprintf("; it has %s, and kernels take sides up to %d", shapesText(shapes), mostMatrixSide)
		} else if len(others) > 0 {
			has = fmt.Sprintf("; it has %s for %s", shapesText(others), other.word)
		}
		return fmt.Sprintf("no %s for %s with float32 accumulators%s", k.extensions, k.word, has)
	case matrixSubgroups*p.Subgroup > p.MaxInvocations:
		return fmt.Sprintf("no workgroups of %d subgroups of %d", matrixSubgroups, p.Subgroup)
	}
	return ""
}

// shapesText lists shapes of cooperative matrices.
func shapesText(shapes [][3]int) string {
	var all []string
	for _, s := range shapes {
		all = append(all, fmt.Sprintf("%d×%d×%d", s[0], s[1], s[2]))
	}
	return strings.Join(all, ", ")
}

// mostMatrixSide bounds the sides of cooperative matrices, so that kernels need no more shared memory than every device has.
const mostMatrixSide = 16

// matrixOf is the shape of cooperative matrices to use, the largest; zeros if there is none.
func matrixOf(shapes [][3]int) (best [3]int) {
	for _, s := range shapes {
		if max(s[0], s[1], s[2]) <= mostMatrixSide && s[0]*s[1]*s[2] > best[0]*best[1]*best[2] {
			best = s
		}
	}
	return best
}

// onlyHardware is the reason not to use a path on CPU drivers.
func onlyHardware(p *vk.Physical) string {
	if p.Kind == vk.CPU {
		return "CPU drivers only emulate it"
	}
	return ""
}

// PathChoice says whether a fast path is used on a device.
type PathChoice struct {
	Name, Does string
	Named      bool // in the request
	Taken      bool
	Why        string // why it is not taken
}

// FastPaths decides which paths are used on a device. asked is auto, none, or a list of names; if
// it is empty, MEMOPT_FAST_PATHS or else auto applies.
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
			return nil, fmt.Errorf("fast paths must be %s, %s or a list of %s, not %q", FastPathsAuto, FastPathsNone, strings.Join(FastPathNames(), ","), strings.Join(asked, ","))
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

// FastPathNames lists the names of all fast paths.
func FastPathNames() (names []string) {
	for _, f := range fastPaths {
		names = append(names, f.name)
	}
	return names
}

// choosePaths decides which paths the device uses. A path that is named in the request but cannot
// be used is an error.
func (d *Device) choosePaths(p *vk.Physical) error {
	all, err := FastPaths(d.options.FastPaths, p)
	d.paths = map[string]bool{}
	for _, c := range all {
		if c.Named && !c.Taken {
			return fmt.Errorf("fast path %s cannot be used: %s; %s uses what %s supports", c.Name, c.Why, FastPathsAuto, p.Name)
		}
		d.paths[c.Name] = c.Taken
	}
	return err
}

// takes reports whether the device uses a fast path.
func (d *Device) takes(path string) bool { return d.paths[path] }
