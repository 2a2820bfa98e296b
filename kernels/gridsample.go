package kernels

import (
	"math"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/f32"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

const gridAttrs = "align_corners int=0, mode string=linear, padding_mode string=zeros"

var (
	gridModes   = []string{"linear", "nearest", "cubic"}
	gridPadding = []string{"zeros", "border", "reflection"}
)

var _ = define(graph.Op{
	Name:  "GridSample",
	Since: 20,
	Doc:   "samples the data at the points of a grid, whose coordinates go from −1 to 1 along each axis",
	In:    "X, grid",
	Out:   "Y",
	Attrs: gridAttrs,
	Infer: func(n *graph.Node) {
		x, grid := n.Inputs[0], n.Inputs[1]
		wantGrid(n, x.Shape, grid)
		n.Set(0, x.Type, slices.Concat(graph.Shape{x.Shape[0], x.Shape[1]}, grid.Shape[1:grid.Rank()-1]))
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		return b.Ops("memopt.GridSampleGrad", convCopy(n), 2, dy[0], n.Inputs[0], n.Inputs[1])
	},
	Eval:      func(c *graph.Call) { newSampler(c, 0).forward(c, f32.Serial) },
	Fast:      func(c *graph.Call) { newSampler(c, 0).forward(c, c.Parallel) },
	Lower:     lowerGridSample,
	Flops:     func(n *graph.Node) graph.Dim { return gridFlops(n, n.Outputs[0].Shape, n.Inputs[1].Shape, 2) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return 2 * c.out(0) * c.taps(1) })},
	Recompute: graph.Cheap,
	Samples: []string{
		"f32[2,3,4,5], f32[2,3,2,2]",
		"f32[2,3,4,5], f32[2,3,2,2]; align_corners=1",
		`f32[2,2,4,5], f32[2,3,4,2]; padding_mode="border"`,
		`f32[1,2,4,3], f32[1,5,4,2]; padding_mode="reflection"`,
		`f32[1,2,4,3], f32[1,5,4,2]; padding_mode="reflection" align_corners=1`,
		`f32[1,2,4,3], f32[1,5,4,2]; padding_mode="border" mode="nearest"`,
		`f32[2,2,4,3], f32[2,1,4,2]; mode="nearest" align_corners=1`,
		`f32[2,2,4,5], f32[2,3,4,2]; mode="cubic"`,
		`f32[1,2,4,5], f32[1,3,4,2]; mode="cubic" padding_mode="border" align_corners=1`,
		`f32[1,2,4,5], f32[1,3,4,2]; mode="cubic" padding_mode="reflection"`,
		"f32[1,2,3,4,5], f32[1,2,3,4,3]",
		`f32[1,2,3,4,5], f32[1,2,3,4,3]; mode="nearest" padding_mode="reflection"`,
		`f32[1,1,3,2,4], f32[1,1,2,2,3]; mode="cubic" padding_mode="border"`,
		`f32[2,3,6], f32[2,4,1]; padding_mode="border"`,
		`f32[1,2,1,1], f32[1,2,2,2]; align_corners=1 padding_mode="reflection"`,
		"f64[1,2,4,5], f32[1,3,4,2]",
		"f16[1,2,4,5], f16[1,3,4,2]",
		"f32[1,2,3,3], f32[1,0,4,2]",
		"f32[2,0,4,5], f32[2,3,2,2]",
	},
})

