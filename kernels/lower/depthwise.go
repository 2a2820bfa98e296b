package lower

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
)

var depthwiseKernel = Halved(Shader("depthwise", "depthwise.comp"))

// depthwiseTaps is the most taps of an axis that depthwise.comp supports.
const depthwiseTaps = 7

// standsAlone reports whether this is a depthwise convolution that depthwise.comp supports.
func (c *Convolution) standsAlone() bool {
	return c.flat() && c.Inner == 1 && c.Outer == 1 && c.Group > 1 && max(c.Kernel[1], c.Kernel[2]) <= depthwiseTaps
}

// appendDepthwise computes one side of a depthwise convolution.
func (c *Convolution) appendDepthwise(l *graph.Lowering, side uint32, out int, a, b graph.Buffer, bias int) {
	if side == ConvFilters {
		c.appendDepthwiseFilters(l, out, a, b)
		return
	}
	c.bySamples(l, side, out, a, b, bias, func(n int, buffers []graph.Buffer) {
		d := depthwise{c: c, l: l, samples: n, buffers: buffers, biased: bias >= 0}
		d.side(side)
	})
}

// filterBytes is the most bytes of x or y that one dispatch sums the filters' gradient over.
// Larger batches take several dispatches that accumulate. The split depends on shapes
// alone, not on the descriptor range, so sums have the same bits on all devices.
const filterBytes = 8 << 20

// appendDepthwiseFilters sums over some samples at a time, in multiples that let each part
// begin at an offset where buffers can be bound.
func (c *Convolution) appendDepthwiseFilters(l *graph.Lowering, out int, a, b graph.Buffer) {
	sizes, step, most := [2]int{c.Group * f32.Volume(c.In), c.Group * f32.Volume(c.Out)}, 1, c.N
	for _, size := range sizes {
		step = max(step, PieceStep/int(gcd(int64(size), PieceStep)))
		most = min(most, filterBytes/4/max(1, size))
	}
	each := max(1, most/step) * step
	for first := 0; first < max(1, c.N); first += each {
		d := depthwise{c: c, l: l, samples: min(each, c.N-first), buffers: []graph.Buffer{Writes(out), a, b, Unused(false)}, filters: true}
		if each < c.N {
			for i, size := range sizes {
				x := &d.buffers[1+i]
				x.At, x.Bytes = x.At+int64(4*first*size), int64(4*d.samples*size)
			}
		}
		if d.goesOn = first > 0; d.goesOn {
			d.buffers[3] = Rereads(out)
		}
		d.side(ConvFilters)
	}
}

// side computes one side.
func (d *depthwise) side(side uint32) {
	c, y := d.c, d.c.Out[2]
	switch side {
	case ConvOut, ConvFilters:
		d.append([2]int(c.In[1:]), [2]int(c.Out[1:]), c.axis(1), c.axis(2), [4]int{0, y, 1, f32.Volume(c.Out)}, [3]int{0, c.Kernel[2], 1})
	case ConvIn:
		for py := range c.Stride[1] {
			for px := range c.Stride[2] {
				rows, ky, nextY, down := c.phaseTaps(1, py)
				columns, kx, nextX, across := c.phaseTaps(2, px)
				d.append([2]int(c.Out[1:]), [2]int{rows, columns}, down, across,
					[4]int{py*c.In[2] + px, c.Stride[1] * c.In[2], c.Stride[2], f32.Volume(c.In)}, [3]int{ky*c.Kernel[2] + kx, nextY * c.Kernel[2], nextX})
			}
		}
	}
}

type depthwise struct {
	c               *Convolution
	l               *graph.Lowering
	samples         int
	buffers         []graph.Buffer // result, image, filters (or places, for the filters' gradient), bias
	filters, biased bool
	goesOn          bool // accumulate into the filters' gradient
}

// append appends a dispatch for places that read an image of a size by the taps down and
// across. at and filters hold the offset of the first place and tap, and their strides.
func (d *depthwise) append(size, places [2]int, down, across axisTaps, at [4]int, filters [3]int) {
	groups := d.c.Group
	if !d.filters {
		groups *= d.samples
	}
	if groups == 0 {
		return
	}
	spec := []uint32{uint32(d.l.Limits.Subgroup), OneIf(d.filters) + OneIf(d.goesOn), OneIf(d.biased)}
	for _, v := range []int{down.n, across.n, down.step, across.step, down.dilation, across.dilation} {
		spec = append(spec, uint32(int32(v)))
	}
	push := Words(d.l, groups, d.samples, d.c.Group, size[0], size[1], places[0], places[1])
	push = append(push, uint32(int32(down.shift)), uint32(int32(across.shift)))
	push = append(push, Words(d.l, at[0], at[1], at[2], at[3], filters[0], filters[1], filters[2], f32.Volume(d.c.Kernel))...)
	d.l.Dispatches = append(d.l.Dispatches, graph.Dispatch{
		Kernel: depthwiseKernel, Spec: spec, Push: push, Buffers: d.buffers, Groups: InLine(d.l, groups),
	})
}
