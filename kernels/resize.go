package kernels

import (
	"fmt"
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

// Resize is separable: along each resized axis an output element is a weighted sum of a few
// input elements, its taps. The gradient uses the same taps transposed. ResizeGrad needs only
// the shape of the data, and roi, scales and sizes.
const resizeAttrs = "antialias int=0, axes ints, coordinate_transformation_mode string=half_pixel, cubic_coeff_a float=-0.75, " +
	"exclude_outside int=0, extrapolation_value float=0, keep_aspect_ratio_policy string=stretch, mode string=nearest, " +
	"nearest_mode string=round_prefer_floor"

var _ = define(graph.Op{
	Name:  "Resize",
	Since: 11,
	Doc:   "resizes the data with nearest, linear or cubic interpolation",
	In:    "X, roi?, scales?, sizes?",
	Out:   "Y",
	Attrs: resizeAttrs,
	Known: []int{1, 2, 3},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		wantType(n, 0, isNumber, "numbers")
		n.Set(0, x.Type, resizedShape(n, x.Shape, n.In(1), n.In(2), n.In(3)))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		attrs := graph.A{}
		for _, a := range n.Attrs {
			attrs[a.Name] = a.Value
		}
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op("memopt.ResizeGrad", attrs, dy[0], shapeOf(b, n.Inputs[0]), n.In(1), n.In(2), n.In(3))
		return dx
	},
	Eval: func(c *graph.Call) {
		x, y := c.In[0], c.Out[0]
		taps := resizeTaps(c.Node, x.Shape, y.Shape, input(c, 1), input(c, 2), input(c, 3))
		fill := c.Node.Float("extrapolation_value")
		if !x.Type.IsFloat() && c.Node.Str("mode") == "nearest" {
			// There is one tap of weight 1, or none: copy integers without converting to floats.
			eachTapped(x.Shape, y.Shape, taps, f32.Serial, func(i int, list []tap, outside bool) {
				if outside || len(list) == 0 {
					y.SetFloat(i, fill)
					return
				}
				y.SetInt(i, x.Int(list[0].at))
			})
			return
		}
		eachTapped(x.Shape, y.Shape, taps, f32.Serial, func(i int, list []tap, outside bool) {
			sum := 0.0
			for _, t := range list {
				sum += t.weight * x.Float(t.at)
			}
			switch {
			case outside:
				y.SetFloat(i, fill)
			case y.Type.IsFloat():
				y.SetFloat(i, sum)
			default:
				y.SetInt(i, toInt(y.Type, math.RoundToEven(sum)))
			}
		})
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		taps := resizeTaps(c.Node, c.In[0].Shape, c.Out[0].Shape, input(c, 1), input(c, 2), input(c, 3))
		tapped(c.In[0], c.Out[0], taps, float32(c.Node.Float("extrapolation_value")), c.Parallel)
	},
	Lower:     lowerResize,
	Flops:     perElement(8),
	Tests:     graph.Tests{Work: eachOut(8)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[1,2,2,3], _, f32{1,1,2,2}",
		"f32[2,2,3], _, f32{1,1,1.7}; mode=\"linear\"",
		"f32[1,1,4,5], _, f32{1,1,0.6,0.6}; mode=\"linear\"",
		"f32[1,1,4,5], _, f32{1,1,0.6,1.5}; mode=\"cubic\"",
		"f32[1,1,4,5], _, f32{1,1,0.6,1.5}; mode=\"cubic\" exclude_outside=1 cubic_coeff_a=-0.5",
		"f32[1,1,6,5], _, f32{1,1,0.4,0.7}; mode=\"linear\" antialias=1",
		"f32[1,1,6,5], _, f32{1,1,0.4,0.7}; mode=\"cubic\" antialias=1",
		"f32[1,1,2,3], _, _, i64{1,1,5,4}; mode=\"linear\" coordinate_transformation_mode=\"align_corners\"",
		"f32[1,1,2,3], _, _, i64{1,1,1,1}; mode=\"linear\" coordinate_transformation_mode=\"align_corners\"",
		"f32[1,1,2,3], _, _, i64{1,1,1,4}; mode=\"linear\" coordinate_transformation_mode=\"pytorch_half_pixel\"",
		"f32[1,1,2,3], _, f32{1,1,1.6,1.6}; mode=\"linear\" coordinate_transformation_mode=\"half_pixel_symmetric\"",
		"f32[2,3], _, _, i64{4,7}; coordinate_transformation_mode=\"asymmetric\" nearest_mode=\"floor\"",
		"f32[2,3], _, _, i64{4,7}; coordinate_transformation_mode=\"asymmetric\" nearest_mode=\"ceil\"",
		"f32[2,3], _, _, i64{5,2}; coordinate_transformation_mode=\"tf_half_pixel_for_nn\" nearest_mode=\"round_prefer_ceil\"",
		"f32[4,4], f32{0.2,-0.3,0.8,1.2}, _, i64{3,5}; mode=\"linear\" coordinate_transformation_mode=\"tf_crop_and_resize\" extrapolation_value=7.5",
		"f32[4,4], f32{0.25,0.5,0.75,1}, f32{2,2}; mode=\"linear\" coordinate_transformation_mode=\"tf_crop_and_resize\"",
		"f32[2,4,3], _, _, i64{3,3}; axes=[2,1] keep_aspect_ratio_policy=\"not_larger\"",
		"f32[2,4,3], _, _, i64{3,3}; axes=[-1,1] keep_aspect_ratio_policy=\"not_smaller\"",
		"f32[1,2,3], f32{}, f32{}, i64{1,2,6}; mode=\"linear\"",
		"i64[2,3], _, f32{2,2}",
		"u8[2,3]>0, _, f32{1.5,2}; mode=\"linear\"",
		"f16[2,3], _, f32{1.5,2}; mode=\"linear\"",
		"f32[0,3], _, f32{1,2}",
	},
})