var _ = define(graph.Op{
	Name:   "GridSampleGrad",
	Domain: own,
	Doc:    "the gradients of GridSample for the data and for the grid",
	In:     "dY, X, grid",
	Out:    "dX?, dgrid?",
	Attrs:  gridAttrs,
	Infer: func(n *graph.Node) {
		x, grid := n.Inputs[1], n.Inputs[2]
		wantGrid(n, x.Shape, grid)
		if n.Output(0) != nil {
			n.Set(0, x.Type, x.Shape)
		}
		if n.Output(1) != nil {
			n.Set(1, grid.Type, grid.Shape)
		}
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { newSampler(c, 1).backward(c, f32.Serial) },
	Fast:      func(c *graph.Call) { newSampler(c, 1).backward(c, c.Parallel) },
	Lower:     lowerGridSampleGrad,
	Recompute: graph.Cheap,
	Flops: func(n *graph.Node) graph.Dim {
		// A multiply-add for each tap of dX, and for each tap and axis of dgrid.
		each := int64(0)
		if n.Output(0) != nil {
			each += 2
		}
		if n.Output(1) != nil {
			each += 2 * int64(n.Inputs[1].Rank()-2)
		}
		return gridFlops(n, n.Inputs[0].Shape, n.Inputs[2].Shape, each)
	},
	Tests: graph.Tests{
		Work: counted(func(c sampled) int64 {
			each := int64(0)
			if c.Node.Output(0) != nil {
				each += 2
			}
			if c.Node.Output(1) != nil {
				each += 2 * int64(len(c.In[1].Shape)-2)
			}
			return each * c.in(0) * c.taps(2)
		}),
	},
	Samples: []string{
		"f32[2,3,3,2], f32[2,3,4,5], f32[2,3,2,2]",
		`f32[2,2,3,4], f32[2,2,4,5], f32[2,3,4,2]; padding_mode="border" align_corners=1`,
		`f32[1,2,5,4], f32[1,2,4,3], f32[1,5,4,2]; padding_mode="reflection"`,
		`f32[1,2,3,4], f32[1,2,4,5], f32[1,3,4,2]; mode="cubic" padding_mode="reflection"`,
		`f32[1,2,5,4], f32[1,2,4,3], f32[1,5,4,2]; mode="nearest"`,
		"f32[1,2,2,3,4], f32[1,2,3,4,5], f32[1,2,3,4,3]",
		`f32[1,2,2,3,4], f32[1,2,3,4,5], f32[1,2,3,4,3]; mode="cubic" padding_mode="border"`,
		"f32[2,3,3,2], f32[2,3,4,5], f32[2,3,2,2] -> dx, _",
		"f32[2,3,3,2], f32[2,3,4,5], f32[2,3,2,2] -> _, dgrid",
		"f16[1,2,3,4], f16[1,2,4,5], f16[1,3,4,2]",
		"f32[1,2,0,4], f32[1,2,3,3], f32[1,0,4,2]",
	},
})

// Before opset 20 there are two spatial dims, and the modes have other names.
var _ = define(graph.Op{
	Name:  "GridSample",
	Since: 16,
	Doc:   "the form of opset 16, of images",
	In:    "X, grid",
	Out:   "Y",
	Attrs: "align_corners int=0, mode string=bilinear, padding_mode string=zeros",
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		attrs := convCopy(n)
		switch n.Str("mode") {
		case "bilinear":
			attrs["mode"] = "linear"
		case "bicubic":
			attrs["mode"] = "cubic"
		}
		return []*graph.Value{b.Op("GridSample", attrs, n.Inputs[0], n.Inputs[1])}
	},
})

// AffineGrid is rewritten into a product of theta with (x, y, …, 1) at each grid point.
var _ = define(graph.Op{
	Name:    "AffineGrid",
	Since:   20,
	Doc:     "a regular grid transformed by an affine map, for GridSample",
	In:      "theta, size",
	Out:     "grid",
	Attrs:   "align_corners int=0",
	Known:   []int{1},
	Samples: []string{"f32[2,2,3], i64{2,3,4,5}", "f32[1,3,4], i64{1,2,2,3,4}; align_corners=1"},
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		theta := n.Inputs[0]
		wantType(n, 0, isFloat, "floats")
		wantType(n, 1, isIndex, "int32 or int64")
		size := knownDims(n, 1, "size")
		rank := len(size) - 2
		if rank < 1 || theta.Rank() != 3 {
			n.Fail("theta must have 3 dims and size at least 3 numbers, but they have %d and %d", theta.Rank(), len(size))
		}
		n.Same(theta.Shape[1], graph.Num(int64(rank)), "theta's rows and the spatial dims")
		n.Same(theta.Shape[2], graph.Num(int64(rank+1)), "theta's columns and the spatial dims, and one")
		n.Same(theta.Shape[0], size[0], "batches of theta and of size")
		spatial := graph.Shape(size[2:])
		// A column [D, H, W, 1] for each coordinate; x, the last axis, comes first.
		columns := make([]*graph.Value, rank+1)
		full := append(slices.Clone(spatial), graph.Num(1))
		for i := range rank {
			axis := rank - 1 - i
			under := slices.Repeat(graph.Dims(1), rank+1)
			under[axis] = spatial[axis]
			line := b.Op("Range", nil, b.Int(graph.Num(0)), b.Int(spatial[axis]), b.Int(graph.Num(1)))
			line = b.Op("Cast", graph.A{"to": int(theta.Type)}, line)
			points := b.Op("Cast", graph.A{"to": int(theta.Type)}, b.Int(spatial[axis]))
			two := num(b, theta, 2)
			if n.Int("align_corners") != 0 {
				// 2i/(n−1) − 1; a single point is at 0.
				if spatial[axis].Is(1) {
					line = b.Op("Mul", nil, line, two)
				} else {
					line = b.Op("Div", nil, b.Op("Mul", nil, line, two), b.Op("Sub", nil, points, num(b, theta, 1)))
					line = b.Op("Sub", nil, line, num(b, theta, 1))
				}
			} else {
				line = b.Op("Div", nil, b.Op("Add", nil, b.Op("Mul", nil, line, two), num(b, theta, 1)), points)
				line = b.Op("Sub", nil, line, num(b, theta, 1))
			}
			columns[i] = b.Op("Expand", nil, reshape(b, line, under), b.Ints(full...))
		}
		columns[rank] = b.Op("Expand", nil, num(b, theta, 1), b.Ints(full...))
		base := reshape(b, b.Op("Concat", graph.A{"axis": -1}, columns...), graph.Shape{spatial.Elems(), graph.Num(int64(rank + 1))})
		grid := b.Op("MatMul", nil, base, b.Op("Transpose", graph.A{"perm": []int64{0, 2, 1}}, theta))
		return []*graph.Value{reshape(b, grid, slices.Concat(graph.Shape{theta.Shape[0]}, spatial, graph.Dims(int64(rank))))}
	},
})

