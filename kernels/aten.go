package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// ATen is ONNX Runtime's call of a PyTorch function from a training graph. The
// attribute operator names the function; all its arguments, scalars and lists too,
// are inputs. Table atens holds the functions that are supported.
var _ = define(graph.Op{
	Name:   "ATen",
	Domain: "org.pytorch.aten",
	Doc:    "a function of PyTorch's: embedding, max_pool2d_with_indices, _adaptive_avg_pool2d and their gradients",
	In:     "args...?",
	Out:    "results...?",
	Attrs:  "operator string, overload_name string",
	Known:  []int{1, 2, 3, 4, 5},
	Infer: func(n *graph.Node) {
		f := atenOf(n)
		if len(n.Inputs) < f.args {
			n.Fail("%s takes at least %d arguments, but has %d", n.Str("operator"), f.args, len(n.Inputs))
		}
		for i, v := range n.Inputs[:f.args] {
			if v == nil {
				n.Fail("argument %d of %s is missing", i, n.Str("operator"))
			}
		}
		if len(n.Outputs) > f.results {
			n.Fail("%s returns at most %d results, but has %d", n.Str("operator"), f.results, len(n.Outputs))
		}
		f.infer(n)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		f := atenOf(n)
		if f.grad == "" {
			n.Fail("%s has no gradient", n.Str("operator"))
		}
		if dy[0] == nil {
			return make([]*graph.Value, len(n.Inputs))
		}
		return append([]*graph.Value{b.Ops("org.pytorch.aten.ATen", graph.A{"operator": f.grad}, 1, f.gradArgs(b, n, dy[0])...)[0]},
			make([]*graph.Value, len(n.Inputs)-1)...)
	},
	Eval:  func(c *graph.Call) { atenOf(c.Node).run(c, f32.Serial) },
	Fast:  func(c *graph.Call) { atenOf(c.Node).run(c, c.Parallel) },
	Lower: func(l *graph.Lowering) { atenOf(l.Node).lower(l) },
	Flops: func(n *graph.Node) graph.Dim { return atenOf(n).flops(n) },
	Tests: graph.Tests{
		Places: graph.PlaceEach,
		Work: counted(func(c sampled) int64 {
			switch c.Node.Str("operator") {
			case "embedding":
				return 0
			case "max_pool2d_with_indices":
				window := c.In[1]
				return c.out(0) * visits(window.Int(0), window.Int(window.Len()-1))
			case "embedding_backward", "_adaptive_avg_pool2d":
				return c.in(0)
			default:
				return c.in(1)
			}
		}),
	},
	Reads: func(n *graph.Node, input int) graph.Dim {
		if f := atenOf(n); f.reads != nil {
			return f.reads(n, input)
		}
		return n.Inputs[input].Shape.Elems()
	},
	Recompute: graph.Cheap,
	Samples: []string{
		`f32[5,3], i64[2,4]<5, i64[]{-1}, bool[]{0}, bool[]{0}; operator="embedding" -> y`,
		`f32[5,3], i64[0]<5, i64[]{-1}, bool[]{0}, bool[]{0}; operator="embedding" -> y`,
		`f16[5,3], i32[4]<5, i64[]{-1}, bool[]{0}, bool[]{0}; operator="embedding" -> y`,
		`f32[2,4,3], i64[2,4]<5, i64{5}, i64[]{-1}, bool[]{0}, bool[]{0}; operator="embedding_backward" -> dw`,
		`f32[9,3], i64[9]<4, i64{4}, i64[]{2}, bool[]{1}, bool[]{0}; operator="embedding_backward" -> dw`,
		`f16[3,2], i64[3]<4, i64{4}, i64[]{-1}, bool[]{0}, bool[]{0}; operator="embedding_backward" -> dw`,
		`f32[2,3,6,7], i64{2,2}, i64{2,2}, i64{0,0}, i64{1,1}, bool[]{0}; operator="max_pool2d_with_indices" -> y, i`,
		`f32[1,2,7,7], i64{3}, i64{}, i64{1}, i64{1}, bool[]{1}; operator="max_pool2d_with_indices" -> y, i`,
		`f32[1,1,6,7], i64{3,2}, i64{2,1}, i64{1,1}, i64{2,1}, bool[]{0}; operator="max_pool2d_with_indices" -> y`,
		`f32[2,3,3,3], f32[2,3,6,7], i64{2,2}, i64{2,2}, i64{0,0}, i64{1,1}, bool[]{0}, i64[2,3,3,3]<42; operator="max_pool2d_with_indices_backward" -> dx`,
		`f32[2,3,5,4], i64{1,1}; operator="_adaptive_avg_pool2d" -> y`,
		`f32[1,2,5,7], i64{3,2}; operator="_adaptive_avg_pool2d" -> y`,
		`f32[1,2,3,2], f32[1,2,5,7]; operator="_adaptive_avg_pool2d_backward" -> dx`,
	},
})