var _ = define(graph.Op{
	Name:   "ResizeGrad",
	Domain: own,
	Doc:    "the gradient of Resize: dy added to the elements that each was interpolated from",
	In:     "dY, shape, roi?, scales?, sizes?",
	Out:    "dX",
	Known:  []int{1, 3, 4},
	Attrs:  resizeAttrs,
	Infer: func(n *graph.Node) {
		dy := n.Inputs[0]
		wantType(n, 0, isFloat, "floats")
		shape := graph.Shape(knownDims(n, 1, "shape"))
		sameDims(n, resizedShape(n, shape, n.In(2), n.In(3), n.In(4)), dy.Shape)
		n.Set(0, dy.Type, shape)
	},
	NoGrad: true,
	Eval: func(c *graph.Call) {
		dy, dx := c.In[0], c.Out[0]
		taps := resizeTaps(c.Node, dx.Shape, dy.Shape, input(c, 2), input(c, 3), input(c, 4))
		eachTapped(dy.Shape, dx.Shape, fromInput(taps, dx.Shape), f32.Serial, func(i int, list []tap, _ bool) {
			sum := 0.0
			for _, t := range list {
				sum += t.weight * dy.Float(t.at)
			}
			dx.SetFloat(i, sum)
		})
	},
	Fast: func(c *graph.Call) {
		if c.In[0].Type != graph.Float32 {
			c.Node.Op.Eval(c)
			return
		}
		dy, dx := c.In[0], c.Out[0]
		taps := resizeTaps(c.Node, dx.Shape, dy.Shape, input(c, 2), input(c, 3), input(c, 4))
		tapped(dy, dx, fromInput(taps, dx.Shape), 0, c.Parallel)
	},
	Lower:     lowerResizeGrad,
	Flops:     func(n *graph.Node) graph.Dim { return n.Inputs[0].Shape.Elems().Mul(graph.Num(8)) },
	Tests:     graph.Tests{Work: eachIn(0, 8)},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[1,2,4,6], i64{1,2,2,3}, _, f32{1,1,2,2}",
		"f32[2,2,5], i64{2,2,3}, _, f32{1,1,1.7}; mode=\"linear\"",
		"f32[1,1,2,3], i64{1,1,4,5}, _, f32{1,1,0.6,0.6}; mode=\"cubic\"",
		"f32[3,5], i64{4,4}, f32{0.2,-0.3,0.8,1.2}, _, i64{3,5}; mode=\"linear\" coordinate_transformation_mode=\"tf_crop_and_resize\"",
		"f64[5,2], i64{2,3}, _, _, i64{5,2}",
	},
})