// wantGrid checks attributes, and that a grid fits data of shape x.
func wantGrid(n *graph.Node, x graph.Shape, grid *graph.Value) {
	for i := range n.Inputs {
		wantType(n, i, isFloat, "floats")
	}
	for _, a := range []struct {
		name   string
		values []string
	}{{"mode", gridModes}, {"padding_mode", gridPadding}} {
		if !slices.Contains(a.values, n.Str(a.name)) {
			n.Fail("%s is %q, not one of %s", a.name, n.Str(a.name), a.values)
		}
	}
	rank := len(x) - 2
	if rank < 1 || grid.Rank() != rank+2 {
		n.Fail("the data must be [N, C, …] and the grid [N, …, %d], but they are %s and %s", max(1, rank), x, grid.Shape)
	}
	n.Same(grid.Shape[rank+1], graph.Num(int64(rank)), "the grid's last dim and the number of spatial dims")
	n.Same(grid.Shape[0], x[0], "batches of data and grid")
}

// gridTaps is the number of elements along an axis that a sample interpolates.
var gridTaps = map[string]int{"linear": 2, "nearest": 1, "cubic": 4}

// gridFlops counts each operations for each element of y and each of its taps.
func gridFlops(n *graph.Node, y, grid graph.Shape, each int64) graph.Dim {
	for range len(grid) - 2 {
		each *= int64(gridTaps[n.Str("mode")])
	}
	return y.Elems().Mul(graph.Num(each))
}

// sampler samples data [N, C, plane] at points [N, points, rank].
type sampler struct {
	mode, padding                  string
	corners                        bool
	size, stride                   []int // of the spatial axes
	items, channels, plane, points int
	x, grid                        *graph.Tensor
}

// newSampler reads a call whose data is input number at, followed by the grid.
func newSampler(c *graph.Call, at int) sampler {
	x, grid := c.In[at], c.In[at+1]
	s := x.Shape
	size := s[2:]
	return sampler{
		mode: c.Node.Str("mode"), padding: c.Node.Str("padding_mode"), corners: c.Node.Int("align_corners") != 0,
		size: size, stride: index.Strides(size), items: s[0], channels: s[1], plane: index.Elems(size),
		points: index.Elems(grid.Shape[1 : len(grid.Shape)-1]), x: x, grid: grid,
	}
}

// gridTap is an element that a sample reads along an axis, with its weight and the derivative
// of the weight by the grid's coordinate. at is −1 outside the data.
type gridTap struct {
	at            int
	weight, slope float64
}

