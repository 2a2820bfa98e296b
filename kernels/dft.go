package kernels

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"memopt/internal/graph"
	"memopt/kernels/internal/index"
	"memopt/kernels/lower"
)

const dftAttrs = "inverse int=0, onesided int=0"

var _ = define(graph.Op{
	Name:  "DFT",
	Since: 20,
	Doc:   "the discrete Fourier transform along an axis; the last dim holds the real and imaginary part",
	In:    "input, dft_length?, axis?",
	Out:   "output",
	Attrs: dftAttrs,
	Known: []int{1, 2},
	Infer: func(n *graph.Node) {
		x := n.Inputs[0]
		wantType(n, 0, isFloat, "floats")
		length, axis := dftLength(n, x.Shape, 1)
		parts, ok := x.Shape[x.Rank()-1].Const()
		if !ok || parts != 1 && parts != 2 {
			n.Fail("the last dim must be 1 (real numbers) or 2 (complex ones), but is %s", x.Shape[x.Rank()-1])
		}
		y := slices.Clone(x.Shape)
		y[axis], y[len(y)-1] = length, graph.Num(2)
		switch inverse := n.Int("inverse") != 0; {
		case n.Int("onesided") == 0:
		case inverse && parts == 1:
			n.Fail("the one-sided spectrum of an inverse transform must be complex: its last dim is 1, not 2")
		case inverse:
			y[len(y)-1] = graph.Num(1)
		case parts == 2:
			n.Fail("onesided needs real input: the last dim is 2, not 1")
		default:
			y[axis] = length.FloorDiv(graph.Num(2)).Add(graph.Num(1))
		}
		n.Set(0, x.Type, y)
	},
	Grad: func(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
		dx := make([]*graph.Value, len(n.Inputs))
		dx[0] = b.Op("memopt.DFTGrad", convCopy(n), dy[0], shapeOf(b, n.Inputs[0]), n.In(1), n.In(2))
		return dx
	},
	Eval:      func(c *graph.Call) { newTransform(c, 1).plain(c.In[0], c.Out[0]) },
	Fast:      func(c *graph.Call) { newTransform(c, 1).fast(c) },
	Scratch:   func(n *graph.Node) graph.Dim { return transformWork(n, n.Inputs[0].Shape, 1) },
	Lower:     func(l *graph.Lowering) { lowerTransform(l, 1) },
	Flops:     func(n *graph.Node) graph.Dim { return transformFlops(n, n.Inputs[0].Shape, 1) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.transforms(c.In[0].Shape, 1) }), NoScalars: true},
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[2,8,1]",
		"f32[2,6,2]",
		"f32[2,5,3,2], _, i64[]{1}",
		"f32[2,5,3,2], i64[]{8}, i64[]{-3}",
		"f32[2,9,1], i64[]{4}; onesided=1",
		"f32[12,2,1], _, i64[]{0}; onesided=1",
		"f32[7,1]; onesided=1",
		"f32[3,15,2]; inverse=1",
		"f32[2,4,1], i64[]{6}; inverse=1",
		"f32[2,5,2]; inverse=1 onesided=1",
		"f32[2,5,3,2], i64[]{7}, i64[]{1}; inverse=1 onesided=1",
		"f32[2,9,2], i64[]{6}; inverse=1 onesided=1",
		"f32[1,67,2]",
		"f32[2,71,1]; onesided=1",
		"f32[1,64,2], i64[]{136}",
		"f64[3,4,2]",
		"f16[2,8,2]",
		"f32[0,4,2]",
		"f32[1,2]",
		"f32[2,0,2], i64[]{4}",
	},
})

