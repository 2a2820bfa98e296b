package kernels

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var (
	batchNormKernel = lower.Halved(lower.Shader("batchnorm", "batchnorm.comp"))
	channelsHeld    = lower.TeamShader("channels-held", "channelsheld.comp")
)

// The statistics that channels are normalized with: from the inputs, computed from the
// batch, or the batch's as the forward pass saved them.
const (
	givenStatistics, batchStatistics, keptStatistics = 0, 1, 2
)

func statisticsOf(n *graph.Node) uint32 {
	if n.Int("training_mode") != 0 {
		return batchStatistics
	}
	return givenStatistics
}

// lowerChannels lowers batch normalization, or with back its gradient.
func lowerChannels(l *graph.Lowering, back bool, by uint32, x int, addend graph.Buffer) {
	shape := l.In[x].Shape
	if !lower.OnlyF32(l) {
		return
	}
	if index.Elems(shape) == 0 || l.Out[0] == nil {
		l.Refuse("the input is empty or output 0 is not used")
		return
	}
	n, channels, inner := shape[0], 1, 1
	if len(shape) > 1 {
		channels, inner = shape[1], index.Elems(shape[2:])
	}
	mean, variance, scale := lower.Unused(false), lower.Unused(false), lower.Reads(1)
	momentum := 0.0
	if back {
		scale = lower.Reads(2)
	} else {
		momentum = l.Node.Float("momentum")
	}
	if !back || by != batchStatistics {
		mean, variance = lower.Reads(3), lower.Reads(4)
	}
	outs, wanted := [4]graph.Buffer{lower.Unused(true), lower.Unused(true), lower.Unused(true), lower.Unused(true)}, uint32(0)
	for i := range outs {
		if lower.Out(l, 1+i) != nil {
			outs[i], wanted = lower.Writes(1+i), wanted|1<<i
		}
	}
	sample := channels * inner
	chunk := min(n, max(1, sumChunkBytes/4/sample))
	var work graph.Buffer
	if chunk < n && (back || by == batchStatistics) {
		l.Scratch = lower.Aligned(int64(4 * passSums * channels))
		work = lower.Scratch(0, l.Scratch, true)
	}
	dispatch := func(pass uint32, n, from int, begun bool, buffers []graph.Buffer) {
		push := append(lower.Words(l, n, channels, inner), lower.Bits(l.Node.Float("epsilon")), lower.Bits(momentum))
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: batchNormKernel, Spec: []uint32{uint32(l.Limits.Subgroup), lower.OneIf(back), by, wanted, pass},
			Push: append(push, append(lower.Words(l, shape[0], chunk, from), lower.OneIf(begun))...), Buffers: buffers, Groups: lower.InLine(l, channels),
		})
	}
	buffers := []graph.Buffer{lower.Writes(0), lower.Reads(x), scale, addend, mean, variance, outs[0], outs[1], outs[2], outs[3]}
	atOnce := lower.SamplesAtOnce(l, n, sample)
	operands := 1
	if back {
		operands = 2
	}
	if t, ok := lower.TeamOf(l, "channels", channels, n*inner, 1, operands, inner%4 == 0); ok && atOnce >= n {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: t.Of(channelsHeld), Spec: t.Spec(lower.OneIf(back), by, wanted),
			Push:    append(lower.Words(l, n, channels, inner/t.Wide), lower.Bits(l.Node.Float("epsilon")), lower.Bits(momentum)),
			Buffers: buffers, Groups: t.Groups(l, channels),
		})
		return
	}
	each := atOnce / chunk * chunk
	if each == 0 || each >= n {
		dispatch(passWhole, n, 0, false, buffers)
		return
	}
	// pieces runs a pass over all samples, as many at a time as fit the descriptor range;
	// have lists the buffers that are indexed by sample.
	pieces := func(pass uint32, buffers []graph.Buffer, have ...int) {
		for first := 0; first < n; first += each {
			some, before := min(each, n-first), 0
			seen := slices.Clone(buffers)
			for _, i := range have {
				seen[i], before = lower.SamplesOf(l, buffers[i], n, sample, first, some)
			}
			dispatch(pass, some, first*sample-before, first > 0, seen)
		}
	}
	none := lower.Unused(true)
	sums := []graph.Buffer{work, buffers[1], lower.Unused(false), lower.Unused(false), mean, variance, none, none, none, none}
	if by == batchStatistics {
		pieces(passSum, sums, 1)
		pieces(passSquares, sums, 1)
	}
	elements := append(buffers[:6:6], none, none, work, none)
	if work.Bytes == 0 {
		elements[8] = none
	}
	if back {
		sums[3] = addend
		pieces(passFlow, sums, 1, 3)
		pieces(passElements, elements, 0, 1, 3)
	} else {
		pieces(passElements, elements, 0, 1)
	}
	if wanted != 0 {
		dispatch(passResults, n, 0, true, append([]graph.Buffer{work, lower.Unused(false), lower.Unused(false), lower.Unused(false), mean, variance}, outs[:]...))
	}
}

// The passes of batchnorm.comp, by its numbers.
const (
	passWhole, passSum, passSquares, passFlow, passElements, passResults = 0, 1, 2, 3, 4, 5
)

// passSums is the most sums for each channel that one pass leaves to the next.
const passSums = 4

// sumChunkBytes is the size of the chunks whose sums are added up in order. It is below
// the descriptor range of every device, so pieces are made of whole chunks and sums have
// the same bits on all devices.
const sumChunkBytes = 8 << 20

func lowerBatchNorm(l *graph.Lowering) {
	lowerChannels(l, false, statisticsOf(l.Node), 0, lower.Reads(2))
}
