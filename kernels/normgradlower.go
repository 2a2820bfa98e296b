package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// On devices with shared memory the gradient of a normalization reads x and dy once, where a row fits into the
// registers of a subgroup: normgrad.comp. Elsewhere, and with wider rows, norm.comp's passes read them twice.

var normGradKernel = lower.Halved(lower.Shader("normgrad", "normgrad.comp"))

// normGradLines is the subgroups of a workgroup, normGradFours the most fours of a row that a lane has in registers: of x, of dy,
// of the scale and of two sums.
const normGradLines, normGradFours = 8, 8

// atOnce appends the gradient as one pass over the rows and one over the sums of parts, and reports whether it did.
func (w loweredNorm) atOnce(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) bool {
	lanes := l.Limits.Subgroup
	local, fours := lanes*normGradLines, index.CeilDiv(r.width/4, lanes)
	parts := normParts(r.rows)
	if !l.Limits.Shared || !r.wide() || fours > normGradFours || max(int64(4*r.rows*r.width), r.work()) > l.Limits.Range ||
		!lower.Fits(local, l.Limits.Invocations) || !lower.Fits(2*16*fours*lanes, l.Limits.SharedBytes) ||
		max(parts, index.CeilDiv(r.width, lanes)) > l.Limits.Groups[0] {
		return false
	}
	given := func(wanted bool, b graph.Buffer) graph.Buffer {
		if !wanted {
			return lower.Unused(b.Writes)
		}
		return b
	}
	back := lower.Out(l, 0) != nil
	scaled, biased := w.dscale >= 0 && lower.Out(l, w.dscale) != nil, w.dbias >= 0 && lower.Out(l, w.dbias) != nil
	kept := w.keptInv >= 0
	dispatch := func(pass uint32, groups int, y, x, scale, dy, work, dbias graph.Buffer) {
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: normGradKernel,
			Spec:   []uint32{uint32(local), uint32(lanes), pass, lower.OneIf(w.centred), uint32(fours), lower.OneIf(kept), lower.OneIf(back), lower.OneIf(scaled), lower.OneIf(biased)},
			Push:   append(lower.Words(l, r.rows, r.width, parts), lower.Bits(r.eps)),
			Buffers: []graph.Buffer{y, x, scale, dy, work, dbias,
				given(kept && w.centred && pass == 0, mean), given(kept && pass == 0, lower.Reads(max(0, w.keptInv)))},
			Groups: [3]int{groups, 1, 1},
		})
	}
	sums := scaled || biased
	dispatch(0, parts, given(back, lower.Writes(0)), x, lower.Reads(w.scale), lower.Reads(w.dy), given(sums, lower.Scratch(0, r.work(), true)), lower.Unused(true))
	if sums {
		none := lower.Unused(false)
		dispatch(1, index.CeilDiv(r.width, lanes), given(scaled, lower.Writes(max(0, w.dscale))), none, none, none, lower.Scratch(0, r.work(), true), given(biased, lower.Writes(max(0, w.dbias))))
	}
	return true
}