var _ = define(graph.Op{
	Name:   "DFTGrad",
	Domain: own,
	Doc:    "the gradient of DFT: the conjugate transform",
	In:     "dY, shape, dft_length?, axis?",
	Out:    "dX",
	Attrs:  dftAttrs,
	Known:  []int{1, 2, 3},
	Infer: func(n *graph.Node) {
		wantType(n, 0, isFloat, "floats")
		shape := graph.Shape(knownDims(n, 1, "shape"))
		dftLength(n, shape, 2)
		n.Set(0, n.Inputs[0].Type, shape)
	},
	NoGrad:    true,
	Eval:      func(c *graph.Call) { newTransform(c, 2).plain(c.In[0], c.Out[0]) },
	Fast:      func(c *graph.Call) { newTransform(c, 2).fast(c) },
	Scratch:   func(n *graph.Node) graph.Dim { return transformWork(n, n.Outputs[0].Shape, 2) },
	Lower:     func(l *graph.Lowering) { lowerTransform(l, 2) },
	Flops:     func(n *graph.Node) graph.Dim { return transformFlops(n, n.Outputs[0].Shape, 2) },
	Tests:     graph.Tests{Work: counted(func(c sampled) int64 { return c.transforms(c.outs(0), 2) })},
	Recompute: graph.Heavy,
	Samples: []string{
		"f32[2,8,2], i64{2,8,1}",
		"f32[2,5,3,2], i64{2,5,3,2}, _, i64[]{1}",
		"f32[2,3,2], i64{2,9,1}, i64[]{4}; onesided=1",
		"f32[2,8,1], i64{2,5,2}; inverse=1 onesided=1",
		"f32[2,6,1], i64{2,9,2}, i64[]{6}; inverse=1 onesided=1",
		"f32[2,6,2], i64{2,4,1}, i64[]{6}; inverse=1",
		"f32[1,136,2], i64{1,64,2}, i64[]{136}",
		"f32[1,67,2], i64{1,67,2}",
		"f16[2,8,2], i64{2,8,2}",
		"f32[0,4,2], i64{0,4,2}",
	},
})

// Before opset 20 the axis is an attribute.
var _ = define(graph.Op{
	Name:  "DFT",
	Since: 17,
	Doc:   "the form of opset 17, with the axis as an attribute",
	In:    "input, dft_length?",
	Out:   "output",
	Attrs: "axis int=1, " + dftAttrs,
	Rewrite: func(b *graph.Builder, n *graph.Node) []*graph.Value {
		attrs := graph.A{"inverse": n.Int("inverse"), "onesided": n.Int("onesided")}
		return []*graph.Value{b.Op("DFT", attrs, n.Inputs[0], n.In(1), b.Int(graph.Num(int64(n.Int("axis")))))}
	},
})

// dftAxis is the axis of a transform of a tensor with rank dims. Input number at is the
// length, the next one the axis.
func dftAxis(n *graph.Node, rank, at int) int {
	axis := -2
	if n.In(at+1) != nil {
		axis = int(knownInts(n, at+1, "axis")[0])
	}
	if rank < 2 || axis < -rank || axis >= rank || (axis+rank)%rank == rank-1 {
		n.Fail("axis %d is out of range for %d dims, of which the last holds the real and imaginary part", axis, rank)
	}
	return (axis + rank) % rank
}

// dftLength returns the number of points of a transform, and its axis.
func dftLength(n *graph.Node, x graph.Shape, at int) (graph.Dim, int) {
	for i := at; i < at+2; i++ {
		wantType(n, i, isIndex, "int32 or int64")
	}
	axis := dftAxis(n, len(x), at)
	length := x[axis]
	switch {
	case n.In(at) != nil:
		length = knownDims(n, at, "dft_length")[0]
	case n.Int("inverse") != 0 && n.Int("onesided") != 0:
		length = length.Sub(graph.Num(1)).Mul(graph.Num(2))
	}
	if points, known := length.Const(); known && points < 1 {
		n.Fail("the transform has %d points; at least 1 expected", points)
	}
	return length, axis
}

