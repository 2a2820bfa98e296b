package vulkan

import (
	"slices"

	"memopt/kernels/vulkan/vk"
	"memopt/memopt/graph"
	"memopt/planner"
)

// addressed is a dispatch with what it binds: nothing, if its kernel finds buffers
// by addresses.
func addressed(x graph.Dispatch, bindings []vk.Binding) (graph.Dispatch, []vk.Binding) {
	if x.Kernel.Bound == nil {
		return x, bindings
	}
	x.Push = append(slices.Clone(x.Push), make([]uint32, len(x.Push)%2)...) // addresses are aligned
	for _, b := range bindings {
		at := b.Block.Address() + uint64(b.At)
		x.Push = append(x.Push, uint32(at), uint32(at>>32))
	}
	return x, nil
}

// farthest is the most bytes that a launch could see of one buffer.
func (d *Device) farthest() (most int64) {
	for _, l := range d.schedule.Launches {
		for _, r := range slices.Concat(l.In, l.Out, []planner.Ref{l.Scratch}) {
			most = max(most, r.Bytes)
		}
	}
	return most
}

// pushBytes are the bytes of push constants that a dispatch has, with its addresses.
func pushBytes(x graph.Dispatch) int {
	n := 4 * len(x.Push)
	if x.Kernel.Bound != nil {
		n = (n+7)&^7 + 8*len(x.Buffers)
	}
	return n
}
