package vulkan

import (
	"fmt"
	"slices"

	"memopt/planner"
)

// poison fills bytes with ones: NaN as a float of any width.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// guard watches a launch in poison mode: what it returns is called behind it,
// finds bytes that it should not have written, and poisons what dies with it.
// It needs memory that the processor sees.
func (d *Device) guard(p part) func() error {
	if !d.options.Poison || p.first >= len(d.launches) {
		return func() error { return nil }
	}
	before := [3][][]byte{}
	for i, s := range d.spaces {
		for _, b := range s.blocks {
			before[i] = append(before[i], slices.Clone(mappedBytes(b)))
		}
	}
	return func() error {
		l := d.launches[p.first].src
		mine := []span{spanOf(l.Scratch)}
		for _, r := range l.Out {
			mine = append(mine, spanOf(r))
		}
		for i, s := range d.spaces {
			for k, b := range s.blocks {
				for at, v := range mappedBytes(b) {
					here := span{planner.Space(i), s.starts[k] + int64(at), s.starts[k] + int64(at) + 1}
					if v != before[i][k][at] && !here.meets(mine) {
						return fmt.Errorf("node %s wrote byte %d of the %s, which is not its own", d.launchName(p.first), here.at, here.space)
					}
				}
			}
		}
		for _, f := range d.frees[p.first+1] {
			if int(f.Last) < len(d.launches) {
				poison(d.host(span{planner.Arena, f.Offset, f.Offset + f.Bytes}))
			}
		}
		return nil
	}
}