// transform describes a DFT or its gradient. Along an axis
//
//	y[k] = scale · Σ x[j]·exp(turn·2πi·j·k/points)
//
// for k < to, summed over j < from; the other outputs are 0. A one-sided spectrum stands
// for the whole: its elements count twice, except points 0 and points/2, which have no
// mirror image.
type transform struct {
	points           int
	from, to         int // elements of a line that are read and computed
	lines, after     int
	inAxis, outAxis  int
	inParts, outPart int // 1: real, 2: complex
	turn             float64
	scale            float64
	twiceIn          bool // the input is a one-sided spectrum
	twiceOut         bool // the output is the gradient of one
}

// newTransform describes a call. The length is input number at: 1 for DFT, 2 for its
// gradient.
func newTransform(c *graph.Call, at int) transform {
	n, back := c.Node, at == 2
	x, y := c.In[0].Shape, c.Out[0].Shape
	signal, spectrum := x, y // of the forward pass
	if back {
		signal, spectrum = y, x
	}
	axis, last := dftAxis(n, len(x), at), len(x)-1
	inverse, onesided := n.Int("inverse") != 0, n.Int("onesided") != 0
	t := transform{points: spectrum[axis], inAxis: x[axis], outAxis: y[axis], inParts: x[last], outPart: y[last], turn: -1, scale: 1}
	switch length := input(c, at); {
	case length != nil:
		t.points = int(length.Int(0))
	case onesided:
		t.points = signal[axis]
		if inverse {
			t.points = 2 * (signal[axis] - 1)
		}
	}
	given := min(signal[axis], t.points)
	if onesided && inverse {
		given = min(signal[axis], t.points/2+1)
		t.twiceIn, t.twiceOut = !back, back
	}
	t.from, t.to = given, spectrum[axis]
	if inverse != back {
		t.turn = 1
	}
	if back {
		t.from, t.to = t.to, t.from
	}
	if inverse {
		t.scale = 1 / float64(t.points)
	}
	t.after = index.Elems(x[axis+1 : last])
	t.lines = index.Elems(x[:axis]) * t.after
	return t
}

// weight is 2 for elements of a one-sided spectrum that have a mirror image, else 1.
func (t transform) weight(twice bool, k int) float64 {
	if twice && k != 0 && 2*k != t.points {
		return 2
	}
	return 1
}

// at is the offset of element k of a line in a tensor.
func (t transform) at(line, k, axis, parts int) int {
	return ((line/t.after*axis+k)*t.after + line%t.after) * parts
}

// load reads a line, padded with zeros.
func (t transform) load(x *graph.Tensor, line int, to []complex128) {
	clear(to)
	for k := range t.from {
		at, w := t.at(line, k, t.inAxis, t.inParts), t.weight(t.twiceIn, k)
		im := 0.0
		if t.inParts == 2 {
			im = w * x.Float(at+1)
		}
		to[k] = complex(w*x.Float(at), im)
	}
}

// store writes a line.
func (t transform) store(y *graph.Tensor, line int, from []complex128) {
	for k := range t.outAxis {
		at, v := t.at(line, k, t.outAxis, t.outPart), complex128(0)
		if k < t.to {
			v = complex(t.scale*t.weight(t.twiceOut, k), 0) * from[k]
		}
		y.SetFloat(at, real(v))
		if t.outPart == 2 {
			y.SetFloat(at+1, imag(v))
		}
	}
}

// roots fills w with the powers of exp(turn·2πi/points).
func roots(w []complex128, turn float64) {
	n := len(w)
	for k := range w {
		// Computed in eighths of a turn, so that multiples of a quarter turn are exact.
		eighth, rest := 8*k/n, 8*k%n
		if eighth%2 == 1 {
			rest = n - rest
		}
		sin, cos := math.Sincos(math.Pi / 4 * float64(rest) / float64(n))
		if eighth%4 == 1 || eighth%4 == 2 {
			sin, cos = cos, sin
		}
		if eighth >= 2 && eighth < 6 {
			cos = -cos
		}
		if eighth >= 4 {
			sin = -sin
		}
		w[k] = complex(cos, turn*sin)
	}
}