// given reports whether an optional list is present; an empty list counts as omitted.
func given(v *graph.Value) bool { return v != nil && !v.Shape.Elems().Is(0) }

// resizeAxes returns the axes that scales, sizes and roi refer to, in their order.
func resizeAxes(n *graph.Node, rank int) []int {
	if !n.Has("axes") {
		axes := make([]int, rank)
		for i := range axes {
			axes[i] = i
		}
		return axes
	}
	axesOf(n, n.Ints("axes"), rank) // fails on repeated axes
	axes := make([]int, len(n.Ints("axes")))
	for i, a := range n.Ints("axes") {
		axes[i] = axisOf(n, int(a), rank)
	}
	return axes
}

func resizedShape(n *graph.Node, x graph.Shape, roi, scales, sizes *graph.Value) graph.Shape {
	wantOneOf(n, "mode", "nearest", "linear", "cubic")
	wantOneOf(n, "nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
	wantOneOf(n, "keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
	wantOneOf(n, "coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
		"align_corners", "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn")
	crops := n.Str("coordinate_transformation_mode") == "tf_crop_and_resize"
	axes := resizeAxes(n, len(x))
	count := func(v *graph.Value, most int, what string) {
		n.Same(v.Shape.Elems(), graph.Num(int64(most)), what+" for the axes")
	}
	if crops && !given(roi) {
		n.Fail("tf_crop_and_resize needs roi")
	}
	if crops {
		count(roi, 2*len(axes), "two elements of roi")
	}
	out := slices.Clone(x)
	switch {
	case given(sizes) && given(scales):
		n.Fail("both scales and sizes are given")
	case given(sizes):
		count(sizes, len(axes), "sizes")
		ds := contents(n, sizes, "sizes")
		if n.Str("keep_aspect_ratio_policy") == "stretch" {
			for i, a := range axes {
				out[a] = ds[i]
			}
			break
		}
		in, want := make([]int, len(x)), make([]int, len(axes))
		for i, a := range axes {
			d, known := x[a].Const()
			s, knownSize := ds[i].Const()
			if !known || !knownSize {
				n.Fail("keep_aspect_ratio_policy %q needs constant sizes, but an axis of %s has size %s", n.Str("keep_aspect_ratio_policy"), x[a], ds[i])
			}
			in[a], want[i] = int(d), int(s)
		}
		factor := aspectFactor(n, in, axes, want)
		for _, a := range axes {
			out[a] = wholeDim(n, math.Floor(factor*float64(in[a])+0.5))
		}
	case given(scales):
		count(scales, len(axes), "scales")
		factors := knownFloats(n, scales, "scales")
		for i, a := range axes {
			f := factors[i]
			if !(f > 0) || f > math.MaxInt32 {
				n.Fail("a scale is %v; scales must be above 0", f)
			}
			if crops {
				r := knownFloats(n, roi, "roi")
				f = float64(float32(f * (r[i+len(axes)] - r[i])))
			}
			out[a] = scaledDim(n, x[a], f)
		}
	default:
		n.Fail("neither scales nor sizes are given")
	}
	for i, d := range x {
		if d.Is(0) && !out[i].Is(0) {
			n.Fail("axis %d is empty and cannot be resized to %s", i, out[i])
		}
	}
	return out
}

func wantOneOf(n *graph.Node, attr string, words ...string) {
	if !slices.Contains(words, n.Str(attr)) {
		n.Fail("%s is %q, not one of %v", attr, n.Str(attr), words)
	}
}

// contents returns the known contents of an integer list as dims.
func contents(n *graph.Node, v *graph.Value, what string) []graph.Dim {
	if v.Ints == nil {
		n.Fail("%s (%q) are not known before the step runs", what, v.Name)
	}
	return v.Ints
}

// knownFloats returns the elements of a stored list. A parameter is allowed, too: a size has no
// gradient, so training does not change it.
func knownFloats(n *graph.Node, v *graph.Value, what string) []float64 {
	x := v.Contents()
	if x == nil {
		n.Fail("%s (%q) are not known before the step runs", what, v.Name)
	}
	out := make([]float64, x.Len())
	for i := range out {
		out[i] = x.Float(i)
	}
	return out
}

func wholeDim(n *graph.Node, x float64) graph.Dim {
	if !(x >= 0 && x <= math.MaxInt32) {
		n.Fail("the resized dim would be %v", x)
	}
	return graph.Num(int64(x))
}

// scaledDim is ⌊d·f⌋, with the product in float32 as ONNX's shape inference computes it. For a
// symbolic dim, f is the fraction with the smallest denominator that rounds to it.
func scaledDim(n *graph.Node, d graph.Dim, f float64) graph.Dim {
	if k, ok := d.Const(); ok {
		return wholeDim(n, math.Floor(float64(float32(k)*float32(f))))
	}
	for q := int64(1); q <= 1<<10; q++ {
		p := math.Round(f * float64(q))
		if float32(p/float64(q)) == float32(f) {
			return d.Mul(graph.Num(int64(p))).FloorDiv(graph.Num(q))
		}
	}
	n.Fail("dim %s cannot be scaled by %v, which is not a simple fraction", d, f)
	panic("unreachable")
}

// aspectFactor is the common scale of all axes under keep_aspect_ratio_policy.
func aspectFactor(n *graph.Node, in, axes, sizes []int) float64 {
	best := math.NaN()
	for i, a := range axes {
		f := float64(sizes[i]) / float64(in[a])
		if i == 0 || n.Str("keep_aspect_ratio_policy") == "not_larger" && f < best || n.Str("keep_aspect_ratio_policy") == "not_smaller" && f > best {
			best = f
		}
	}
	return best
}

// tap is an input element and its weight.
type tap struct {
	at     int
	weight float64
}

// resizeTaps returns the taps in x of each output index along each axis; no taps mean that it
// lies outside of the data. The list of an axis that is not resized is nil.
func resizeTaps(n *graph.Node, x, y []int, roi, scales, sizes *graph.Tensor) [][][]tap {
	taps := make([][][]tap, len(x))
	for a, line := range resizeLines(n, x, y, roi, scales, sizes) {
		if line == nil {
			continue
		}
		taps[a] = make([][]tap, line.out)
		for o := range taps[a] {
			taps[a][o] = line.taps(o)
		}
	}
	return taps
}

// resizeLines returns a resizeLine for each axis; nil if the axis is not resized.
func resizeLines(n *graph.Node, x, y []int, roi, scales, sizes *graph.Tensor) []*resizeLine {
	axes := resizeAxes(n, len(x))
	aspect := 0.0
	if sizes != nil && sizes.Len() > 0 && n.Str("keep_aspect_ratio_policy") != "stretch" {
		want := make([]int, len(axes))
		for i := range want {
			want[i] = int(sizes.Int(i))
		}
		aspect = aspectFactor(n, x, axes, want)
	}
	lines := make([]*resizeLine, len(x))
	for i, a := range axes {
		line := resizeLine{n: n, in: x[a], out: y[a], factor: float64(y[a]) / float64(x[a]), end: 1}
		if scales != nil && scales.Len() > 0 {
			line.factor = scales.Float(i)
		} else if aspect != 0 {
			line.factor = aspect
		}
		if roi != nil && roi.Len() > 0 && n.Str("coordinate_transformation_mode") == "tf_crop_and_resize" {
			line.start, line.end = roi.Float(i), roi.Float(i+len(axes))
		}
		if line.factor == 1 && line.in == line.out && line.start == 0 && line.end == 1 {
			continue
		}
		lines[a] = &line
	}
	return lines
}

// resizeLine is one axis: its lengths, the scale, and the region of interest.
type resizeLine struct {
	n          *graph.Node
	in, out    int
	factor     float64
	start, end float64
}

// place maps an output index to an input coordinate.
func (l resizeLine) place(o int) float64 {
	x, in, width := float64(o), float64(l.in), l.factor*float64(l.in)
	switch l.n.Str("coordinate_transformation_mode") {
	case "align_corners":
		if width == 1 {
			return 0
		}
		return x * (in - 1) / (width - 1)
	case "asymmetric":
		return x / l.factor
	case "tf_half_pixel_for_nn":
		return (x + 0.5) / l.factor
	case "tf_crop_and_resize":
		if width == 1 {
			return (l.end-l.start)*(in-1)/2 + l.start*(in-1)
		}
		return x*(l.end-l.start)*(in-1)/(width-1) + l.start*(in-1)
	case "pytorch_half_pixel":
		if width == 1 {
			return -0.5
		}
	case "half_pixel_symmetric":
		return in/2*(1-float64(l.out)/width) + (x+0.5)/l.factor - 0.5
	}
	return (x+0.5)/l.factor - 0.5
}

func (l resizeLine) taps(o int) []tap {
	x := l.place(o)
	if l.n.Str("coordinate_transformation_mode") == "tf_crop_and_resize" && !(x >= 0 && x <= float64(l.in-1)) {
		return nil
	}
	// The ratio is in (0, 1]: an input element that is hit exactly is the right neighbor.
	base := math.Ceil(x) - 1
	first, weights := l.weights(x - base)
	list := make([]tap, 0, len(weights))
	sum := 0.0
	for i, w := range weights {
		at := int(base) + first + i
		if at < 0 || at >= l.in {
			if l.n.Int("exclude_outside") != 0 {
				continue
			}
			at = max(0, min(at, l.in-1))
		}
		if w != 0 {
			list = append(list, tap{at, w})
			sum += w
		}
	}
	if l.n.Int("exclude_outside") != 0 && sum != 0 {
		for i := range list {
			list[i].weight /= sum
		}
	}
	return list
}

// weights returns the weights of the input elements from first on, for a coordinate that lies
// ratio after element 0.
func (l resizeLine) weights(ratio float64) (first int, weights []float64) {
	switch l.n.Str("mode") {
	case "nearest":
		right := false
		switch l.n.Str("nearest_mode") {
		case "round_prefer_floor":
			right = ratio > 0.5
		case "round_prefer_ceil":
			right = ratio >= 0.5
		case "ceil":
			right = true
		}
		if right || ratio == 1 {
			return 1, []float64{1}
		}
		return 0, []float64{1}
	case "linear":
		return l.filter(ratio, 1, func(x float64) float64 { return max(0, 1-x) })
	}
	a := l.n.Float("cubic_coeff_a")
	return l.filter(ratio, 2, func(x float64) float64 {
		switch {
		case x <= 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return ((a*x-5*a)*x+8*a)*x - 4*a
		}
		return 0
	})
}

// filter samples the interpolation kernel f, whose support is [−reach, reach]. With antialias
// the kernel is stretched by the downscaling factor and weights are normalized to sum 1.
func (l resizeLine) filter(ratio float64, reach float64, f func(x float64) float64) (first int, weights []float64) {
	scale := 1.0
	if l.n.Int("antialias") != 0 {
		scale = min(l.factor, 1)
	}
	first = int(math.Floor(-reach/scale)) + 1
	sum := 0.0
	for i := first; i < 2-first; i++ {
		w := f(math.Abs(scale * (float64(i) - ratio)))
		weights = append(weights, w)
		sum += w
	}
	if l.n.Int("antialias") != 0 {
		for i := range weights {
			weights[i] /= sum
		}
	}
	return first, weights
}

// fromInput transposes taps: for each input element, the outputs that it contributes to.
func fromInput(taps [][][]tap, x []int) [][][]tap {
	back := make([][][]tap, len(taps))
	for a, lists := range taps {
		if lists == nil {
			continue
		}
		back[a] = make([][]tap, x[a])
		for o, list := range lists {
			for _, t := range list {
				back[a][t.at] = append(back[a][t.at], tap{o, t.weight})
			}
		}
	}
	return back
}

// eachTapped calls f for each element of y with its taps, as elements of x, in a fixed order;
// outside is set if along some axis there are none.
func eachTapped(x, y []int, taps [][][]tap, par f32.Parallel, f func(i int, list []tap, outside bool)) {
	sx := index.Strides(x)
	rows := index.Elems(y)
	par(rows, f32.Grain/16, func(lo, hi int) {
		idx, list, next := make([]int, len(y)), []tap(nil), []tap(nil)
		for i := lo; i < hi; i++ {
			for a, rest := len(y)-1, i; a >= 0; a-- {
				idx[a] = rest % y[a]
				rest /= y[a]
			}
			list = append(list[:0], tap{0, 1})
			for a := range y {
				if taps[a] == nil {
					for k := range list {
						list[k].at += idx[a] * sx[a]
					}
					continue
				}
				next = next[:0]
				for _, t := range list {
					for _, u := range taps[a][idx[a]] {
						next = append(next, tap{t.at + u.at*sx[a], t.weight * u.weight})
					}
				}
				list, next = next, list
			}
			f(i, list, len(list) == 0)
		}
	})
}

// tapped is eachTapped for float32: all elements of a row share the taps of the outer axes.
func tapped(x, y *graph.Tensor, taps [][][]tap, fill float32, par f32.Parallel) {
	rank := len(y.Shape)
	if rank == 0 || taps[rank-1] == nil {
		src, dst := x.F32(), y.F32()
		eachTapped(x.Shape, y.Shape, taps, par, func(i int, list []tap, outside bool) {
			sum := 0.0
			for _, t := range list {
				sum += t.weight * float64(src[t.at])
			}
			dst[i] = float32(sum)
			if outside {
				dst[i] = fill
			}
		})
		return
	}
	width := y.Shape[rank-1]
	if y.Len() == 0 {
		return
	}
	last := taps[rank-1]
	src, dst := x.F32(), y.F32()
	outer := slices.Clone(y.Shape[:rank-1])
	from := slices.Clone(x.Shape[:rank-1])
	deep := x.Shape[rank-1]
	eachTapped(from, outer, taps[:rank-1], func(n, _ int, f func(lo, hi int)) { par(n, max(1, f32.Grain/16/width), f) },
		func(row int, list []tap, outside bool) {
			out := dst[row*width : (row+1)*width]
			for o := range out {
				sum := 0.0
				for _, t := range list {
					line := src[t.at*deep : (t.at+1)*deep]
					for _, u := range last[o] {
						sum += t.weight * u.weight * float64(line[u.at])
					}
				}
				out[o] = float32(sum)
				if outside || len(last[o]) == 0 {
					out[o] = fill
				}
			}
		})
}

// Opset 10 has only coordinate_transformation_mode asymmetric and nearest_mode floor.
var _ = define(graph.Op{
	Name:  "Resize",
	Since: 10,
	Doc:   "the form of opset 10",
	In:    "X, scales",
	Out:   "Y",
	Attrs: "mode string=nearest",
	Known: []int{1},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{resizeByScales(b, n, n.Inputs[0], n.Inputs[1])}
	},
})

// Upsample is the name of Resize before opset 10.
var _ = define(graph.Op{
	Name:    "Upsample",
	Since:   9,
	Doc:     "the old name of Resize",
	In:      "X, scales",
	Out:     "Y",
	Attrs:   "mode string=nearest",
	Known:   []int{1},
	Samples: []string{"f32[1,2,3,3], f32{1,1,2,2}"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		return []*graph.Value{resizeByScales(b, n, n.Inputs[0], n.Inputs[1])}
	},
})

var _ = define(graph.Op{
	Name:  "Upsample",
	Since: 7,
	Doc:   "the form of opset 7, with scales as an attribute",
	In:    "X",
	Out:   "Y",
	Attrs: "mode string=nearest, scales floats",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		scales := graph.NewTensor(graph.Float32, len(n.Floats("scales")))
		for i, f := range n.Floats("scales") {
			scales.SetFloat(i, f)
		}
		v, err := b.Const(b.Fresh("scales"), scales)
		if err != nil {
			panic(fmt.Sprintf("kernels: a fresh name is in use: %v", err))
		}
		return []*graph.Value{resizeByScales(b, n, n.Inputs[0], v)}
	},
})

