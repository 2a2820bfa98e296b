package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// On devices with shared memory the gradient of a normalization reads x and dy once, where a row fits into the
// registers of a team: normgrad.comp. Elsewhere, and with wider rows, norm.comp's passes read them twice.

var normGradKernel = lower.WideTeamShader("normgrad", "normgrad.comp")

// normGradFours is the most fours of a row that an invocation has in registers: of x, of dy, of the scale and of two sums.
const normGradFours = 8

// onePass appends the gradient as one pass over the rows and one over the sums of parts, and reports whether it did.
func (w loweredNorm) onePass(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) bool {
	t, ok := lower.TeamOf(l, r.width, 1, 1, true)
	parts := normParts(r.rows)
	if !ok || !r.wide() || t.Held == 0 || t.Held > normGradFours || t.Local > lower.SmallTeam || max(int64(4*r.rows*r.width), r.work()) > l.Limits.Range ||
		!lower.Fits(2*16*t.Held*t.Lanes+8*t.Local/t.Lanes, l.Limits.SharedBytes) ||
		max(parts, index.CeilDiv(r.width, t.Lanes)) > l.Limits.Groups[0] {
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
			Spec:   t.Spec(pass, lower.OneIf(w.centred), lower.OneIf(kept), lower.OneIf(back), lower.OneIf(scaled), lower.OneIf(biased)),
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
		dispatch(1, index.CeilDiv(r.width, t.Lanes), given(scaled, lower.Writes(max(0, w.dscale))), none, none, none, lower.Scratch(0, r.work(), true), given(biased, lower.Writes(max(0, w.dbias))))
	}
	return true
}
