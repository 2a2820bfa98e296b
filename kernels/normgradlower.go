package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

// On devices with shared memory the gradient of a normalization reads x and dy once, where a row fits into the
// registers of a subgroup: normgrad.comp. Elsewhere, and with wider rows, norm.comp's passes read them twice.

var normGradKernel = halved(shader("normgrad", "normgrad.comp"))

// normGradLines is the subgroups of a workgroup, normGradFours the most fours of a row that a lane has in registers: of x, of dy,
// of the scale and of two sums.
const normGradLines, normGradFours = 8, 8

// atOnce appends the gradient as one pass over the rows and one over the sums of parts, and reports whether it did.
func (w loweredNorm) atOnce(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) bool {
	lanes := l.Limits.Subgroup
	local, fours := lanes*normGradLines, index.CeilDiv(r.width/4, lanes)
	parts := normParts(r.rows)
	if !l.Limits.Shared || !r.wide() || fours > normGradFours || max(int64(4*r.rows*r.width), r.work()) > l.Limits.Range ||
		!fits(local, l.Limits.Invocations) || !fits(2*16*fours*lanes, l.Limits.SharedBytes) ||
		max(parts, index.CeilDiv(r.width, lanes)) > l.Limits.Groups[0] {
		return false
	}
	given := func(wanted bool, b graph.Buffer) graph.Buffer {
		if !wanted {
			return unused(b.Writes)
		}
		return b
	}
	back := loweredOut(l, 0) != nil
	scaled, biased := w.dscale >= 0 && loweredOut(l, w.dscale) != nil, w.dbias >= 0 && loweredOut(l, w.dbias) != nil
	kept := w.keptInv >= 0
	dispatch := func(pass uint32, groups int, y, x, scale, dy, work, dbias graph.Buffer) {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: normGradKernel,
			Spec:   []uint32{uint32(local), uint32(lanes), pass, oneIf(w.centred), uint32(fours), oneIf(kept), oneIf(back), oneIf(scaled), oneIf(biased)},
			Push:   append(words(l, r.rows, r.width, parts), bits(r.eps)),
			Buffers: []graph.Buffer{y, x, scale, dy, work, dbias,
				given(kept && w.centred && pass == 0, mean), given(kept && pass == 0, reads(max(0, w.keptInv)))},
			Groups: [3]int{groups, 1, 1},
		})
	}
	sums := scaled || biased
	dispatch(0, parts, given(back, writes(0)), x, reads(w.scale), reads(w.dy), given(sums, scratch(0, r.work(), true)), unused(true))
	if sums {
		none := unused(false)
		dispatch(1, index.CeilDiv(r.width, lanes), given(scaled, writes(max(0, w.dscale))), none, none, none, scratch(0, r.work(), true), given(biased, writes(max(0, w.dbias))))
	}
	return true
}