func resizeByScales(b *graph.Builder, n *graph.Node, x, scales *graph.Value) *graph.Value {
	attrs := graph.A{"mode": n.Str("mode"), "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
	return b.Op("Resize", attrs, x, nil, scales)
}

var resizeKernel = lower.Halved(lower.Shader("resize", "resize.comp"))

const maxResizeDims = 4

var resizeModes = map[string]uint32{"nearest": 0, "linear": 1, "cubic": 2}

// nearestShift, added to a coordinate, makes the nearest input element its integer part. The
// epsilon that breaks ties is below the spacing of coordinates of realistic sizes.
var nearestShift = map[string]float64{
	"round_prefer_floor": 0.5 - 1e-6, "round_prefer_ceil": 0.5 + 1e-6, "floor": 1e-6, "ceil": 1 - 1e-6,
}

// fixed is a fixed-point number with 32 fractional bits.
type fixed struct {
	whole int32
	part  uint32
}

func (f fixed) bits() int64 { return int64(f.whole)<<32 | int64(f.part) }

func lowerResize(l *graph.Lowering) { lowerResizing(l, false, l.In[0].Shape, l.Out[0].Shape, 1) }

func lowerResizeGrad(l *graph.Lowering) { lowerResizing(l, true, l.Out[0].Shape, l.In[0].Shape, 2) }

// lowerResizing lowers Resize from shape x to y, or with back its gradient; input number first
// is roi, followed by scales and sizes.
func lowerResizing(l *graph.Lowering, back bool, x, y []int, first int) {
	n := l.Node
	if l.In[0].Type != graph.Float32 {
		l.Refuse("input 0 is %s; there is a kernel for f32", l.In[0].Type)
		return
	}
	if n.Str("coordinate_transformation_mode") == "tf_crop_and_resize" || n.Int("antialias") != 0 || n.Int("exclude_outside") != 0 {
		l.Refuse("there is no kernel for tf_crop_and_resize, antialias and exclude_outside")
		return
	}
	var scales, sizes *graph.Tensor
	if v := n.In(first + 1); given(v) {
		scales = v.Contents()
	}
	if v := n.In(first + 2); given(v) {
		c := lower.Call(l, first+2)
		if c == nil {
			return
		}
		sizes = c.In[first+2]
	}
	if index.Elems(y) == 0 || index.Elems(x) == 0 {
		if l.Out[0].Len() > 0 {
			lower.Fill(l, 0, 0)
		}
		return
	}
	// Merge adjacent axes that are not resized.
	var ins, outs []int
	var lines []*resizeLine
	for i, line := range resizeLines(n, x, y, nil, scales, sizes) {
		if k := len(lines) - 1; line == nil && k >= 0 && lines[k] == nil {
			ins[k], outs[k] = ins[k]*x[i], outs[k]*y[i]
			continue
		}
		ins, outs, lines = append(ins, x[i]), append(outs, y[i]), append(lines, line)
	}
	if !lower.MustFit(l, ins, maxResizeDims) {
		return
	}
	more := maxResizeDims - len(lines)
	lines = append(make([]*resizeLine, more), lines...)
	mode, resized := n.Str("mode"), uint32(0)
	var step, start [maxResizeDims]fixed
	for d, line := range lines {
		if line == nil {
			continue
		}
		shift := 0.0
		if mode == "nearest" {
			shift = nearestShift[n.Str("nearest_mode")]
		}
		resized |= 1 << d
		begin := line.place(0)
		step[d], start[d] = newFixed(line.place(1)-begin), newFixed(begin+shift)
		if line.out == 1 {
			step[d] = fixed{}
		}
		if mode == "nearest" && !line.nearestBy(step[d], start[d]) {
			l.Refuse("axis %d has coordinates too close to the middle between two inputs for the kernel's fixed point", d-more)
			return
		}
	}
	push := append(lower.Words(l, l.Out[0].Len()), lower.Bits(n.Float("cubic_coeff_a")))
	push = append(push, lower.Words(l, index.Padded(maxResizeDims, ins, 1)...)...)
	push = append(push, lower.Words(l, index.Padded(maxResizeDims, outs, 1)...)...)
	for _, list := range [][maxResizeDims]fixed{step, start} {
		for _, f := range list {
			push = append(push, uint32(f.whole))
		}
		for _, f := range list {
			push = append(push, f.part)
		}
	}
	l.Dispatches = append(l.Dispatches, graph.Dispatch{
		Kernel: resizeKernel, Spec: []uint32{resizeModes[mode], resized, lower.OneIf(back)}, Push: push,
		Buffers: []graph.Buffer{lower.Writes(0), lower.Reads(0)}, Groups: lower.InLine(l, index.CeilDiv(l.Out[0].Len(), 64)),
	})
}

func newFixed(x float64) fixed {
	v := int64(math.Round(x * (1 << 32)))
	return fixed{int32(v >> 32), uint32(v)}
}

// nearestBy reports whether start + o·step selects the right tap for each output o.
func (l resizeLine) nearestBy(step, start fixed) bool {
	for o := range l.out {
		at := int((start.bits() + int64(o)*step.bits()) >> 32)
		if taps := l.taps(o); len(taps) != 1 || taps[0].at != max(0, min(at, l.in-1)) {
			return false
		}
	}
	return true
}