// aten describes one function.
type aten struct {
	args, results int // fewest arguments, most results
	infer         func(n *graph.Node)
	run           func(c *graph.Call, par func(n, grain int, f func(lo, hi int)))
	lower         func(l *graph.Lowering)
	flops         func(n *graph.Node) graph.Dim
	reads         func(n *graph.Node, input int) graph.Dim // nil: all
	// grad names the function that computes the gradient of argument 0 from
	// gradArgs. Other arguments have no gradient.
	grad     string
	gradArgs func(b *graph.Builder, n *graph.Node, dy *graph.Value) []*graph.Value
}

// atens is keyed by function name. The error text of atenOf lists the names again.
var atens = map[string]aten{
	"embedding": {
		args: 2, results: 1, infer: embeddingInfer, run: embedding, lower: lowerEmbedding, flops: noFlops, reads: picks,
		grad: "embedding_backward",
		gradArgs: func(b *graph.Builder, n *graph.Node, dy *graph.Value) []*graph.Value {
			args := []*graph.Value{dy, n.Inputs[1], b.Int(n.Inputs[0].Shape[0]), b.Int(graph.Num(-1)), b.Num(graph.Bool, 0), b.Num(graph.Bool, 0)}
			for i, v := range n.Inputs[2:] {
				if v != nil && 3+i < len(args) {
					args[3+i] = v
				}
			}
			return args
		},
	},
	"embedding_backward": {
		args: 3, results: 1, infer: embeddingBackInfer, run: embeddingBack, lower: lowerEmbeddingGrad, flops: atenElements(0),
	},
	"max_pool2d_with_indices": {
		args: 2, results: 2, infer: atenPoolInfer, run: atenPool, lower: lowerATenPool,
		flops: func(n *graph.Node) graph.Dim {
			kernel := atenWindow(n, 1).kernel
			return atenPoolShape(n).Elems().Mul(graph.Num(int64(kernel[0] * kernel[1])))
		},
		grad: "max_pool2d_with_indices_backward",
		gradArgs: func(b *graph.Builder, n *graph.Node, dy *graph.Value) []*graph.Value {
			w, at := atenWindow(n, 1), n.Output(1)
			if at == nil {
				at = b.Ops("org.pytorch.aten.ATen", graph.A{"operator": "max_pool2d_with_indices"}, 2, n.Inputs...)[1]
			}
			list := func(x []int) *graph.Value { return b.Ints(graph.Num(int64(x[0])), graph.Num(int64(x[1]))) }
			ceil := b.Num(graph.Bool, 0)
			if w.ceil {
				ceil = b.Num(graph.Bool, 1)
			}
			return []*graph.Value{dy, n.Inputs[0], list(w.kernel), list(w.strides), list(w.pads), list(w.dilations), ceil, at}
		},
	},
	"max_pool2d_with_indices_backward": {
		args: 8, results: 1, infer: atenPoolBackInfer, run: atenPoolBack, lower: lowerATenPoolGrad, flops: atenElements(1),
	},
	"_adaptive_avg_pool2d": {
		args: 2, results: 1, infer: adaptiveInfer, run: adaptive, lower: lowerAdaptive(false), flops: atenElements(0),
		grad: "_adaptive_avg_pool2d_backward",
		gradArgs: func(_ *graph.Builder, n *graph.Node, dy *graph.Value) []*graph.Value {
			return []*graph.Value{dy, n.Inputs[0]}
		},
	},
	"_adaptive_avg_pool2d_backward": {
		args: 2, results: 1, infer: adaptiveBackInfer, run: adaptiveBack, lower: lowerAdaptive(true), flops: atenElements(1),
	},
}

