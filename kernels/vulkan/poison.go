package vulkan

import (
	"bytes"
	"cmp"
	"fmt"
	"memopt/internal/schedule"
	"slices"
)

// poison fills bytes of the arena with ones: NaN as a float of any width.
func (d *Device) poison(s span) error {
	return d.write(s, bytes.Repeat([]byte{0xff}, int(s.end-s.at)))
}

// contents copies the contents of all blocks of the spaces.
func (d *Device) contents() (all [spaces][][]byte, err error) {
	for i, s := range d.spaces {
		for _, p := range s.pieces {
			to := make([]byte, p.end-p.at)
			if err := d.read(to, span{schedule.Space(i), p.at, p.end}); err != nil {
				return all, err
			}
			all[i] = append(all[i], to)
		}
	}
	return all, nil
}

// guard checks a launch in poison mode. The function it returns must be called after the launch: it
// reports bytes that the launch must not write.
func (d *Device) guard(p *part) (check func() error, err error) {
	if !d.options.Poison || p.copies || p.first >= len(d.launches) {
		return func() error { return nil }, nil
	}
	before, err := d.contents()
	if err != nil {
		return nil, err
	}
	return func() error {
		after, err := d.contents()
		if err != nil {
			return err
		}
		first := p.first
		l := d.launches[first].src
		mine := []span{spanOf(l.Scratch)}
		if streams(l) {
			mine = append(mine, d.ring())
		}
		for _, r := range l.Out {
			mine = append(mine, spanOf(r))
		}
		slices.SortFunc(mine, func(a, b span) int { return cmp.Compare(a.at, b.at) })
		for i, s := range d.spaces {
			for k, p := range s.pieces {
				if at := changed(schedule.Space(i), p.at, before[i][k], after[i][k], mine); at >= 0 {
					return fmt.Errorf("node %s wrote byte %d of the %s, outside of its outputs and work space", d.launchName(first), at, owners[i])
				}
			}
		}
		return nil
	}, nil
}

// end poisons memory whose live range ends before a launch.
func (d *Device) end(launch int) error {
	if launch == 0 {
		return nil
	}
	for _, f := range d.frees[launch] {
		if err := d.poison(span{schedule.Arena, f.Offset, f.Offset + f.Bytes}); err != nil {
			return err
		}
	}
	return nil
}

// changed is the first offset outside of the sorted spans mine at which two copies of a block, which
// begins at start, differ; −1 if there is none.
func changed(space schedule.Space, start int64, before, after []byte, mine []span) int64 {
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
