package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
)

var convKernel = Halved(Shader("conv", "conv.comp"))

// Convolution lowers the three sides of a convolution of known geometry.
type Convolution struct{ f32.Convolution }

// The side of a convolution: which of the three tensors y, x and W is computed.
const (
	ConvOut, ConvIn, ConvFilters = 0, 1, 2
)

// convTile is the number of channels that an invocation computes.
const convTile = 16

// Append computes one side into output out: by the depthwise kernel, as matrix products if
// it is large (paysAsProducts), else by the direct kernel.
func (c *Convolution) Append(l *graph.Lowering, side uint32, out int, a, b graph.Buffer, bias int) {
	if l.Out[out].Len() == 0 {
		return
	}
	if c.standsAlone() {
		c.appendDepthwise(l, side, out, a, b, bias)
		return
	}
	// Where subgroups work alone, matrix units take the image's lines from work space.
	_, gathers := gathersCooperate(l, a, b)
	_, matrices := MatrixType(l, a, b)
	direct := l.Limits.Shared && (!matrices || gathers)
	if direct && c.paysAsProducts() && c.appendImplicit(l, side, out, a, b, bias) {
		return
	}
	if !direct && c.paysAsProducts() {
		switch side {
		case ConvOut:
			c.productOut(l, out, a, b, bias)
		case ConvIn:
			c.productIn(l, out, a, b, bias)
		case ConvFilters:
			c.productFilters(l, out, a, b)
		}
		return
	}
	places, channels := f32.Volume(c.Out), c.Outer
	switch side {
	case ConvIn:
		places, channels = f32.Volume(c.In), c.Inner
	case ConvFilters:
		places = c.Inner * f32.Volume(c.Kernel)
	}
	local := 64
	for local > 8 && local/2 >= places {
		local /= 2
	}
	groups := index.CeilDiv(places, local) * index.CeilDiv(channels, convTile) * c.Group
	begun := false
	c.bySamples(l, side, out, a, b, bias, func(n int, buffers []graph.Buffer) {
		all := groups
		if side != ConvFilters {
			all *= n
		} else if begun {
			buffers[3] = Rereads(out) // accumulate
		}
		push := append(Words(l, n, c.Group, c.Inner, c.Outer), Triples(c.In, c.Out, c.Kernel, c.Stride, c.Dilation, c.Pad)...)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: convKernel, Spec: []uint32{uint32(local), side, OneIf(bias >= 0 || side == ConvFilters && begun), OneIf(c.Stride != f32.Ones)}, Push: push,
			Buffers: buffers, Groups: InLine(l, all),
		})
		begun = true
	})
}

// bySamples calls f for as many samples at a time as fit the descriptor range, with the
// buffers of the result, a, b and the bias.
func (c *Convolution) bySamples(l *graph.Lowering, side uint32, out int, a, b graph.Buffer, bias int, f func(n int, buffers []graph.Buffer)) {
	x, y := int64(4*c.Group*c.Inner*f32.Volume(c.In)), int64(4*c.Group*c.Outer*f32.Volume(c.Out))
	bytes := [][]int64{ConvOut: {y, x, 0, 0}, ConvIn: {x, y, 0, 0}, ConvFilters: {0, x, y, 0}}[side]
	added := Unused(false)
	if bias >= 0 {
		added = Reads(bias)
	}
	InPieces(l, c.N, []graph.Buffer{Writes(out), a, b, added}, bytes, f)
}

// OnlyF32AndInts refuses a node with operands of other types than f32 and i64.
func OnlyF32AndInts(l *graph.Lowering) bool {
	for _, o := range append(l.In, l.Out...) {
		if o != nil && o.Type != graph.Float32 && o.Type != graph.Int64 {
			l.Refuse("an operand is %s; there is a kernel for f32", o.Type)
			return false
		}
	}
	return true
}