func atenOf(n *graph.Node) aten {
	f, ok := atens[n.Str("operator")]
	if !ok {
		n.Fail("function %q is not supported; only embedding, max_pool2d_with_indices, _adaptive_avg_pool2d and their _backward are", n.Str("operator"))
	}
	return f
}

func atenElements(arg int) func(*graph.Node) graph.Dim {
	return func(n *graph.Node) graph.Dim { return n.Inputs[arg].Shape.Elems() }
}

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse) gathers rows of
// the weight; the last three arguments only affect the gradient.
func embeddingInfer(n *graph.Node) {
	w, idx := n.Inputs[0], n.Inputs[1]
	wantType(n, 1, isIndex, "int32 or int64")
	if w.Rank() < 1 {
		n.Fail("the weight is a scalar")
	}
	n.Set(0, w.Type, slices.Concat(idx.Shape, w.Shape[1:]))
}

func embedding(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	w, idx, y := c.In[0], c.In[1], c.Out[0]
	size := index.Elems(w.Shape[1:]) * int(w.Type.Size())
	par(idx.Len(), max(1, 4*f32.Grain/max(1, size)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(y.Bytes[i*size:(i+1)*size], w.Bytes[indexAt(c, idx, i, w.Shape[0])*size:])
		}
	})
}

// embedding_backward(dy, indices, num_weights, padding_idx, scale_grad_by_freq,
// sparse) sums the rows of dy by index. Rows of padding_idx are dropped; with
// scale_grad_by_freq each sum is divided by the count of its index.
func embeddingBackInfer(n *graph.Node) {
	dy, idx := n.Inputs[0], n.Inputs[1]
	wantType(n, 0, isFloat, "floats")
	wantType(n, 1, isIndex, "int32 or int64")
	rows := knownDims(n, 2, "num_weights")
	if len(rows) != 1 || dy.Rank() < idx.Rank() {
		n.Fail("num_weights must be one number and dY have the rank of the indices at least")
	}
	sameDims(n, dy.Shape[:idx.Rank()], idx.Shape)
	for i := 3; i < min(5, len(n.Inputs)); i++ {
		if v := n.Inputs[i]; v != nil {
			n.Same(v.Shape.Elems(), graph.Num(1), "padding_idx and scale_grad_by_freq are one number each")
		}
	}
	n.Set(0, dy.Type, slices.Concat(graph.Shape{rows[0]}, dy.Shape[idx.Rank():]))
}

