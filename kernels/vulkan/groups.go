package vulkan

import (
	"fmt"
	"os"

	"memopt/kernels/vulkan/vk"
)

// How the groups of large kernels work: they bring what they need into memory
// that a group shares, which graphics processors want, or their subgroups work
// alone, which is faster by far on drivers for the processor.
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
	return false, fmt.Errorf("%s is %s or %s, not %q", groupsVariable, GroupsShared, GroupsAlone, asked)
}
