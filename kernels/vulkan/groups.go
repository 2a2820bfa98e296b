package vulkan

import (
	"fmt"
	"os"

	"memopt/kernels/vulkan/vk"
)

// How workgroups of large kernels work: they load tiles into workgroup shared memory, which is
// fast on GPUs, or each subgroup works alone, which is much faster on CPU drivers.
const (
	GroupsShared = "shared"
	GroupsAlone  = "alone"
)

const groupsVariable = "MEMOPT_VULKAN_GROUPS"

// sharesMemory resolves Options.Groups.
func sharesMemory(asked string, p *vk.Physical) (bool, error) {
	if asked == "" {
		asked = os.Getenv(groupsVariable)
	}
	switch asked {
	case "":
		return p.Kind != vk.CPU, nil
	case GroupsShared, GroupsAlone:
		return asked == GroupsShared, nil
	}
	return false, fmt.Errorf("%s must be %s or %s, not %q", groupsVariable, GroupsShared, GroupsAlone, asked)
}