// Rows are added in the order of the indices, so the result does not depend on the
// number of workers, which divide the columns.
func embeddingBack(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	dy, idx, dw := c.In[0], c.In[1], c.Out[0]
	rows, width := dw.Shape[0], index.Elems(dw.Shape[1:])
	padding := int64(-1)
	if p := input(c, 3); p != nil {
		padding = p.Int(0)
	}
	var count []int
	if freq := input(c, 4); freq != nil && freq.Int(0) != 0 {
		count = make([]int, rows)
	}
	at := make([]int, idx.Len())
	for i := range at {
		if at[i] = -1; padding < 0 || idx.Int(i) != padding {
			at[i] = indexAt(c, idx, i, rows)
			if count != nil {
				count[at[i]]++
			}
		}
	}
	par(width, max(16, f32.Grain/max(1, len(at))), func(lo, hi int) {
		if dw.Type == graph.Float32 && count == nil {
			from, to := dy.F32(), dw.F32()
			for r := range rows {
				clear(to[r*width+lo : r*width+hi])
			}
			for i, r := range at {
				if r >= 0 {
					row := to[r*width+lo : r*width+hi]
					for k, d := range from[i*width+lo : i*width+hi] {
						row[k] += d
					}
				}
			}
			return
		}
		sums := make([]float64, rows)
		for col := lo; col < hi; col++ {
			clear(sums)
			for i, r := range at {
				if r >= 0 {
					sums[r] += dy.Float(i*width + col)
				}
			}
			for r, s := range sums {
				if count != nil && count[r] > 1 {
					s /= float64(count[r])
				}
				dw.SetFloat(r*width+col, s)
			}
		}
	})
}

// atenWindow reads kernel_size, stride, padding, dilation and ceil_mode for two spatial
// dims, beginning at argument first. One number applies to both dims; an empty stride
// means the kernel size.
func atenWindow(n *graph.Node, first int) window {
	list := func(i int, what string, least int64, def []int) []int {
		if n.In(first+i) == nil {
			return def
		}
		got := knownInts(n, first+i, what)
		switch len(got) {
		case 0:
			return def
		case 1:
			got = []int64{got[0], got[0]}
		case 2:
		default:
			n.Fail("%s has %d numbers for two dims", what, len(got))
		}
		for _, x := range got {
			if x < least || x > 1<<31 {
				n.Fail("%s must be at least %d, but is %d", what, least, got)
			}
		}
		return []int{int(got[0]), int(got[1])}
	}
	w := window{auto: "NOTSET", kernel: list(0, "kernel_size", 1, nil)}
	if w.kernel == nil {
		n.Fail("kernel_size is empty")
	}
	w.strides = list(1, "stride", 1, w.kernel)
	pads := list(2, "padding", 0, []int{0, 0})
	w.pads = slices.Concat(pads, pads)
	w.dilations = list(3, "dilation", 1, []int{1, 1})
	if n.In(first+4) != nil {
		ceil := knownInts(n, first+4, "ceil_mode")
		w.ceil = len(ceil) > 0 && ceil[0] != 0
	}
	return w
}

func atenPoolShape(n *graph.Node) graph.Shape {
	x := n.Inputs[0].Shape
	if len(x) != 4 {
		n.Fail("the input must be [N, C, H, W], but is %s", x)
	}
	return atenWindow(n, 1).shape(n, x, x[1])
}

// max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode).
// Indices are relative to the image of one channel.
func atenPoolInfer(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	n.Set(0, n.Inputs[0].Type, atenPoolShape(n))
	n.Set(1, graph.Int64, atenPoolShape(n))
}

func atenPool(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	x, y, indices := c.In[0], c.Out[0], output(c, 1)
	p := poolOver(atenWindow(c.Node, 1), x.Shape, y.Shape)
	p.images(par, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			base := i * f32.Volume(p.In)
			p.each(func(out int, inputs func(func(int))) {
				m, at := math.Inf(-1), -1
				inputs(func(in int) {
					if v := x.Float(base + in); better(v, m, at < 0) {
						m, at = v, in
					}
				})
				y.SetFloat(i*f32.Volume(p.Out)+out, m)
				if indices != nil {
					indices.SetInt(i*f32.Volume(p.Out)+out, int64(at))
				}
			})
		}
	})
}

// max_pool2d_with_indices_backward(dy, x, kernel_size, stride, padding,
// dilation, ceil_mode, indices)
func atenPoolBackInfer(n *graph.Node) {
	dy, x := n.Inputs[0], n.Inputs[1]
	wantType(n, 0, isFloat, "floats")
	wantType(n, 7, isIndex, "int32 or int64")
	if x.Type != dy.Type || x.Rank() != 4 || dy.Rank() != 4 {
		n.Fail("dY and x must be [N, C, H, W] of one type, but are %s and %s", dy, x)
	}
	sameDims(n, dy.Shape[:2], x.Shape[:2])
	sameDims(n, n.Inputs[7].Shape, dy.Shape)
	n.Set(0, x.Type, x.Shape)
}

