package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/index"
)

var dropoutKernel = Halved(Shader("dropout", "dropout.comp"))

// Dropout holds the input numbers of a dropout's operands; −1 if there is none.
type Dropout struct {
	Ratio, Mode          int
	Bias, Residual, Mask int
	Bits                 bool // the mask has bits, else bools
	Always               bool // always in training
}

// The dropouts by where their mask comes from: drawn, with a bias or without, or read; as bools or as bits.
var (
	DrawnMask     = Dropout{Ratio: 1, Mode: 2, Bias: -1, Residual: -1, Mask: -1}
	DrawnBits     = Dropout{Ratio: 1, Mode: 2, Bias: -1, Residual: -1, Mask: -1, Bits: true}
	DrawnBiasMask = Dropout{Ratio: 3, Mode: 4, Bias: 1, Residual: 2, Mask: -1}
	DrawnBiasBits = Dropout{Ratio: 3, Mode: 4, Bias: 1, Residual: 2, Mask: -1, Bits: true}
	ReadMask      = Dropout{Ratio: 2, Mode: 3, Bias: -1, Residual: -1, Mask: 1}
	ReadBits      = Dropout{Ratio: 2, Mode: 3, Bias: -1, Residual: -1, Mask: 1, Bits: true}
	// DrawnForms is the drawn ones by whether they have bits and a bias.
	DrawnForms = map[[2]bool]Dropout{{false, false}: DrawnMask, {true, false}: DrawnBits, {false, true}: DrawnBiasMask, {true, true}: DrawnBiasBits}
)

// Lower lowers a dropout of input 0 to output 0.
func (d Dropout) Lower(l *graph.Lowering) { d.Carry(l, Reads(0), Writes(0)) }

// Carry lowers a dropout from one buffer to another.
func (d Dropout) Carry(l *graph.Lowering, from, to graph.Buffer) {
	x, y := l.In[0], l.Out[0]
	if !l.Limits.Int8 {
		l.Refuse("the device has no bytes in buffers")
		return
	}
	for _, i := range []int{0, d.Ratio, d.Bias, d.Residual} {
		if i >= 0 && In(l, i) != nil && l.In[i].Type != graph.Float32 {
			l.Refuse("input %d is %s; there is a kernel for f32", i, l.In[i].Type)
			return
		}
	}
	if y.Len() == 0 {
		return
	}
	width := 1
	if d.Bias >= 0 {
		b, last := l.In[d.Bias], len(x.Shape)-1
		width = b.Len()
		if last < 0 || width != x.Shape[last] {
			l.Refuse("the bias is not as long as the last dim")
			return
		}
	}
	optional := func(i int) (graph.Buffer, uint32) {
		if i < 0 || In(l, i) == nil {
			return Unused(false), 0
		}
		return Reads(i), 1
	}
	ratio, hasRatio := optional(d.Ratio)
	mode, hasMode := optional(d.Mode)
	if d.Always {
		hasMode = 2
	}
	bias, hasBias := optional(d.Bias)
	residual, hasResidual := optional(d.Residual)
	bools, bits, keptBools, keptBits := Unused(true), Unused(true), Unused(false), Unused(false)
	mask, source, blocks := uint32(0), uint32(0), 1
	switch {
	case d.Mask >= 0 && d.Bits:
		keptBits, source = Reads(d.Mask), 2
	case d.Mask >= 0:
		keptBools, source = Reads(d.Mask), 1
	case Out(l, 1) != nil && d.Bits:
		bits, mask, blocks = Writes(1), 2, 8
	case Out(l, 1) != nil:
		bools, mask = Writes(1), 1
	}
	who := uint64(0)
	if source == 0 {
		who = l.Node.Identity()
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: dropoutKernel, Spec: []uint32{hasRatio, hasMode, mask, source, hasBias, hasResidual, uint32(blocks)},
		Push:    append(Words(l, y.Len()), uint32(who), uint32(who>>32), uint32(width)),
		Buffers: []graph.Buffer{to, from, ratio, mode, bools, bits, keptBools, keptBits, bias, residual, {Place: graph.PlaceRun}},
		Groups:  InLine(l, index.CeilDiv(index.CeilDiv(y.Len(), 4*blocks), 256)),
	})
}
