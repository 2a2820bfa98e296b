package kernels

import (
	"memopt/kernels/internal/f32"
	"memopt/memopt/graph"
)

// spreadKernels store elements one by one or in pairs. What they write is never
// 16-bit floats.
var spreadKernels = [2]*graph.Kernel{halved(shader("spread", "spread.comp")), halved(shader("spread-pairs", "spread.comp", "-DPAIRS"))}

// spread is lines that are laid out anew for a product: planes of rows, one for
// each channel and tap, in so many slots of the batch.
type spread struct {
	to, from           graph.Buffer
	shape, sx          []int // the batch, and strides under it; its innermost dim is depth, too
	first, slots       int
	at                 int // where strides count from
	channels, channel  int // how many, and from one to the next
	taps, step         [3]int
	dilation, shift    [3]int
	size, strides      [3]int
	rows, whole, width int // elements of a row, and with the room behind them
}

// groupElements are about as many as keep a group busy: on a graphics processor,
// which wants many groups, and on a driver for the processor, where each costs.
var groupElements = map[bool]int{true: 512, false: 4096}

func (s *spread) append(l *graph.Lowering) {
	each := max(1, groupElements[l.Limits.Shared]/s.width)
	if each > s.rows {
		each = s.rows * min(s.channels, each/s.rows)
	}
	groups := s.slots * ceilDiv(s.channels, max(1, each/s.rows)) * f32.Volume(s.taps) * ceilDiv(s.rows, each)
	batch, sx := frontFilled(3, s.shape, 1), frontFilled(3, s.sx, 0)
	push := words(l, groups, s.channels, s.rows, each, s.whole, s.width, batch[1], batch[2], sx[0], sx[1], sx[2], s.first, s.at, s.channel)
	push = append(push, triples(s.taps, s.step, s.dilation, s.shift, s.size, s.strides)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: spreadKernels[oneIf(l.Limits.Int64)], Spec: []uint32{uint32(l.Limits.Subgroup)}, Push: push, Buffers: []graph.Buffer{s.to, s.from}, Groups: inLine(l, groups),
	})
}

// triples are settings of three axes as words of push constants.
func triples(all ...[3]int) (push []uint32) {
	for _, d := range all {
		for _, v := range d {
			push = append(push, uint32(int32(v)))
		}
	}
	return push
}

// pageFloats fill a page: lines so far apart, or a multiple of that, drive each
// other out of a cache.
const pageFloats = 1024

// roomy is the length of a line with room behind it: whole cache lines, and no
// multiple of a page.
func roomy(n int) int {
	const line = 16
	n = (n + line - 1) &^ (line - 1)
	if n%pageFloats == 0 {
		n += line
	}
	return n
}