// plain evaluates the definition.
func (t transform) plain(x, y *graph.Tensor) {
	w, in, out := make([]complex128, t.points), make([]complex128, t.points), make([]complex128, t.points)
	roots(w, t.turn)
	for line := range t.lines {
		t.load(x, line, in)
		for k := range t.to {
			out[k] = 0
			for j, v := range in[:t.from] {
				out[k] += v * w[j*k%t.points]
			}
		}
		t.store(y, line, out)
	}
}

// radices factors the number of points into the radices of the FFT: fours first, then primes.
func radices(points int) (list []int) {
	for points%4 == 0 {
		list, points = append(list, 4), points/4
	}
	for p := 2; points > 1; p++ {
		if p*p > points {
			p = points
		}
		for points%p == 0 {
			list, points = append(list, p), points/p
		}
	}
	return list
}

// maxRadix is the largest radix of the FFT. Lengths with a larger prime factor use
// Bluestein's algorithm.
const maxRadix = 61

// isConvolved reports whether a length uses Bluestein's algorithm.
func isConvolved(points int) bool {
	list := radices(points)
	return len(list) > 0 && slices.Max(list) > maxRadix
}

// convolved is the length of Bluestein's convolution, a power of two.
func convolved(points int) int {
	m := 1
	for m < 2*points-1 {
		m *= 2
	}
	return m
}

// transformLanes is the most lines that are transformed concurrently, each with work space.
const transformLanes = 8

// transformWork is Fast's work space in bytes: tables, and two lines for each lane.
func transformWork(n *graph.Node, signal graph.Shape, at int) graph.Dim {
	length, axis := dftLength(n, signal, at)
	lanes := graph.Num(transformLanes).Min(linesOf(signal, axis))
	tables, line := length, length
	if points, known := length.Const(); !known {
		// An upper bound: the power of two is less than four times the length.
		tables, line = length.Mul(graph.Num(9)), length.Mul(graph.Num(4))
	} else if isConvolved(int(points)) {
		m := int64(convolved(int(points)))
		tables, line = graph.Num(points+2*m), graph.Num(m)
	}
	return tables.Add(line.Mul(graph.Num(2)).Mul(lanes)).Mul(graph.Num(16))
}

// linesOf is the number of lines along an axis.
func linesOf(x graph.Shape, axis int) graph.Dim {
	return x[:axis].Elems().Mul(x[axis+1 : len(x)-1].Elems())
}

// transformFlops counts eight operations for each term of each sum. A symbolic length is
// priced like a power of two near 1000.
func transformFlops(n *graph.Node, signal graph.Shape, at int) graph.Dim {
	length, axis := dftLength(n, signal, at)
	each := length.Mul(graph.Num(8 * 20))
	if points, known := length.Const(); known {
		each = graph.Num(8 * sumsOf(int(points)))
	}
	return linesOf(signal, axis).Mul(each)
}

// sumsOf is the number of terms of all sums of a line.
func sumsOf(points int) int64 {
	times := int64(1)
	if isConvolved(points) {
		points, times = convolved(points), 2
	}
	terms := int64(1)
	for _, r := range radices(points) {
		terms += int64(r)
	}
	return times * int64(points) * terms
}

