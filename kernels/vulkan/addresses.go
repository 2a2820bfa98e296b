package vulkan

import (
	"slices"

	"memopt/internal/graph"
	"memopt/internal/schedule"
	"memopt/kernels/vulkan/vk"
)

// addressed prepares a dispatch whose kernel uses buffer addresses: it reserves push constants for them, and needs no
// bindings. Other dispatches are returned unchanged.
func addressed(x graph.Dispatch, bindings []vk.Binding) (graph.Dispatch, []vk.Binding) {
	if x.Kernel.Bound == nil {
		return x, bindings
	}
	n := len(x.Push) + len(x.Push)%2 // addresses are 8-byte aligned
	x.Push = append(slices.Clone(x.Push), make([]uint32, n-len(x.Push)+2*len(bindings))...)
	return x, nil
}

// push returns a dispatch's push constants, with the addresses of its buffers, which are allocated by now.
func (c *dispatch) push() []uint32 {
	at := len(c.Push) - 2*len(c.addresses)
	for i, b := range c.addresses {
		a := b.Block.Address() + uint64(b.At)
		c.Push[at+2*i], c.Push[at+2*i+1] = uint32(a), uint32(a>>32)
	}
	return c.Push
}

// farthest is the size of the largest operand or work space.
func (d *Device) farthest() (most int64) {
	for _, l := range d.schedule.Launches {
		for _, r := range slices.Concat(l.In, l.Out, []schedule.Ref{l.Scratch}) {
			most = max(most, r.Bytes)
		}
	}
	return most
}

// pushBytes is the bytes of a dispatch's push constants, including addresses.
func pushBytes(x graph.Dispatch) int {
	n := 4 * len(x.Push)
	if x.Kernel.Bound != nil {
		n = (n+7)&^7 + 8*len(x.Buffers)
	}
	return n
}