func atenPoolBack(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	dy, at, dx := c.In[0], c.In[7], c.Out[0]
	in, out := index.Elems(dx.Shape[2:]), index.Elems(dy.Shape[2:])
	par(dx.Shape[0]*dx.Shape[1], 1+f32.Grain/max(1, in+out), func(lo, hi int) {
		sum := make([]float64, in)
		for i := lo; i < hi; i++ {
			clear(sum)
			for k := i * out; k < (i+1)*out; k++ {
				sum[indexAt(c, at, k, in)] += dy.Float(k)
			}
			for k, v := range sum {
				dx.SetFloat(i*in+k, v)
			}
		}
	})
}

// _adaptive_avg_pool2d(x, output_size): output o of n averages the elements
// [⌊o·d/n⌋, ⌈(o+1)·d/n⌉) of a dim of length d.
func adaptiveInfer(n *graph.Node) {
	wantType(n, 0, isFloat, "floats")
	x, size := n.Inputs[0], knownDims(n, 1, "output_size")
	if x.Rank() != 4 || len(size) != 2 {
		n.Fail("the input must be [N, C, H, W] and output_size two numbers, but they are %s and %d numbers", x.Shape, len(size))
	}
	n.Set(0, x.Type, graph.Shape{x.Shape[0], x.Shape[1], size[0], size[1]})
}

// adaptiveEach calls f for every output of an image with the rows and columns of its
// window.
func adaptiveEach(in, out []int, f func(o, top, bottom, left, right int)) {
	for y := range out[0] {
		for x := range out[1] {
			f(y*out[1]+x, y*in[0]/out[0], index.CeilDiv((y+1)*in[0], out[0]), x*in[1]/out[1], index.CeilDiv((x+1)*in[1], out[1]))
		}
	}
}

func adaptive(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	x, y := c.In[0], c.Out[0]
	in, out := index.Elems(x.Shape[2:]), index.Elems(y.Shape[2:])
	par(x.Shape[0]*x.Shape[1], 1+f32.Grain/max(1, in), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			adaptiveEach(x.Shape[2:], y.Shape[2:], func(o, top, bottom, left, right int) {
				sum := 0.0
				for r := top; r < bottom; r++ {
					for k := left; k < right; k++ {
						sum += x.Float(i*in + r*x.Shape[3] + k)
					}
				}
				y.SetFloat(i*out+o, sum/float64((bottom-top)*(right-left)))
			})
		}
	})
}

// _adaptive_avg_pool2d_backward(dy, x)
func adaptiveBackInfer(n *graph.Node) {
	dy, x := n.Inputs[0], n.Inputs[1]
	wantType(n, 0, isFloat, "floats")
	if x.Type != dy.Type || x.Rank() != 4 || dy.Rank() != 4 {
		n.Fail("dY and x must be [N, C, H, W] of one type, but are %s and %s", dy, x)
	}
	sameDims(n, dy.Shape[:2], x.Shape[:2])
	n.Set(0, x.Type, x.Shape)
}

func adaptiveBack(c *graph.Call, par func(n, grain int, f func(lo, hi int))) {
	dy, dx := c.In[0], c.Out[0]
	in, out := index.Elems(dx.Shape[2:]), index.Elems(dy.Shape[2:])
	par(dx.Shape[0]*dx.Shape[1], 1+f32.Grain/max(1, in), func(lo, hi int) {
		sum := make([]float64, in)
		for i := lo; i < hi; i++ {
			clear(sum)
			adaptiveEach(dx.Shape[2:], dy.Shape[2:], func(o, top, bottom, left, right int) {
				d := dy.Float(i*out+o) / float64((bottom-top)*(right-left))
				for r := top; r < bottom; r++ {
					for k := left; k < right; k++ {
						sum[r*dx.Shape[3]+k] += d
					}
				}
			})
			for k, v := range sum {
				dx.SetFloat(i*in+k, v)
			}
		}
	})
}

