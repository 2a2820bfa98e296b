package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

var dropoutKernel = lower.Halved(lower.Shader("dropout", "dropout.comp"))

// loweredDropout holds the input numbers of a dropout's operands; −1 if there is none.
type loweredDropout struct {
	ratio, mode          int
	bias, residual, mask int
	bits                 bool // the mask has bits, else bools
	always               bool // always in training
}

var (
	drawnMask          = loweredDropout{ratio: 1, mode: 2, bias: -1, residual: -1, mask: -1}
	drawnBits          = loweredDropout{ratio: 1, mode: 2, bias: -1, residual: -1, mask: -1, bits: true}
	drawnBiasMask      = loweredDropout{ratio: 3, mode: 4, bias: 1, residual: 2, mask: -1}
	drawnBiasBits      = loweredDropout{ratio: 3, mode: 4, bias: 1, residual: 2, mask: -1, bits: true}
	readMask           = loweredDropout{ratio: 2, mode: 3, bias: -1, residual: -1, mask: 1}
	readBits           = loweredDropout{ratio: 2, mode: 3, bias: -1, residual: -1, mask: 1, bits: true}
	lowerDropout       = drawnMask.lower
	loweredSumMaskForm = map[[2]bool]loweredDropout{{false, false}: drawnMask, {true, false}: drawnBits, {false, true}: drawnBiasMask, {true, true}: drawnBiasBits}
)

func (d loweredDropout) lower(l *graph.Lowering) { d.carry(l, lower.Reads(0), lower.Writes(0)) }

// carry lowers a dropout from one buffer to another.
func (d loweredDropout) carry(l *graph.Lowering, from, to graph.Buffer) {
	x, y := l.In[0], l.Out[0]
	if !l.Limits.Int8 {
		l.Refuse("the device has no bytes in buffers")
		return
	}
	for _, i := range []int{0, d.ratio, d.bias, d.residual} {
		if i >= 0 && lower.In(l, i) != nil && l.In[i].Type != graph.Float32 {
			l.Refuse("input %d is %s; there is a kernel for f32", i, l.In[i].Type)
			return
		}
	}
	if y.Len() == 0 {
		return
	}
	width := 1
	if d.bias >= 0 {
		b, last := l.In[d.bias], len(x.Shape)-1
		width = b.Len()
		if last < 0 || width != x.Shape[last] {
			l.Refuse("the bias is not as long as the last dim")
			return
		}
	}
	optional := func(i int) (graph.Buffer, uint32) {
		if i < 0 || lower.In(l, i) == nil {
			return lower.Unused(false), 0
		}
		return lower.Reads(i), 1
	}
	ratio, hasRatio := optional(d.ratio)
	mode, hasMode := optional(d.mode)
	if d.always {
		hasMode = 2
	}
	bias, hasBias := optional(d.bias)
	residual, hasResidual := optional(d.residual)
	bools, bits, keptBools, keptBits := lower.Unused(true), lower.Unused(true), lower.Unused(false), lower.Unused(false)
	mask, source, blocks := uint32(0), uint32(0), 1
	switch {
	case d.mask >= 0 && d.bits:
		keptBits, source = lower.Reads(d.mask), 2
	case d.mask >= 0:
		keptBools, source = lower.Reads(d.mask), 1
	case lower.Out(l, 1) != nil && d.bits:
		bits, mask, blocks = lower.Writes(1), 2, 8
	case lower.Out(l, 1) != nil:
		bools, mask = lower.Writes(1), 1
	}
	who := uint64(0)
	if source == 0 {
		who = l.Node.Identity()
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: dropoutKernel, Spec: []uint32{hasRatio, hasMode, mask, source, hasBias, hasResidual, uint32(blocks)},
		Push:    append(lower.Words(l, y.Len()), uint32(who), uint32(who>>32), uint32(width)),
		Buffers: []graph.Buffer{to, from, ratio, mode, bools, bits, keptBools, keptBits, bias, residual, {Place: graph.PlaceRun}},
		Groups:  lower.InLine(l, index.CeilDiv(index.CeilDiv(y.Len(), 4*blocks), 256)),
	})
}