// along appends the taps along an axis for a coordinate of the grid; taps has room for four.
func (s sampler) along(axis int, place float64, taps []gridTap) []gridTap {
	n := s.size[axis]
	x, scale := s.unscaled(place, n), float64(n)/2
	if s.corners {
		scale = float64(n-1) / 2
	}
	if s.mode != "cubic" {
		var turn float64
		x, turn = s.inside(x, n)
		scale *= turn
	}
	if !(math.Abs(x) < 1<<30) {
		x, scale = -4, 0 // far outside, or NaN
	}
	first := math.Floor(x)
	f, base := x-first, int(first)
	taps = taps[:0]
	switch s.mode {
	case "nearest":
		taps = append(taps, gridTap{int(math.RoundToEven(x)), 1, 0})
	case "linear":
		taps = append(taps, gridTap{base, 1 - f, -scale}, gridTap{base + 1, f, scale})
	default:
		for i := range 4 {
			w, slope := cubicTap(f, i)
			at := base + i - 1
			if s.padding != "zeros" {
				in, _ := s.inside(float64(at), n)
				at = int(in)
			}
			taps = append(taps, gridTap{at, w, slope * scale})
		}
	}
	for i := range taps {
		if taps[i].at < 0 || taps[i].at >= n {
			taps[i].at = -1
		}
	}
	return taps
}

// unscaled maps a coordinate of the grid to a position among n elements. It rounds in the
// grid's own type, as ONNX defines: ties decide which element is nearest.
func (s sampler) unscaled(place float64, n int) float64 {
	if s.grid.Type == graph.Float64 {
		if s.corners {
			return (place + 1) / 2 * float64(n-1)
		}
		return ((place+1)*float64(n) - 1) / 2
	}
	x := float32(place) + 1
	if s.corners {
		return float64(x / 2 * float32(n-1))
	}
	x = float32(x * float32(n))
	return float64((x - 1) / 2)
}

// inside maps a position into [0, n) according to padding_mode, and returns the derivative
// of that map: 1, 0 or −1.
func (s sampler) inside(x float64, n int) (in, turn float64) {
	turn = 1
	if s.padding == "zeros" {
		return x, turn
	}
	if s.padding == "reflection" {
		low, span := -0.5, float64(n)
		if s.corners {
			low, span = 0, float64(n-1)
		}
		if span == 0 {
			return 0, 0
		}
		if x -= low; x < 0 {
			x, turn = -x, -1
		}
		times := math.Floor(x / span)
		x -= times * span
		if math.Mod(times, 2) != 0 {
			x, turn = span-x, -turn
		}
		x += low
	}
	if !(x > 0) {
		return 0, 0
	}
	if x >= float64(n-1) {
		return float64(n - 1), 0
	}
	return x, turn
}

// cubicTap returns the weight of tap i of four and its derivative, for a position that lies f
// after the second tap. The kernel is Keys' cubic convolution with a = −0.75.
func cubicTap(f float64, i int) (weight, slope float64) {
	const a = -0.75
	sign, x := 1.0, f+1-float64(i)
	if x < 0 {
		sign, x = -1, -x
	}
	if x <= 1 {
		return ((a+2)*x-(a+3))*x*x + 1, sign * (3*(a+2)*x - 2*(a+3)) * x
	}
	return ((a*x-5*a)*x+8*a)*x - 4*a, sign * ((3*a*x-10*a)*x + 8*a)
}

// gridPoint holds the taps of one grid point along each axis, and their outer product:
// elements of a plane of the data with weights.
type gridPoint struct {
	axes   [][]gridTap
	room   []gridTap
	at     []int
	weight []float64
	slope  [][]float64 // by coordinate of the grid
}

func (s sampler) newPoint() *gridPoint {
	rank := len(s.size)
	return &gridPoint{axes: make([][]gridTap, rank), room: make([]gridTap, 4*rank), slope: make([][]float64, rank)}
}

// move computes the taps of point i of an item, with slopes for the grid's gradient if asked.
func (p *gridPoint) move(s sampler, item, i int, slopes bool) {
	rank := len(s.size)
	from := (item*s.points + i) * rank
	for axis := range rank {
		p.axes[axis] = s.along(axis, s.grid.Float(from+rank-1-axis), p.room[4*axis:4*axis:4*axis+4])
	}
	p.at, p.weight = p.at[:0], p.weight[:0]
	for k := range p.slope {
		p.slope[k] = p.slope[k][:0]
	}
	count := len(p.axes[0])
	total := 1
	for range rank {
		total *= count
	}
	for which := range total {
		at, weight, inside := 0, 1.0, true
		for axis, rest := rank-1, which; axis >= 0; axis-- {
			t := p.axes[axis][rest%count]
			rest /= count
			inside = inside && t.at >= 0
			at += t.at * s.stride[axis]
			weight *= t.weight
		}
		if !inside {
			continue
		}
		p.at, p.weight = append(p.at, at), append(p.weight, weight)
		for k := range p.slope {
			if !slopes {
				break
			}
			slope := 1.0
			for axis, rest := rank-1, which; axis >= 0; axis-- {
				t := p.axes[axis][rest%count]
				rest /= count
				if axis == rank-1-k {
					slope *= t.slope
				} else {
					slope *= t.weight
				}
			}
			p.slope[k] = append(p.slope[k], slope)
		}
	}
}

