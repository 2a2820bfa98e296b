package kernels

import (
	"slices"

	"memopt/memopt/graph"
)

var gridKernel = shader("gridsample", "gridsample.comp")

// The passes of the kernel.
const (
	gridSamples, gridSlopes, gridTake, gridClear, gridChain, gridAdd = 0, 1, 2, 3, 4, 5
)

// maxGridTaps is the most words of work space that the taps of some items take, unless
// one item has more.
const maxGridTaps = 1 << 23

// loweredGrid is a sampling as the kernel sees it.
type loweredGrid struct {
	l *graph.Lowering
	sampler
}

func newLoweredGrid(l *graph.Lowering, at int) (g loweredGrid, ok bool) {
	if !onlyF32(l) {
		return g, false
	}
	g = loweredGrid{l, newSampler(loweredCall(l), at)}
	return g, mustFit(l, g.size, 3)
}

// pass runs some items; groups is how many, of local invocations each.
func (g loweredGrid) pass(n uint32, first, items, local, groups, owners int, buffers ...graph.Buffer) {
	push := words(g.l, append([]int{first, items, g.channels, g.points}, frontFilled(3, g.size, 1)...)...)
	g.l.Dispatches = append(g.l.Dispatches, graph.Dispatch{
		Kernel: gridKernel,
		Spec: []uint32{uint32(local), n, uint32(len(g.size)), uint32(slices.Index(gridModes, g.mode)),
			uint32(slices.Index(gridPadding, g.padding)), oneIf(g.corners)},
		Push: append(push, words(g.l, owners)...), Buffers: buffers, Groups: inLine(g.l, groups),
	})
}

const gridLocal = 64

func lowerGridSample(l *graph.Lowering) {
	g, ok := newLoweredGrid(l, 0)
	if n := l.Out[0].Len(); ok && n > 0 {
		if l.In[0].Len() == 0 {
			lowerFill(l, 0, 0)
			return
		}
		g.pass(gridSamples, 0, g.items, gridLocal, ceilDiv(n, gridLocal), 0,
			writes(0), unused(false), reads(0), reads(1), unused(true), unused(true))
	}
}

func lowerGridSampleGrad(l *graph.Lowering) {
	g, ok := newLoweredGrid(l, 1)
	if !ok {
		return
	}
	if dgrid := loweredOut(l, 1); dgrid != nil && dgrid.Len() > 0 {
		if l.In[1].Len() == 0 {
			lowerFill(l, 1, 0)
		} else {
			g.pass(gridSlopes, 0, g.items, gridLocal, ceilDiv(dgrid.Len(), gridLocal), 0,
				writes(1), reads(0), reads(1), reads(2), unused(true), unused(true))
		}
	}
	dx := loweredOut(l, 0)
	if dx == nil || dx.Len() == 0 {
		return
	}
	taps := g.points
	for range g.size {
		taps *= gridTaps[g.mode]
	}
	if taps == 0 {
		lowerFill(l, 0, 0)
		return
	}
	each := g.plane + 2*taps
	chunk := max(1, min(g.items, maxGridTaps/(each+taps)))
	links, weights := aligned(int64(4*each*chunk)), aligned(int64(4*taps*chunk))
	l.Scratch = links + weights
	work := func(written bool) graph.Buffer { return scratch(0, links, written) }
	heavy := func(written bool) graph.Buffer { return scratch(links, weights, written) }
	owners := l.Limits.Subgroup
	if l.Limits.Shared {
		owners = chainOwners
	}
	owners = ceilDiv(owners, l.Limits.Subgroup) * l.Limits.Subgroup
	none := unused(false)
	for first := 0; first < g.items; first += chunk {
		items := min(chunk, g.items-first)
		some := func(n int) int { return ceilDiv(items*n, gridLocal) }
		g.pass(gridTake, first, items, gridLocal, some(g.points), 0, unused(true), none, none, reads(2), work(true), heavy(true))
		g.pass(gridClear, first, items, gridLocal, some(g.plane), 0, unused(true), none, none, none, work(true), unused(true))
		g.pass(gridChain, first, items, l.Limits.Subgroup, items*owners/l.Limits.Subgroup, owners, unused(true), none, none, none, work(true), unused(true))
		g.pass(gridAdd, first, items, gridLocal, some(g.channels*g.plane), 0, writes(0), reads(0), none, none, unwritten(work(true)), unwritten(heavy(true)))
	}
}
