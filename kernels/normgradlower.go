package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// On devices with shared memory the gradient of a normalization reads x and dy once, where a row fits into the
// registers of a team: normgrad.comp. Wider rows, and those whose scale is spread
// over runs of elements, are read once or twice by normback.comp. Elsewhere norm.comp's passes read them more often.

var (
	normGradKernel = lower.WideTeamShader("normgrad", "normgrad.comp")
	normBackKernel = lower.TeamShader("normback", "normback.comp")
)

// normGradFours is the most fours of a row that an invocation has in registers: of x, of dy, of the scale and of two sums.
const normGradFours = 8

// onePass appends the gradient as one pass over the rows and one over the sums of parts, and reports whether it did.
func (w loweredNorm) onePass(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) bool {
	t, ok := lower.PlainTeam(l, r.width, 1, 1, true)
	parts := r.parts()
	if !ok || !r.wide() || t.Rest || t.Held > normGradFours || t.Local > lower.SmallTeam || max(int64(4*r.rows*r.width), r.work()) > l.Limits.Range ||
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

// The passes of normback.comp.
const (
	backRows, backSums, backStats, backDots = 0, 1, 2, 3
)

// rowBack is the gradient by normback.comp.
type rowBack struct {
	w       loweredNorm
	l       *graph.Lowering
	r       loweredRows
	t       lower.Team
	x, mean graph.Buffer
}

// rowBack reports whether rows are read by teams, one after another.
func (w loweredNorm) rowBack(l *graph.Lowering, r loweredRows, x, mean graph.Buffer) (b rowBack, ok bool) {
	const operands = 2 // that are kept: x and dy
	if lower.Out(l, 0) == nil || max(int64(4*r.rows*r.width), r.work()) > l.Limits.Range {
		return b, false
	}
	t, ok := lower.TeamOf(l, "norm gradient", r.rows, r.width, 1, operands, !r.spread() || r.run%4 == 0)
	if t.Rest {
		t = t.WithoutRegisters(l, r.width, operands)
	}
	return rowBack{w, l, r, t, x, mean}, ok
}

// pass appends a pass with what it writes besides work space; sums are wanted of dy and of its products with x, or of one.
func (b rowBack) pass(number uint32, y, dbias graph.Buffer, scaled, biased bool) {
	l, r, w, none := b.l, b.r, b.w, lower.Unused(false)
	t, groups, kept := b.t, b.t.Groups(l, r.rows), w.keptInv >= 0
	buffers := []graph.Buffer{y, b.x, lower.Reads(w.scale), lower.Reads(w.dy), lower.Unused(true), dbias, none, none}
	if number != backRows || r.spread() && (scaled || biased) {
		buffers[4] = lower.Scratch(0, r.work(), true)
	}
	switch number {
	case backSums:
		t = t.Alone()
		groups = t.Groups(l, r.cycle*r.each)
		buffers[1], buffers[2], buffers[3] = none, none, none
	case backStats:
		t.Stored = 0 // nothing comes back to them
		buffers[2], buffers[3] = none, none
	default:
		if number == backDots {
			t.Stored = 0 // nothing comes back to them
		}
		if scaled = scaled || biased; kept {
			if buffers[7] = lower.Reads(w.keptInv); w.centred {
				buffers[6] = b.mean
			}
		}
	}
	push := append(lower.Words(l, r.rows, r.width/t.Wide), lower.Bits(r.eps))
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel:  t.Of(normBackKernel),
		Spec:    t.Spec(number, lower.OneIf(w.centred), lower.OneIf(kept), lower.OneIf(r.spread()), lower.OneIf(scaled), lower.OneIf(biased)),
		Push:    append(push, lower.Words(l, r.cycle, r.each, r.run, 2*r.rows+2*r.parts()*r.width)...),
		Buffers: buffers, Groups: groups,
	})
}