// some is the least number of points worth a worker.
func (s sampler) some() int { return max(1, f32.Grain/8/max(1, s.channels)) }

// forward computes Y; workers divide the points.
func (s sampler) forward(c *graph.Call, par f32.Parallel) {
	y := c.Out[0]
	if y.Len() == 0 {
		return
	}
	par(s.items*s.points, s.some(), func(lo, hi int) {
		p := s.newPoint()
		for i := lo; i < hi; i++ {
			item, point := i/s.points, i%s.points
			p.move(s, item, point, false)
			for ch := range s.channels {
				plane := (item*s.channels + ch) * s.plane
				y.SetFloat((item*s.channels+ch)*s.points+point, s.sum(p.weight, p.at, plane))
			}
		}
	})
}

// backward computes dX, each plane by one worker over its points in order, and dgrid, point
// by point.
func (s sampler) backward(c *graph.Call, par f32.Parallel) {
	dy, dx, dgrid := c.In[0], output(c, 0), output(c, 1)
	rank := len(s.size)
	if dx != nil && dx.Len() > 0 {
		// Several channels share the taps of a point.
		const together = 8
		blocks := index.CeilDiv(s.channels, together)
		par(s.items*blocks, 1, func(lo, hi int) {
			p := s.newPoint()
			for own := lo; own < hi; own++ {
				item, first := own/blocks, own%blocks*together
				last := min(s.channels, first+together)
				sums := newSums(dx, (item*s.channels+first)*s.plane, (last-first)*s.plane)
				for i := range s.points {
					p.move(s, item, i, false)
					for ch := first; ch < last; ch++ {
						sums.add(p, (ch-first)*s.plane, dy.Float((item*s.channels+ch)*s.points+i))
					}
				}
				sums.store()
			}
		})
	}
	if dgrid == nil || dgrid.Len() == 0 {
		return
	}
	par(s.items*s.points, s.some(), func(lo, hi int) {
		p := s.newPoint()
		for i := lo; i < hi; i++ {
			item, point := i/s.points, i%s.points
			p.move(s, item, point, true)
			for k := range rank {
				sum := 0.0
				for ch := range s.channels {
					d, plane := dy.Float((item*s.channels+ch)*s.points+point), (item*s.channels+ch)*s.plane
					sum += d * s.sum(p.slope[k], p.at, plane)
				}
				dgrid.SetFloat(i*rank+k, sum)
			}
		}
	})
}

// sum is the weighted sum of elements of a plane.
func (s sampler) sum(weights []float64, at []int, plane int) (sum float64) {
	if s.x.Type == graph.Float32 {
		x := s.x.F32()[plane : plane+s.plane]
		for k, i := range at {
			sum += weights[k] * float64(x[i])
		}
		return sum
	}
	for k, i := range at {
		sum += weights[k] * s.x.Float(plane+i)
	}
	return sum
}

// gridSums accumulates into elements of a tensor from element from on: in place for float32,
// else in float64.
type gridSums struct {
	to     *graph.Tensor
	from   int
	single []float32
	wide   []float64
}

func newSums(to *graph.Tensor, from, n int) gridSums {
	s := gridSums{to: to, from: from}
	if to.Type == graph.Float32 {
		s.single = to.F32()[from : from+n]
		clear(s.single)
	} else {
		s.wide = make([]float64, n)
	}
	return s
}

func (s gridSums) add(p *gridPoint, plane int, d float64) {
	for k, at := range p.at {
		if s.single != nil {
			s.single[plane+at] += float32(d * p.weight[k])
		} else {
			s.wide[plane+at] += d * p.weight[k]
		}
	}
}

func (s gridSums) store() {
	for k, v := range s.wide {
		s.to.SetFloat(s.from+k, v)
	}
}

var gridKernel = lower.Shader("gridsample", "gridsample.comp")

// The passes of gridsample.comp.
const (
	gridSamples, gridSlopes, gridTake, gridClear, gridChain, gridAdd = 0, 1, 2, 3, 4, 5
)

// maxGridTaps bounds the words of work space for taps, unless one item has more.
const maxGridTaps = 1 << 23

// loweredGrid lowers a sampling.
type loweredGrid struct {
	l *graph.Lowering
	sampler
}