var adaptiveKernel = lower.Halved(lower.Shader("adaptive", "adaptive.comp"))

func lowerEmbedding(l *graph.Lowering) {
	w := l.In[0].Shape
	rowsPicked{1, w[0], index.Elems(w[1:]), l.In[1].Len(), 1, -1}.pick(l)
}

// lowerEmbeddingGrad is the scatter-add of Gather's gradient, without the rows of padding_idx.
func lowerEmbeddingGrad(l *graph.Lowering) {
	g := rowsPicked{1, l.Out[0].Shape[0], index.Elems(l.Out[0].Shape[1:]), l.In[1].Len(), 1, -1}
	for _, i := range []int{3, 4} {
		if lower.In(l, i) == nil {
			continue
		}
		v, known := l.Ints(i)
		switch {
		case !known:
			l.Refuse("argument %d is only known when the step runs", i)
			return
		case i == 3:
			g.dropped = int(max(-1, min(v[0], 1<<31-1)))
		case v[0] != 0:
			l.Refuse("there is no kernel for scale_grad_by_freq")
			return
		}
	}
	g.add(l, 0)
}

func lowerATenPool(l *graph.Lowering) {
	if !lower.OnlyTypes(l, nil, []graph.DType{graph.Float32, graph.Int64}) || !tapsFit(l, l.In[0]) {
		return
	}
	x, y := l.In[0].Shape, l.Out[0]
	if y == nil {
		y = l.Out[1]
	}
	p := poolOver(atenWindow(l.Node, 1), x, y.Shape)
	if lower.Out(l, 1) != nil {
		p.maxAt(l, false)
	} else if y.Len() > 0 {
		p.dispatch(l, poolKernel, poolMax, false, y.Len(), []graph.Buffer{lower.Writes(0), lower.Reads(0), lower.Unused(false)})
	}
}

// lowerATenPoolGrad scatter-adds dy at the indices, image by image.
func lowerATenPoolGrad(l *graph.Lowering) {
	if l.Out[0].Type != graph.Float32 {
		l.Refuse("dX is %s; there is a kernel for f32", l.Out[0].Type)
		return
	}
	lower.Fill(l, 0, 0)
	dy, dx := l.In[0].Shape, l.Out[0].Shape
	in, out := index.Elems(dx[2:]), index.Elems(dy[2:])
	lower.Indexed{
		Steps: out, IndexStep: 1, ElementStep: 1, Dims: []int{dx[0] * dx[1]}, IndexAt: []int{out}, ElementAt: []int{out}, DataAt: []int{in},
		Sizes: []int{in}, Strides: []int{1},
	}.Append(l, lower.Bring["add"], lower.Reads(0), 7)
}

// lowerAdaptive lowers _adaptive_avg_pool2d, or with back its gradient.
func lowerAdaptive(back bool) func(*graph.Lowering) {
	return func(l *graph.Lowering) {
		if l.In[0].Type != graph.Float32 {
			l.Refuse("the input is %s; there is a kernel for f32", l.In[0].Type)
			return
		}
		large, little := l.In[0].Shape, l.Out[0].Shape
		if back {
			large, little = little, large
		}
		if n := l.Out[0].Len(); n > 0 {
			l.Dispatches = append(l.Dispatches, graph.Dispatch{
				Kernel: adaptiveKernel, Spec: []uint32{lower.OneIf(back)}, Push: lower.Words(l, n, large[2], large[3], little[2], little[3]),
				Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0)}, Groups: lower.InLine(l, index.CeilDiv(n, 64)),
			})
		}
	}
}
