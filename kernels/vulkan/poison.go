package vulkan

import (
	"bytes"
	"cmp"
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
		slices.SortFunc(mine, func(a, b span) int { return cmp.Compare(a.at, b.at) })
		for i, s := range d.spaces {
			for k, b := range s.blocks {
				if at := changed(planner.Space(i), s.starts[k], before[i][k], mappedBytes(b), mine); at >= 0 {
					return fmt.Errorf("node %s wrote byte %d of the %s, which is not its own", d.launchName(p.first), at, planner.Space(i))
				}
			}
		}
		for _, f := range d.frees[p.first+1] {
			poison(d.host(span{planner.Arena, f.Offset, f.Offset + f.Bytes}))
		}
		return nil
	}
}

// changed is the first place outside of the spans, which are in order, that
// differs between two states of a block that begins at start; −1 if there is none.
func changed(space planner.Space, start int64, before, after []byte, mine []span) int64 {
	look := func(from, to int64) int64 {
		from, to = max(from, start)-start, min(to, start+int64(len(before)))-start
		if from >= to || bytes.Equal(before[from:to], after[from:to]) {
			return -1
		}
		for at := from; ; at++ {
			if before[at] != after[at] {
				return start + at
			}
		}
	}
	from := start
	for _, s := range mine {
		if s.space != space {
			continue
		}
		if at := look(from, s.at); at >= 0 {
			return at
		}
		from = max(from, s.end)
	}
	return look(from, start+int64(len(before)))
}
