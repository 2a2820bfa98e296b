package lower

import (
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

var (
	batchNormKernel = Halved(Shader("batchnorm", "batchnorm.comp"))
	// ChannelsHeld has a workgroup for each channel, which reads its elements once.
	ChannelsHeld = TeamShader("channels-held", "channelsheld.comp")
)

// The statistics that channels are normalized with: from the inputs, computed from the
// batch, or the batch's as the forward pass saved them.
const (
	GivenStatistics, BatchStatistics, KeptStatistics = 0, 1, 2
)

// StatisticsOf is which of them a node normalizes with.
func StatisticsOf(n *graph.Node) uint32 {
	if n.Int("training_mode") != 0 {
		return BatchStatistics
	}
	return GivenStatistics
}

// Channels lowers batch normalization, or with back its gradient.
func Channels(l *graph.Lowering, back bool, by uint32, x int, addend graph.Buffer) {
	shape := l.In[x].Shape
	if !OnlyF32(l) {
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
	mean, variance, scale := Unused(false), Unused(false), Reads(1)
	momentum := 0.0
	if back {
		scale = Reads(2)
	} else {
		momentum = l.Node.Float("momentum")
	}
	if !back || by != BatchStatistics {
		mean, variance = Reads(3), Reads(4)
	}
	outs, wanted := [4]graph.Buffer{Unused(true), Unused(true), Unused(true), Unused(true)}, uint32(0)
	for i := range outs {
		if Out(l, 1+i) != nil {
			outs[i], wanted = Writes(1+i), wanted|1<<i
		}
	}
	sample := channels * inner
	chunk := min(n, max(1, sumChunkBytes/4/sample))
	var work graph.Buffer
	if chunk < n && (back || by == BatchStatistics) {
		l.Scratch = Aligned(int64(4 * passSums * channels))
		work = Scratch(0, l.Scratch, true)
	}
	dispatch := func(pass uint32, n, from int, begun bool, buffers []graph.Buffer) {
		push := append(Words(l, n, channels, inner), Bits(l.Node.Float("epsilon")), Bits(momentum))
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: batchNormKernel, Spec: []uint32{uint32(l.Limits.Subgroup), OneIf(back), by, wanted, pass},
			Push: append(push, append(Words(l, shape[0], chunk, from), OneIf(begun))...), Buffers: buffers, Groups: InLine(l, channels),
		})
	}
	buffers := []graph.Buffer{Writes(0), Reads(x), scale, addend, mean, variance, outs[0], outs[1], outs[2], outs[3]}
	atOnce := SamplesAtOnce(l, n, sample)
	operands := 1
	if back {
		operands = 2
	}
	if t, ok := TeamOf(l, "channels", channels, n*inner, 1, operands, inner%4 == 0); ok && atOnce >= n {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: t.Of(ChannelsHeld), Spec: t.Spec(OneIf(back), by, wanted),
			Push:    append(Words(l, n, channels, inner/t.Wide), Bits(l.Node.Float("epsilon")), Bits(momentum)),
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
				seen[i], before = SamplesOf(l, buffers[i], n, sample, first, some)
			}
			dispatch(pass, some, first*sample-before, first > 0, seen)
		}
	}
	none := Unused(true)
	sums := []graph.Buffer{work, buffers[1], Unused(false), Unused(false), mean, variance, none, none, none, none}
	if by == BatchStatistics {
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
		dispatch(passResults, n, 0, true, append([]graph.Buffer{work, Unused(false), Unused(false), Unused(false), mean, variance}, outs[:]...))
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

// BatchNorm lowers the forward pass.
func BatchNorm(l *graph.Lowering) {
	Channels(l, false, StatisticsOf(l.Node), 0, Reads(2))
}