// fast is the FFT in float64, each line by one worker.
func (t transform) fast(c *graph.Call) {
	if t.lines == 0 || c.Out[0].Len() == 0 {
		return
	}
	work := scratchComplex(c)
	take := func(n int) []complex128 {
		part := work[:n:n]
		work = work[n:]
		return part
	}
	length := t.points
	var chirp, spectrum []complex128
	if isConvolved(t.points) {
		length = convolved(t.points)
		chirp, spectrum = take(t.points), take(length)
	}
	list, w := radices(length), take(length)
	lanes := min(transformLanes, t.lines)
	lines := take(2 * length * lanes)
	if chirp == nil {
		roots(w, t.turn)
	} else {
		roots(w, -1)
		t.chirp(chirp)
		a, b := lines[:length], lines[length:2*length]
		clear(a)
		for k, v := range chirp {
			a[k] = cmplx.Conj(v)
			a[(length-k)%length] = a[k]
		}
		copy(spectrum, stockham(a, b, w, list))
	}
	c.Parallel(lanes, 1, func(lo, hi int) {
		for lane := lo; lane < hi; lane++ {
			a, b := lines[2*lane*length:][:length], lines[(2*lane+1)*length:][:length]
			for line := lane; line < t.lines; line += lanes {
				t.load(c.In[0], line, a)
				if chirp == nil {
					t.store(c.Out[0], line, stockham(a, b, w, list))
					continue
				}
				// Bluestein: Σ x[j]·w^(jk) is a convolution, as 2jk = j² + k² − (k−j)².
				for k, v := range chirp {
					a[k] *= v
				}
				y := stockham(a, b, w, list)
				for k, v := range spectrum {
					y[k] = cmplx.Conj(y[k] * v)
				}
				other := a
				if &y[0] == &a[0] {
					other = b
				}
				y = stockham(y, other, w, list)
				for k, v := range chirp {
					y[k] = v * cmplx.Conj(y[k]) / complex(float64(length), 0)
				}
				t.store(c.Out[0], line, y)
			}
		}
	})
}

// chirp fills w with exp(turn·πi·k²/points).
func (t transform) chirp(w []complex128) {
	for k := range w {
		turn := k * k % (2 * t.points)
		sin, cos := math.Sincos(math.Pi * float64(turn) / float64(t.points))
		w[k] = complex(cos, t.turn*sin)
	}
}

// stockham is the Stockham FFT of x with roots of unity w. The result is in x or y, and is
// returned. See Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7.
func stockham(x, y, w []complex128, radices []int) []complex128 {
	points, stride := len(x), 1 // of the sub-transforms that are left
	for _, r := range radices {
		m := points / r
		for p := range m {
			for q := range stride {
				in, out := x[q+stride*p:], y[q+stride*r*p:]
				if r == 4 {
					a, b, c, d := in[0], in[stride*m], in[2*stride*m], in[3*stride*m]
					even, odd, sum, rotated := a+c, a-c, b+d, (b-d)*w[len(x)/4]
					out[0] = even + sum
					out[stride] = (odd + rotated) * w[stride*p]
					out[2*stride] = (even - sum) * w[2*stride*p]
					out[3*stride] = (odd - rotated) * w[3*stride*p]
					continue
				}
				for u := range r {
					sum, at, step := complex128(0), stride*p*u, len(x)/r*u
					for t := range r {
						sum += in[stride*m*t] * w[at]
						if at += step; at >= len(x) {
							at -= len(x)
						}
					}
					out[stride*u] = sum
				}
			}
		}
		x, y = y, x
		points, stride = m, stride*r
	}
	return x
}

var dftKernel = lower.Shader("dft", "dft.comp")

const (
	// maxPassRadix is the largest radix of a pass. Small radices are multiplied up to it:
	// fewer passes move fewer bytes.
	maxPassRadix = 32
	// maxPassPoints bounds the complex numbers in work space, unless one line has more.
	maxPassPoints = 1 << 21
)

// passRadices returns the radix of each pass.
func passRadices(points int) (list []int) {
	for _, r := range radices(points) {
		if k := len(list) - 1; k >= 0 && list[k]*r <= maxPassRadix {
			list[k] *= r
		} else {
			list = append(list, r)
		}
	}
	if list == nil {
		return []int{1}
	}
	return list
}

