package kernels

import (
	"memopt/kernels/internal/f32"
	"memopt/memopt/graph"
)

var (
	convKernel  = halved(shader("conv", "conv.comp"))
	rangeKernel = shader("range", "range.comp")
)

// The sides of the kernel: which of the three tensors it computes.
const (
	convOut, convIn, convFilters = 0, 1, 2
)

// convTile is the channels that an invocation owns.
const convTile = 16

// append computes one side into output out: channels that stand alone by their own
// kernel, what is large by products, and the rest tap by tap.
func (c *convolution) append(l *graph.Lowering, side uint32, out int, a, b graph.Buffer, bias int) {
	if l.Out[out].Len() == 0 {
		return
	}
	if c.standsAlone() {
		c.appendDepthwise(l, side, out, a, b, bias)
		return
	}
	if c.paysAsProducts() {
		switch side {
		case convOut:
			c.productOut(l, out, a, b, bias)
		case convIn:
			c.productIn(l, out, a, b, bias)
		case convFilters:
			c.productFilters(l, out, a, b)
		}
		return
	}
	places, channels := f32.Volume(c.Out), c.Outer
	switch side {
	case convIn:
		places, channels = f32.Volume(c.In), c.Inner
	case convFilters:
		places = c.Inner * f32.Volume(c.Kernel)
	}
	local := 64
	for local > 8 && local/2 >= places {
		local /= 2
	}
	groups := ceilDiv(places, local) * ceilDiv(channels, convTile) * c.Group
	begun := false
	c.bySamples(l, side, out, a, b, bias, func(n int, buffers []graph.Buffer) {
		all := groups
		if side != convFilters {
			all *= n
		} else if begun {
			buffers[3] = rereads(out) // the sums go on from there
		}
		push := append(words(l, n, c.Group, c.Inner, c.Outer), triples(c.In, c.Out, c.Kernel, c.Stride, c.Dilation, c.Pad)...)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: convKernel, Spec: []uint32{uint32(local), side, oneIf(bias >= 0 || side == convFilters && begun), oneIf(c.Stride != f32.Ones)}, Push: push,
			Buffers: buffers, Groups: inLine(l, all),
		})
		begun = true
	})
}

// bySamples calls f for all samples, or for as many at a time as the device shows, with
// the buffers of the result, of a and b and of the bias.
func (c *convolution) bySamples(l *graph.Lowering, side uint32, out int, a, b graph.Buffer, bias int, f func(n int, buffers []graph.Buffer)) {
	x, y := int64(4*c.Group*c.Inner*f32.Volume(c.In)), int64(4*c.Group*c.Outer*f32.Volume(c.Out))
	bytes := [][]int64{convOut: {y, x, 0, 0}, convIn: {x, y, 0, 0}, convFilters: {0, x, y, 0}}[side]
	added := unused(false)
	if bias >= 0 {
		added = reads(bias)
	}
	inPieces(l, c.N, []graph.Buffer{writes(out), a, b, added}, bytes, f)
}

func onlyF32AndInts(l *graph.Lowering) bool {
	for _, o := range append(l.In, l.Out...) {
		if o != nil && o.Type != graph.Float32 && o.Type != graph.Int64 {
			l.Refuse("an operand is %s; there is a kernel for f32", o.Type)
			return false
		}
	}
	return true
}

func lowerConv(l *graph.Lowering) {
	if !onlyF32AndInts(l) {
		return
	}
	convOf(l.Node, l.In[0].Shape, l.In[1].Shape, l.Out[0].Shape).append(l, convOut, 0, reads(0), reads(1), presentIn(l, 2))
}

func lowerConvGradX(l *graph.Lowering) {
	if onlyF32AndInts(l) {
		convOf(l.Node, l.Out[0].Shape, l.In[1].Shape, l.In[0].Shape).append(l, convIn, 0, reads(0), reads(1), -1)
	}
}

func lowerConvGradW(l *graph.Lowering) {
	if onlyF32AndInts(l) {
		convOf(l.Node, l.In[1].Shape, l.Out[0].Shape, l.In[0].Shape).append(l, convFilters, 0, reads(1), reads(0), -1)
	}
}

// lowerConvTranspose is the side of x, from another input.
func lowerConvTranspose(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	transposeOf(loweredCall(l)).append(l, convIn, 0, reads(0), reads(1), presentIn(l, 2))
}

// lowerConvGrad has all sides at once, as far as they are wanted.
func lowerConvGrad(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	dy := l.In[0].Shape
	conv := convOf(l.Node, l.In[1].Shape, l.In[2].Shape, dy)
	if loweredOut(l, 0) != nil {
		conv.append(l, convIn, 0, reads(0), reads(2), -1)
	}
	if loweredOut(l, 1) != nil {
		conv.append(l, convFilters, 1, reads(1), reads(0), -1)
	}
	if loweredOut(l, 2) != nil {
		shape := []int{dy[0], dy[1], elems(dy[2:])}
		loweredReduction{fold: foldSum}.append(l, reads(0), shape, []int{0, 2}, writes(2))
	}
}

// lowerFusedConv is Conv, then the term and the activation in place.
func lowerFusedConv(l *graph.Lowering) {
	if !onlyF32(l) {
		return
	}
	convOf(convOnly(l.Node), l.In[0].Shape, l.In[1].Shape, l.Out[0].Shape).append(l, convOut, 0, reads(0), reads(1), presentIn(l, 2))
	if z := loweredIn(l, 3); z != nil {
		activationForm.append(l, plusTerm, l.Out[0], []*graph.Operand{l.Out[0], z}, []graph.Buffer{writes(0), rereads(0), reads(3)})
	}
	lowerActivation(l)
}

// lowerRange is one of known integers that 32 bits hold.
func lowerRange(l *graph.Lowering) {
	start, known := l.Ints(0)
	delta, also := l.Ints(2)
	n := l.Out[0].Len()
	if l.Out[0].Type != graph.Int64 || !known || !also {
		l.Refuse("there is a kernel for known integers")
		return
	}
	last := start[0] + int64(n)*delta[0]
	if n == 0 || start[0] != int64(int32(start[0])) || last != int64(int32(last)) || delta[0] != int64(int32(delta[0])) {
		if n > 0 {
			l.Refuse("its numbers do not fit into 32 bits")
		}
		return
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: rangeKernel, Push: append(words(l, n), uint32(start[0]), uint32(delta[0])), Buffers: []graph.Buffer{writes(0)}, Groups: inLine(l, ceilDiv(n, 256)),
	})
}
