package kernels

import (
	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

const columnsAttrs = "dilations ints, pads ints, strides ints"

var _ = define(graph.Op{
	Name:  "Col2Im",
	Since: 18,
	Doc:   "images of which X has the columns: each element is the sum of what windows saw of it; any number of spatial dims",
	In:    "input, image_shape, block_shape",
	Out:   "output",
	Attrs: columnsAttrs,
	Known: []int{1, 2},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isNumber, "numbers")
		x, image := n.Inputs[0], knownDims(n, 1, "image_shape")
		if x.Rank() != 3 {
			n.Fail("the input must be [N, C·block, L], but is %s", x.Shape)
		}
		w := columnsWindow(n, len(image))
		taps := graph.Num(int64(index.Elems(w.kernel)))
		if m := x.Shape[1].Mod(taps); !m.Is(0) {
			n.Fail("%s channels are not a multiple of the block's %s elements", x.Shape[1], taps)
		}
		shape := append(graph.Shape{x.Shape[0], x.Shape[1].FloorDiv(taps)}, image...)
		n.Same(x.Shape[2], w.shape(n, shape, graph.Num(1))[2:].Elems(), "columns and places of the block")
		n.Set(0, x.Type, shape)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op(own+".Im2Col", convCopy(n), dy[0], n.Inputs[1], n.Inputs[2]), nil, nil}
	},
	Eval: func(c *graph.Call) { columnsOf(c, c.Out[0]).sum(c.In[0], c.Out[0], f32.Serial) },
	Fast: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		if x.Type != graph.Float32 {
			columnsOf(c, y).sum(x, y, c.Parallel)
			return
		}
		columnsOf(c, y).sum32(x.F32(), y.F32(), c.Parallel)
	},
	Lower:     func(l *graph.Lowering) { lowerColumns(l, l.Out[0].Shape, true) },
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems() },
	Tests:     graph.Tests{Work: eachIn(0, 1), NoScalars: true, Pieces: []string{"f32[20,32,42], i64{7,8}, i64{2,2}"}},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,12,4], i64{3,3}, i64{2,2}",
		"f32[1,12,12], i64{5,6}, i64{2,3}; dilations=[1, 2] pads=[1, 0, 2, 1] strides=[2, 1]",
		"f32[2,6,5], i64{7}, i64{3}",
		"f32[1,16,8], i64{3,3,3}, i64{2,2,2}",
		"f32[1,16,16], i64{3,3,3,3}, i64{2,2,2,2}",
		"f32[1,2,4], i64{4,4}, i64{1,1}; strides=[2, 2]",
		"f16[2,4,9], i64{4,4}, i64{2,2}",
		"i32[1,4,4], i64{3,3}, i64{2,2}",
		"f32[0,4,4], i64{3,3}, i64{2,2}",
	},
})

var _ = define(graph.Op{
	Name:   "Im2Col",
	Domain: own,
	Doc:    "the columns of images: for each channel and tap of a window, what it sees at each place, 0 in the padding",
	In:     "X, image_shape, block_shape",
	Out:    "Y",
	Attrs:  columnsAttrs,
	Known:  []int{1, 2},
	Infer: func(n *graph.Node) {
		x, image := n.Inputs[0], knownDims(n, 1, "image_shape")
		if x.Rank() != 2+len(image) {
			n.Fail("X must have %d spatial dims, but is %s", len(image), x.Shape)
		}
		sameDims(n, x.Shape[2:], image)
		w := columnsWindow(n, len(image))
		n.Set(0, x.Type, graph.Shape{x.Shape[0], x.Shape[1].Mul(graph.Num(int64(index.Elems(w.kernel)))), w.shape(n, x.Shape, graph.Num(1))[2:].Elems()})
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return []*graph.Value{b.Op("Col2Im", convCopy(n), dy[0], n.Inputs[1], n.Inputs[2]), nil, nil}
	},
	Eval:      func(c *graph.Call) { columnsOf(c, c.In[0]).spread(c.In[0], c.Out[0], f32.Serial) },
	Fast:      func(c *graph.Call) { columnsOf(c, c.In[0]).spread(c.In[0], c.Out[0], c.Parallel) },
	Lower:     func(l *graph.Lowering) { lowerColumns(l, l.In[0].Shape, false) },
	Flops:     noFlops,
	Tests:     graph.Tests{Work: noWork, NoScalars: true, Pieces: []string{"f32[20,8,7,8], i64{7,8}, i64{2,2}"}},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,3,3], i64{3,3}, i64{2,2}",
		"f32[1,2,5,6], i64{5,6}, i64{2,3}; dilations=[1, 2] pads=[1, 0, 2, 1] strides=[2, 1]",
		"f32[2,2,7], i64{7}, i64{3}",
		"f32[1,2,3,3,3], i64{3,3,3}, i64{2,2,2}",
		"f32[1,1,3,3,3,3], i64{3,3,3,3}, i64{2,2,2,2}",
		"f16[2,1,4,4], i64{4,4}, i64{2,2}",
		"u8[1,1,3,3], i64{3,3}, i64{2,2}",
		"f32[0,1,3,3], i64{3,3}, i64{2,2}",
	},
})

// columnsWindow is the window of a node with so many spatial dims.
func columnsWindow(n *graph.Node, rank int) window {
	block := knownInts(n, 2, "block_shape")
	if rank < 1 || len(block) != rank {
		n.Fail("image_shape has %d dims, but block_shape %d", rank, len(block))
	}
	taps, kernel := int64(1), make([]int, rank)
	for i, k := range block {
		if k < 1 || k > 1<<31 || k > 1<<31/taps {
			n.Fail("block_shape is %d", block)
		}
		taps, kernel[i] = taps*k, int(k)
	}
	return newWindow(n, kernel)
}

