package vulkan

import (
	"slices"

	"memopt/kernels/vulkan/vk"
	"memopt/memopt/graph"
)

// addressed is a dispatch with what it binds: nothing, if its kernel finds buffers
// by addresses.
func addressed(x graph.Dispatch, bindings []vk.Binding) (graph.Dispatch, []vk.Binding) {
	if !x.Kernel.Addressed {
		return x, bindings
	}
	x.Push = append(slices.Clone(x.Push), make([]uint32, len(x.Push)%2)...) // addresses are aligned
	for _, b := range bindings {
		at := b.Block.Address() + uint64(b.At)
		x.Push = append(x.Push, uint32(at), uint32(at>>32))
	}
	return x, nil
}
