package vulkan

import (
	"slices"

	"memopt/kernels/vulkan/vk"
	"memopt/memopt/graph"
	"memopt/planner"
)

// addressed is a dispatch with room for addresses behind its constants, and what it binds: nothing, if its kernel finds
// buffers by addresses.
func addressed(x graph.Dispatch, bindings []vk.Binding) (graph.Dispatch, []vk.Binding) {
	if x.Kernel.Bound == nil {
		return x, bindings
	}
	n := len(x.Push) + len(x.Push)%2 // addresses are aligned
	x.Push = append(slices.Clone(x.Push), make([]uint32, n-len(x.Push)+2*len(bindings))...)
	return x, nil
}

// push is a dispatch's constants, with the addresses of buffers, which are there by now.
func (c *dispatch) push() []uint32 {
	at := len(c.Push) - 2*len(c.addresses)
	for i, b := range c.addresses {
		a := b.Block.Address() + uint64(b.At)
		c.Push[at+2*i], c.Push[at+2*i+1] = uint32(a), uint32(a>>32)
	}
	return c.Push
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