// columns connects images, each channel one, with their columns.
type columns struct {
	window
	images  int
	in, out []int // sizes of the spatial axes: of an image, and places of the window
}

// columnsOf is the geometry of a call with the given images.
func columnsOf(c *graph.Call, images *graph.Tensor) columns {
	return newColumns(c.Node, images.Shape)
}

func newColumns(n *graph.Node, images []int) columns {
	size := images[2:]
	w := columnsWindow(n, len(size))
	c := columns{window: w, images: images[0] * images[1], in: size}
	for i, in := range size {
		places, _ := w.results(i, graph.Num(int64(in))).Const()
		c.out = append(c.out, int(places))
	}
	return c
}

// lines calls f for the lines of each tap's column: n elements from element column on are
// those of the image from element at on, step apart. What taps see of the padding is left
// out.
func (c *columns) lines(f func(column, at, n, step int)) {
	last := len(c.in) - 1
	width, step := c.out[last], c.strides[last]
	lead := index.Elems(c.out[:last])
	for tap := range index.Elems(c.kernel) {
		first := tap%c.kernel[last]*c.dilations[last] - c.pads[last]
		lo := index.CeilDiv(max(0, -first), step)
		n := min(width, index.CeilDiv(max(0, c.in[last]-first), step)) - lo
		if n <= 0 {
			continue
		}
		for line := range lead {
			at, stride, inside := first+lo*step, c.in[last], true
			for a, k, o := last-1, tap/c.kernel[last], line; a >= 0; a-- {
				p := o%c.out[a]*c.strides[a] + k%c.kernel[a]*c.dilations[a] - c.pads[a]
				inside = inside && p >= 0 && p < c.in[a]
				at, stride = at+p*stride, stride*c.in[a]
				k, o = k/c.kernel[a], o/c.out[a]
			}
			if inside {
				f((tap*lead+line)*width+lo, at, n, step)
			}
		}
	}
}

// sizes are the elements of an image and of its columns.
func (c *columns) sizes() (image, all int) {
	return index.Elems(c.in), index.Elems(c.kernel) * index.Elems(c.out)
}

func (c *columns) each(par f32.Parallel, f func(image int)) {
	_, all := c.sizes()
	par(c.images, 1+f32.Grain/4/max(1, all), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}

// sum adds up columns of any type.
func (c columns) sum(x, y *graph.Tensor, par f32.Parallel) {
	size, all := c.sizes()
	c.each(par, func(image int) {
		floats, ints := make([]float64, size), make([]int64, size)
		c.lines(func(column, at, n, step int) {
			column += image * all
			for k := range n {
				if x.Type.IsReal() {
					floats[at+k*step] += x.Float(column + k)
				} else {
					ints[at+k*step] += x.Int(column + k)
				}
			}
		})
		for i := range size {
			if x.Type.IsReal() {
				y.SetFloat(image*size+i, floats[i])
			} else {
				y.SetInt(image*size+i, ints[i])
			}
		}
	})
}

func (c columns) sum32(x, y []float32, par f32.Parallel) {
	size, all := c.sizes()
	c.each(par, func(image int) {
		x, y := x[image*all:][:all], y[image*size:][:size]
		clear(y)
		c.lines(func(column, at, n, step int) {
			for k, v := range x[column : column+n] {
				y[at+k*step] += v
			}
		})
	})
}

// spread copies elements to columns.
func (c columns) spread(x, y *graph.Tensor, par f32.Parallel) {
	size, all := c.sizes()
	bytes := int(x.Type.Size())
	c.each(par, func(image int) {
		x, y := x.Bytes[image*size*bytes:][:size*bytes], y.Bytes[image*all*bytes:][:all*bytes]
		clear(y)
		c.lines(func(column, at, n, step int) {
			if step == 1 {
				copy(y[column*bytes:], x[at*bytes:(at+n)*bytes])
				return
			}
			for k := range n {
				from := (at + k*step) * bytes
				copy(y[(column+k)*bytes:], x[from:from+bytes])
			}
		})
	})
}

var columnsKernel = lower.Halved(lower.Shader("columns", "columns.comp"))

// lowerColumns sums columns to images, or spreads images to columns.
func lowerColumns(l *graph.Lowering, images []int, sums bool) {
	if !lower.OnlyF32AndInts(l) || !lower.MustFit(l, images[2:], 3) {
		return
	}
	c := newColumns(l.Node, images)
	size, all := c.sizes()
	if l.Out[0].Len() == 0 {
		return
	}
	if l.In[0].Len() == 0 {
		lower.Fill(l, 0, 0)
		return
	}
	from, to, each := size, all, all
	if sums {
		from, to, each = all, size, size
	}
	var axes []uint32
	for _, d := range [][]int{c.in, c.out, c.window.kernel, c.window.strides, c.dilations} {
		axes = append(axes, lower.Words(l, index.Padded(3, d, 1)...)...)
	}
	axes = append(axes, lower.Words(l, index.Padded(3, c.pads[:len(c.in)], 0)...)...)
	some := lower.SamplesAtOnce(l, c.images, size, all)
	for first := 0; first < c.images; first += some {
		n := min(some, c.images-first)
		y, beforeY := lower.SamplesOf(l, lower.Writes(0), c.images, to, first, n)
		x, beforeX := lower.SamplesOf(l, lower.Reads(0), c.images, from, first, n)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel: columnsKernel, Spec: []uint32{lower.OneIf(sums)}, Push: append(lower.Words(l, n, first*to-beforeY, first*from-beforeX), axes...),
			Buffers: []graph.Buffer{y, x}, Groups: lower.InLine(l, index.CeilDiv(n*each, 64)),
		})
	}
}