// lowerTransform lowers DFT (at is 1) and its gradient (2); the length is input number at.
func lowerTransform(l *graph.Lowering, at int) {
	if l.In[0].Type != graph.Float32 {
		l.Refuse("input 0 is %s; there is a kernel for f32", l.In[0].Type)
		return
	}
	c := &graph.Call{}
	if lower.In(l, at) != nil {
		c = lower.Call(l, at)
	} else {
		c = lower.Call(l)
	}
	if c == nil || l.Out[0].Len() == 0 {
		return
	}
	if l.In[0].Len() == 0 {
		lower.Fill(l, 0, 0)
		return
	}
	t := newTransform(c, at)
	const most = 1 << 28 // eighths are counted in 32 bits
	if t.points > most {
		l.Refuse("the transform has %d points; the kernel takes at most %d", t.points, most)
		return
	}
	list := passRadices(t.points)
	chunk := max(1, min(t.lines, maxPassPoints/t.points))
	table := lower.Aligned(int64(8 * t.points))
	between := lower.Aligned(int64(8 * t.points * chunk))
	l.Scratch = table + between*int64(min(2, len(list)-1))
	roots := lower.Scratch(0, table, false)
	part := func(i int, written bool) graph.Buffer {
		return lower.Scratch(table+between*int64(i%2), between, written)
	}

	pass := func(first, lines, invocations, radix, stride int, spec [3]bool, y, x, w graph.Buffer) {
		push := lower.Words(l, t.points, first, lines, t.after, t.inAxis, t.from, t.inParts, t.outAxis, t.to, t.outPart, radix, stride)
		l.Dispatches = append(l.Dispatches, graph.Dispatch{
			Kernel:  dftKernel,
			Spec:    []uint32{lower.OneIf(spec[0]), lower.OneIf(spec[1]), lower.OneIf(spec[2]), lower.OneIf(t.twiceIn), lower.OneIf(t.twiceOut)},
			Push:    append(push, lower.Bits(t.scale), lower.Bits(t.turn)),
			Buffers: []graph.Buffer{y, x, w}, Groups: lower.InLine(l, index.CeilDiv(invocations, 64)),
		})
	}
	pass(0, 0, t.points, 1, 1, [3]bool{}, lower.Scratch(0, table, true), lower.Unused(false), lower.Unused(false))
	for first := 0; first < t.lines; first += chunk {
		lines, stride := min(chunk, t.lines-first), 1
		for i, r := range list {
			x, y, each := part(i+1, false), part(i, true), t.points
			begins, ends := i == 0, i == len(list)-1
			if begins {
				x = lower.Reads(0)
			}
			if ends {
				y, each = lower.Writes(0), t.outAxis
			}
			pass(first, lines, lines*each, r, stride, [3]bool{true, begins, ends}, y, x, roots)
			stride *= r
		}
	}
}

// transforms is the work of a DFT of a signal. Input number at is the length, the next one
// the axis.
func (c sampled) transforms(signal []int, at int) int64 {
	axis := len(signal) - 2
	if len(c.In) > at+1 && c.In[at+1] != nil {
		axis = (int(c.In[at+1].Int(0)) + len(signal)) % len(signal)
	}
	points := signal[axis]
	switch {
	case len(c.In) > at && c.In[at] != nil:
		points = int(c.In[at].Int(0))
	case c.Node.Int("inverse") != 0 && c.Node.Int("onesided") != 0:
		points = 2*points - 2
	}
	lines := int64(1)
	for i, d := range signal[:len(signal)-1] {
		if i != axis {
			lines *= int64(d)
		}
	}
	count := func(points int) (terms int64, longest int) {
		terms = 1
		for ; points%4 == 0; points /= 4 {
			terms += 4
		}
		for p := 2; points > 1; p++ {
			for ; points%p == 0; points /= p {
				terms, longest = terms+int64(p), p
			}
		}
		return terms, longest
	}
	terms, longest := count(points)
	if longest > 61 {
		lines, points = 2*lines, 1<<len(fmt.Sprintf("%b", 2*points-2))
		terms, _ = count(points)
	}
	return lines * 8 * int64(points) * terms
}
