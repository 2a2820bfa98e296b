package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

// spreadKernels store elements one at a time or in pairs. They write float32.
var spreadKernels = [2]*graph.Kernel{Halved(Shader("spread", "spread.comp")), Halved(Shader("spread-pairs", "spread.comp", "-DPAIRS"))}

// spread copies matrices or images to padded rows for a product: a plane of rows for each
// channel and tap, for slots items of the batch.
type spread struct {
	to, from           graph.Buffer
	shape, sx          []int // batch dims, and their strides in from; the innermost one is also the depth
	first, slots       int
	at                 int // offset in from
	channels, channel  int // number, and stride in from
	taps, step         [3]int
	dilation, shift    [3]int
	size, strides      [3]int
	rows, whole, width int // whole: elements of a row; width: with padding
}

// groupElements is the approximate number of elements of a workgroup: few on a GPU (key true),
// which needs many workgroups, more on a CPU driver, where each has overhead.
var groupElements = map[bool]int{true: 512, false: 4096}

func (s *spread) append(l *graph.Lowering) {
	each := max(1, groupElements[l.Limits.Shared]/s.width)
	if each > s.rows {
		each = s.rows * min(s.channels, each/s.rows)
	}
	groups := s.slots * index.CeilDiv(s.channels, max(1, each/s.rows)) * f32.Volume(s.taps) * index.CeilDiv(s.rows, each)
	batch, sx := index.Padded(3, s.shape, 1), index.Padded(3, s.sx, 0)
	push := Words(l, groups, s.channels, s.rows, each, s.whole, s.width, batch[1], batch[2], sx[0], sx[1], sx[2], s.first, s.at, s.channel)
	push = append(push, Triples(s.taps, s.step, s.dilation, s.shift, s.size, s.strides)...)
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: spreadKernels[OneIf(l.Limits.Int64)], Spec: []uint32{uint32(l.Limits.Subgroup)}, Push: push, Buffers: []graph.Buffer{s.to, s.from}, Groups: InLine(l, groups),
	})
}

// Triples converts parameters of three axes to push constants.
func Triples(all ...[3]int) (push []uint32) {
	for _, d := range all {
		for _, v := range d {
			push = append(push, uint32(int32(v)))
		}
	}
	return push
}

// pageFloats is the number of floats in a page: lines at a stride that is a multiple of it map
// to the same cache sets and evict each other.
const pageFloats = 1024

// roomy is the padded length of a line: a multiple of a cache line, but not of a page.
func roomy(n int) int {
	const line = 16
	n = (n + line - 1) &^ (line - 1)
	if n%pageFloats == 0 {
		n += line
	}
	return n
}