// pass appends pass n over some items, with groups workgroups of local invocations.
func (g loweredGrid) pass(n uint32, first, items, local, groups, owners int, buffers ...graph.Buffer) {
	push := lower.Words(g.l, append([]int{first, items, g.channels, g.points}, index.Padded(3, g.size, 1)...)...)
	g.l.Dispatches = append(g.l.Dispatches, graph.Dispatch{
		Kernel: gridKernel,
		Spec: []uint32{uint32(local), n, uint32(len(g.size)), uint32(slices.Index(gridModes, g.mode)),
			uint32(slices.Index(gridPadding, g.padding)), lower.OneIf(g.corners)},
		Push: append(push, lower.Words(g.l, owners)...), Buffers: buffers, Groups: lower.InLine(g.l, groups),
	})
}

const gridLocal = 64

func newLoweredGrid(l *graph.Lowering, at int) (g loweredGrid, ok bool) {
	if !lower.OnlyF32(l) {
		return g, false
	}
	g = loweredGrid{l, newSampler(lower.Call(l), at)}
	return g, lower.MustFit(l, g.size, 3)
}

func lowerGridSample(l *graph.Lowering) {
	g, ok := newLoweredGrid(l, 0)
	if n := l.Out[0].Len(); ok && n > 0 {
		if l.In[0].Len() == 0 {
			lower.Fill(l, 0, 0)
			return
		}
		g.pass(gridSamples, 0, g.items, gridLocal, index.CeilDiv(n, gridLocal), 0,
			lower.Writes(0), lower.Unused(false), lower.Reads(0), lower.Reads(1), lower.Unused(true), lower.Unused(true))
	}
}

func lowerGridSampleGrad(l *graph.Lowering) {
	g, ok := newLoweredGrid(l, 1)
	if !ok {
		return
	}
	if dgrid := lower.Out(l, 1); dgrid != nil && dgrid.Len() > 0 {
		if l.In[1].Len() == 0 {
			lower.Fill(l, 1, 0)
		} else {
			g.pass(gridSlopes, 0, g.items, gridLocal, index.CeilDiv(dgrid.Len(), gridLocal), 0,
				lower.Writes(1), lower.Reads(0), lower.Reads(1), lower.Reads(2), lower.Unused(true), lower.Unused(true))
		}
	}
	dx := lower.Out(l, 0)
	if dx == nil || dx.Len() == 0 {
		return
	}
	taps := g.points
	for range g.size {
		taps *= gridTaps[g.mode]
	}
	if taps == 0 {
		lower.Fill(l, 0, 0)
		return
	}
	each := g.plane + 2*taps
	chunk := max(1, min(g.items, maxGridTaps/(each+taps)))
	links, weights := lower.Aligned(int64(4*each*chunk)), lower.Aligned(int64(4*taps*chunk))
	l.Scratch = links + weights
	work := func(written bool) graph.Buffer { return lower.Scratch(0, links, written) }
	heavy := func(written bool) graph.Buffer { return lower.Scratch(links, weights, written) }
	owners := l.Limits.Subgroup
	if l.Limits.Shared {
		owners = chainOwners
	}
	owners = index.CeilDiv(owners, l.Limits.Subgroup) * l.Limits.Subgroup
	none := lower.Unused(false)
	for first := 0; first < g.items; first += chunk {
		items := min(chunk, g.items-first)
		some := func(n int) int { return index.CeilDiv(items*n, gridLocal) }
		g.pass(gridTake, first, items, gridLocal, some(g.points), 0, lower.Unused(true), none, none, lower.Reads(2), work(true), heavy(true))
		g.pass(gridClear, first, items, gridLocal, some(g.plane), 0, lower.Unused(true), none, none, none, work(true), lower.Unused(true))
		g.pass(gridChain, first, items, l.Limits.Subgroup, items*owners/l.Limits.Subgroup, owners, lower.Unused(true), none, none, none, work(true), lower.Unused(true))
		g.pass(gridAdd, first, items, gridLocal, some(g.channels*g.plane), 0, lower.Writes(0), lower.Reads(0), none, none, lower.Unwritten(work(true)), lower.Unwritten(heavy(true)))
	}
}

// taps is the number of elements of the data that each grid point reads.
func (c sampled) taps(grid int) int64 {
	n, each := int64(1), map[string]int64{"linear": 2, "nearest": 1, "cubic": 4}[c.Node.Str("mode")]
	for range c.In[grid].Shape[2:] {
		n *= each
	}
	return n
}
